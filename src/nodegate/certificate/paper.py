"""The text of a certificate, from its HTML file or the PDF that was printed from it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole

MOST_BYTES = 64 << 20
MOST_PAGES = 5000
_HIDDEN = frozenset(("style", "script", "title"))
_PDF = b"%PDF-"


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
