"""A certificate held against its run: it judges nothing again, and compares what is printed with what the run holds."""

from __future__ import annotations

import io
import re
import subprocess
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate, islice
from pathlib import Path

from nodegate.certificate.page import boxes, generator, page, result_word
from nodegate.certificate.register import Entry, Printed, plain, read, register, squeezed
from nodegate.certificate.rounds import kept, round_of
from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular, read_whole
from nodegate.records.manifest import MANIFEST, Manifest
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.report.stats import measurements
from nodegate.words.catalogue import TAGS, speaking

SIGNATURE_S = 30.0
NAMESPACE = "nodegate"
MOST_TEXTS = 50  # places where the text differs
_FAR = 400  # signs within which a text that differs goes on as in the run
_ALIKE, _CONTEXT = 12, 30  # signs after which it does, and that are shown before
_MOST_SHOWN = 120
MOST_BYTES = 64 << 20
MOST_PAGES = 5000
_HIDDEN = frozenset(("style", "script", "title"))
_PDF = b"%PDF-"
_HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared, and each difference in words; `nodes` are entries of the register."""

    run: str
    manifest_sha256: str
    nodes: int
    files: int
    differences: tuple[str, ...]


def verify(paper: Paper, folder: Path) -> Compared:
    """Hold a paper against a run folder.

    Raises:
        UsageError: run, manifest and result are not printed in it, another release wrote it (then what it has in
            brackets is equal), or the run has no manifest or cannot be read.
    """
    printed = read(paper.text)
    if not {"run", "manifest", "result"} <= printed.fields.keys():
        raise UsageError("run, manifest and result are not printed in it: name a certificate")
    manifest = Manifest(folder)
    if not manifest.exists:
        raise UsageError("the run has no manifest: nothing can be compared", file=str(folder / MANIFEST))
    report = load(folder)
    before = kept(folder)
    entries = register((*before.rounds, round_of(report)))
    known = {"run": report.run.id, "manifest": manifest.sha256, "result": result_word(report)}
    differences = [
        *(f"the paper names two of {name}" for name in printed.twice),
        *(
            f"{name}: {printed.fields[name]} on the paper, {value} in the run"
            for name, value in known.items()
            if printed.fields[name] != squeezed(plain(value))
        ),
        *_report_differs(report.run.manifest_sha256, known["manifest"]),
        *(str(each) for each in manifest.odd_files()),
        *_register_differs(printed, entries),
    ]
    if paper.generator == generator(report):
        fleet = measurements(report.nodes)
        found = [_text_differs(paper, report, page(report, fleet, before, lang), lang) for lang in TAGS]
        differences += [*min(found, key=len)]
    elif not differences:
        said = (
            f"verdicts, serial numbers and files are equal, but {paper.generator or 'another program'} wrote the rest"
        )
        raise UsageError(said, hint="compare it with the release that wrote it")
    return Compared(report.run.id, known["manifest"], len(entries), len(manifest.lines()), tuple(differences))


def _text_differs(paper: Paper, report: Report, html: str, lang: str) -> list[str]:
    """Where a paper differs from what this release writes; of an HTML file each byte, of a PDF each sign."""
    here, odd, pages = _bare(of_html(html).text), list[str](), [_bare(paper.text)]
    if paper.pages:
        with speaking(lang):
            odd, pages = _bodies(paper.pages, here, html, report)
    found = [*odd, *islice(_signs_differ(pages, here), MOST_TEXTS)]
    if not found and not paper.pages and paper.raw != html:
        found.append("the text is equal, but the file is not as nodegate wrote it")
    return found


def _bodies(pages: Sequence[str], here: str, html: str, report: Report) -> tuple[list[str], list[str]]:
    """What is odd about the boxes of pages, and each page without them and without heads of tables that go on."""
    heads = [_bare(of_html(each).text) for each in dict.fromkeys(_HEAD.findall(html))]
    left, number_of = boxes(report)
    odd, found, at = [], [], 0
    for number, each in enumerate(map(_bare, pages), 1):
        right = number_of.replace("\0", str(number), 1).replace("\0", str(len(pages)), 1)
        box = _bare(right + left)
        if not each.startswith(box):
            odd.append(f"page {number}: {each[: len(box)]} on the paper, {box} in the run")
        body = each[len(box) :]
        again = next((head for head in heads if body.startswith(head) and not here.startswith(head, at)), "")
        found.append(body[len(again) :])
        at += len(found[-1])
    return odd, found


def _signs_differ(pages: Sequence[str], here: str) -> Iterator[str]:
    """Each place where the pages have another text than the run, with the signs before it."""
    there, ends = "".join(pages), list(accumulate(map(len, pages)))
    at = on = 0  # here, there
    while here[at:] != there[on:]:
        pairs = enumerate(zip(here[at:], there[on:], strict=False))
        same = next((place for place, (a, b) in pairs if a != b), min(len(here) - at, len(there) - on))
        at, on = at + same, on + same
        lost, more = _apart(here[at : at + _FAR], there[on : on + _FAR]) or (len(here) - at, len(there) - on)
        paper, run = there[max(0, on - _CONTEXT) : on + more + _ALIKE], here[max(0, at - _CONTEXT) : at + lost + _ALIKE]
        where = f"page {bisect_right(ends, on) + 1}" if len(pages) > 1 else "text"
        yield f"{where}: {paper[:_MOST_SHOWN]} on the paper, {run[:_MOST_SHOWN]} in the run"
        at, on = at + lost, on + more


def _apart(here: str, there: str) -> tuple[int, int] | None:
    """How many signs of each are before both go on alike: the least."""
    for most in range(min(len(here), len(there))):
        if (found := there[: most + _ALIKE].find(here[most : most + _ALIKE])) >= 0:
            return most, found
        if (found := here[: most + _ALIKE].find(there[most : most + _ALIKE])) >= 0:
            return found, most
    return None


def _bare(text: str) -> str:
    """A text without blanks, and with its signs in one form: a PDF has ligatures and signs of its fonts."""
    return squeezed(unicodedata.normalize("NFKC", text))


def _report_differs(said: str, there: str) -> Iterator[str]:
    if said != there:
        yield f"report.json was made from manifest {said or '(none)'}, the folder has {there}"


def _register_differs(printed: Printed, entries: Sequence[Entry]) -> Iterator[str]:
    """Each node that has another verdict or serial number, or is on one side alone."""
    if printed.count != len(entries) or len(printed.entries) != len(entries):
        yield f"{len(printed.entries)} of {printed.count} nodes on the paper, {len(entries)} in the run"
    paper: dict[str, list[str]] = {}
    for entry in printed.entries:
        name, *cells = entry.split("|")
        if name in paper:
            yield f"{name}: twice on the paper"
        paper[name] = cells
    for each in entries:
        name, *cells = squeezed(each.text).split("|")
        there = paper.pop(name, None)
        if there is None:
            yield f"{each.node}: not on the paper"
        elif there != cells:
            gone, new = [one for one in cells if one not in there], [one for one in there if one not in cells]
            said = f"{', '.join(new) or 'nothing'} on the paper, {', '.join(gone) or 'nothing'} in the run"
            yield f"{each.node}: {said if gone or new else 'its parts are in another order'}"
    yield from (f"{name}: on the paper, not in the run" for name in paper)


def check_signature(file: Path, signature: Path, signers: Path, signer: str) -> str:
    """Why `ssh-keygen -Y verify` does not accept a signature; empty if it does.

    Raises:
        UsageError: ssh-keygen or a file is missing, or it did not end.
    """
    for each in (file, signature, signers):
        if not each.is_file():
            raise UsageError("no such file", file=str(each))
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", signer, "-n", NAMESPACE, "-s", str(signature)]
    try:
        with open_regular(file) as signed:
            done = subprocess.run(command, stdin=signed, capture_output=True, timeout=SIGNATURE_S, check=False)
    except FileNotFoundError:
        raise UsageError("ssh-keygen is missing", hint="install OpenSSH's client") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"ssh-keygen did not end within {SIGNATURE_S:g} s") from None
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return said[-1][:200] if said else f"ssh-keygen ended with {done.returncode}"


@dataclass(frozen=True)
class Paper:
    """What a person reads on the paper; `pages` of a PDF, `raw` of an HTML file. `generator` wrote it."""

    text: str
    generator: str = ""
    raw: str = ""
    pages: tuple[str, ...] = ()


def read_paper(file: Path) -> Paper:
    """A certificate from its file.

    Raises:
        UsageError: it cannot be read, is neither HTML nor PDF, or pypdf is missing.
    """
    try:
        raw = read_whole(file, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot be read ({error.strerror})", file=str(file)) from error
    if raw.startswith(_PDF):
        return _of_pdf(raw, file)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("neither an HTML file nor a PDF", file=str(file)) from None
    return of_html(text)


def _of_pdf(raw: bytes, file: Path) -> Paper:
    try:
        import pypdf  # noqa: PLC0415 - an extra
    except ImportError:
        hint = "pip install 'nodegate[pdf]', or name the HTML file"
        raise UsageError("reading a PDF needs pypdf", file=str(file), hint=hint) from None
    try:
        reader = pypdf.PdfReader(io.BytesIO(raw))
        count = len(reader.pages)
        texts = tuple(page.extract_text() for page in reader.pages) if count <= MOST_PAGES else ()
        title = (reader.metadata.title if reader.metadata else None) or ""
    except Exception as broken:  # a hostile PDF may fail anywhere in its reader
        raise UsageError(f"cannot be read as a PDF ({type(broken).__name__})", file=str(file)) from broken
    if count > MOST_PAGES:
        raise UsageError(f"it has more than {MOST_PAGES} pages", file=str(file))
    return Paper("\n".join(texts), title.rpartition(" - ")[2], pages=texts)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.generator = ""
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        given = dict(attrs)
        if tag == "meta" and given.get("name") == "generator":
            self.generator = self.generator or given.get("content") or ""

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN

    def handle_data(self, data: str) -> None:
        if self._hidden < 1:
            self.found.append(data)


def of_html(text: str) -> Paper:
    """A certificate from the text of its HTML file."""
    reader = _Text()
    reader.feed(text)
    return Paper("".join(reader.found), reader.generator, text)
