"""One .tar.gz: README.txt, the files, and manifest.sha256 of all of them. The same run gives the same bytes."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodegate.causes.lines import line
from nodegate.errors import UsageError
from nodegate.rma.clean import Clean
from nodegate.rma.contents import BUG_REPORT, Contents
from nodegate.rma.subject import Subject
from nodegate.text import day_of, visible

MANIFEST, README = "manifest.sha256", "README.txt"
# What vendors of GPUs and servers ask for: what, the files that have it, how to get it otherwise.
ASKED_FOR = (
    ("serial numbers of the chassis and its GPUs", ("serials.txt",), "read the labels, or dmidecode and nvidia-smi -q"),
    ("what was found, and how", ("findings.txt", "findings.json"), "run nodegate again on the node"),
    ("measurements as they were taken", ("evidence/facts.json",), "run nodegate again on the node"),
    ("kernel log (Xid, AER, MCE lines)", ("kernel-log.txt",), "journalctl -k --no-pager, of the boot of the fault"),
    ("what was with it before, what was tried", ("history.txt", "history-of-part.txt"), "say it in the ticket"),
    (BUG_REPORT, (BUG_REPORT,), "run nvidia-bug-report.sh as root before the node is powered off, then --bug-report"),
    ("NVIDIA's field diagnostics (fieldiag)", (), "get it from the vendor; the node must be drained"),
    ("the BMC's event log", (), "ipmitool sel elist, or the BMC's page"),
    ("order or contract number", ("contract.txt",), "ask who bought it"),
    ("photos of the board, its label and its slot", (), "take them before it is shipped"),
)


def readme(about: Subject, found: Contents, clean: Clean, *, redacted: bool) -> bytes:
    """What it is about, from when, by which versions; what a vendor asks for, and what of it is here."""
    text = "".join(f"{clean.text(visible(line))}\n" for line in _lines(about, found, redacted=redacted))
    return text.encode("utf-8", "backslashreplace")


def _lines(about: Subject, found: Contents, *, redacted: bool) -> Iterator[str]:
    run, node = about.report.run, about.node
    part = f", part S/N {about.serial}" if about.serial else ""
    yield f"{about.name}{part}: {node.verdict.value}"
    yield f"run {run.id} ({run.profile}) of {day_of(run.started_epoch_s)}, UTC"
    yield f"nodegate {run.suite_version}" + "".join(f", {name} {it}" for name, it in sorted(run.versions.items()))
    yield from (f"{label}: {value}" for label, value in node.identity)
    yield from ("", "What is the matter:")
    yield from [f"  {each.severity.value}: {line(each).text}" for each in about.causes] or ["  nothing was found"]
    yield from ("", "What a vendor asks for:")
    for what, files, otherwise in ASKED_FOR:
        here = [name for name in files if name in found.files]
        yield f"  [x] {what}: {', '.join(here)}" if here else f"  [ ] {what}: not here - {otherwise}"
    if found.left_out:
        yield from ("", "Left out:", *(f"  {each}" for each in sorted(found.left_out)))
    yield from ("", "Names and serial numbers of other nodes are replaced by other-node-N.")
    if redacted:
        yield "Addresses, user names and serial numbers are redacted, but for the chassis and the parts that failed."
    if found.changed:
        yield f"So these differ from the run's own: {', '.join(found.changed)}."
    yield f"Check this archive with: sha256sum --check {MANIFEST}"


def pack(files: Mapping[str, bytes], root: str, epoch_s: float) -> bytes:
    """The archive, with a folder `root` in it; every time in it is that of the run."""
    lines = [f"{hashlib.sha256(raw).hexdigest()}  {name}\n" for name, raw in sorted(files.items())]
    whole = {**files, MANIFEST: "".join(lines).encode()}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, raw in sorted(whole.items()):
            info = tarfile.TarInfo(f"{root}/{name}")
            info.size, info.mtime, info.mode = len(raw), int(max(0, min(epoch_s, 1 << 33))), 0o644
            archive.addfile(info, io.BytesIO(raw))
    return packed.getvalue()


def write_new(path: Path, raw: bytes) -> None:
    """Write a file that is not there yet, or nothing. Raises UsageError: it is there, or cannot be written."""
    try:
        file = path.open("xb")
    except OSError as error:
        hint = "move it away, or name another file with --to" if isinstance(error, FileExistsError) else ""
        raise UsageError(f"cannot be written: {error.strerror}", file=str(path), hint=hint) from None
    try:
        with file:
            file.write(raw)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"cannot be written: {error.strerror}", file=str(path)) from None
        raise
