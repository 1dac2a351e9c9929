"""A certificate held against its run: it judges nothing again, and compares what is printed with what the run holds."""

from __future__ import annotations

import io
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from nodegate.certificate.page import generator, page, result_word
from nodegate.certificate.register import Entry, Printed, plain, read, register, squeezed
from nodegate.certificate.rounds import Rounds, kept, round_of
from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular, read_whole
from nodegate.records.manifest import MANIFEST, Manifest
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.report.stats import measurements
from nodegate.words.catalogue import TAGS

SIGNATURE_S = 30.0
NAMESPACE = "nodegate"
MOST_TEXTS = 50  # lines of text that differ, named one by one
MOST_BYTES = 64 << 20
MOST_PAGES = 5000
_HIDDEN = frozenset(("style", "script", "title"))
_PDF = b"%PDF-"


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared, and each difference in words; `nodes` are entries of the register.

    `text` says what else of the paper was compared, with what this release writes of the run; empty for nothing.
    """

    run: str
    manifest_sha256: str
    nodes: int
    files: int
    text: str
    differences: tuple[str, ...]


def verify(paper: Paper, folder: Path) -> Compared:
    """Hold a paper against a run folder.

    Raises:
        UsageError: run, manifest and result are not printed in it, or the run has no manifest or cannot be read.
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
    is_ours = paper.generator == generator(report) and paper.lang in TAGS.values()
    if is_ours:
        differences += _text_differs(paper, report, before)
    elif not paper.generator:
        differences += _cells_lost(paper, report, before)
    text = "the whole text" if is_ours else "" if paper.generator else "the cells of its tables"
    counts = len(entries), len(manifest.lines())
    return Compared(report.run.id, known["manifest"], *counts, text, tuple(differences))


def _text_differs(paper: Paper, report: Report, before: Rounds) -> list[str]:
    """The lines of an HTML paper that this release would write otherwise; those in brackets are compared before."""
    lang = next(lang for lang, tag in TAGS.items() if tag == paper.lang)
    written = of_html(page(report, measurements(report.nodes), before, lang))
    there, here = (
        Counter(line for each in text.splitlines() if (line := " ".join(each.split())) and not line.startswith("["))
        for text in (paper.text, written.text)
    )
    found = [f"text on the paper alone: {line}" for line in there - here]
    found += [f"text in the run alone: {line}" for line in here - there]
    more = [f"text: {len(found) - MOST_TEXTS} lines more"] if len(found) > MOST_TEXTS else []
    return found[:MOST_TEXTS] + more


def _cells_lost(paper: Paper, report: Report, before: Rounds) -> list[str]:
    """The cells of tables that a PDF does not have as often as this release would print them, in its language."""
    printed, fleet = _bare(paper.text), measurements(report.nodes)
    found: list[list[str]] = []
    for lang in TAGS:
        written = of_html(page(report, fleet, before, lang)).text
        cells = Counter(cell for each in written.splitlines() for cell in map(_bare, each.split("\t")[:-1]) if cell)
        lost = [cell for cell, times in cells.items() if printed.count(cell) < times]
        found.append([f"text in the run alone: {cell}" for cell in lost])
    best = min(found, key=len)
    more = [f"text: {len(best) - MOST_TEXTS} cells more"] if len(best) > MOST_TEXTS else []
    return best[:MOST_TEXTS] + more


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
            yield from _cells_differ(each, there, cells)
    yield from (f"{name}: on the paper, not in the run" for name in paper)


def _cells_differ(entry: Entry, paper: Sequence[str], run: Sequence[str]) -> Iterator[str]:
    gone, new = [each for each in run if each not in paper], [each for each in paper if each not in run]
    said = f"{', '.join(new) or 'nothing'} on the paper, {', '.join(gone) or 'nothing'} in the run"
    yield f"{entry.node}: {said if gone or new else 'its parts are in another order'}"


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
    """What a person reads on the paper; cells of tables end with a tab in HTML, and blanks mean nothing in a PDF.

    `generator` is the release that wrote it; it and `lang` are empty for a PDF.
    """

    text: str
    lang: str = ""
    generator: str = ""


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
        return Paper(_of_pdf(raw, file))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("neither an HTML file nor a PDF", file=str(file)) from None
    return of_html(text)


def _of_pdf(raw: bytes, file: Path) -> str:
    try:
        import pypdf  # noqa: PLC0415 - an extra
    except ImportError:
        hint = "pip install 'nodegate[pdf]', or name the HTML file"
        raise UsageError("reading a PDF needs pypdf", file=str(file), hint=hint) from None
    try:
        pages = pypdf.PdfReader(io.BytesIO(raw)).pages
        count = len(pages)
        text = "\n".join(page.extract_text() for page in pages) if count <= MOST_PAGES else ""
    except Exception as broken:  # a hostile PDF may fail anywhere in its reader
        raise UsageError(f"cannot be read as a PDF ({type(broken).__name__})", file=str(file)) from broken
    if count > MOST_PAGES:
        raise UsageError(f"it has more than {MOST_PAGES} pages", file=str(file))
    return text


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.about: dict[str, str] = {}
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        given = dict(attrs)
        if tag == "html":
            self.about.setdefault("lang", given.get("lang") or "")
        if tag == "meta" and given.get("name") == "generator":
            self.about.setdefault("generator", given.get("content") or "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN
        if tag in ("td", "th"):
            self.found.append("\t")

    def handle_data(self, data: str) -> None:
        if self._hidden < 1:
            self.found.append(data)


def of_html(text: str) -> Paper:
    """A certificate from the text of its HTML file."""
    reader = _Text()
    reader.feed(text)
    return Paper("".join(reader.found), **reader.about)
