"""What a word of a message, a report or a file means: a check, claim, limit key, variable, option, Xid or term."""

import argparse
import difflib
import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.files.paths import CHECKS, DOCS, suite_folder

_WIDTH = 100
_MOST_BYTES = 4 << 20
_CELLS = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]*)`")
_NO_WORDS = ("api.md", "coverage.md", "policies.md")  # their tables explain no word of a message
_XID = re.compile(r"xid\s*(\d{1,3})", re.IGNORECASE)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("word", nargs="+", help="pcie.link_width, rdma.rails, nodegate_gaps, xid 79, waived, policies")


def run(asked: argparse.Namespace) -> int:
    """Print what the pages, checks and tables of this installation say of a word, or a page by its name.

    Raises:
        UsageError: nothing is called that.
    """
    word = " ".join(asked.word).strip("`")
    found = [*_of_check(word), *_of_xid(word), *_in_pages(word)]
    if not found:
        near = difflib.get_close_matches(word.casefold(), sorted(_known()), n=5, cutoff=0.6)
        pages = ", ".join(page.stem for page in _pages())
        raise UsageError(f"nothing is called {word!r}", hint=f"near: {', '.join(near)}" if near else f"pages: {pages}")
    print("\n\n".join(found))
    return 0


def _of_check(word: str) -> Iterator[str]:
    """What a check accepts, from its docstring, and the claims that it proves."""
    from nodegate import suite  # noqa: PLC0415 - the checks are imported only where one is asked for
    from nodegate.claims.table import claims  # noqa: PLC0415

    word = word.casefold()
    if re.fullmatch(r"\w+\.\w+", word) and suite.has(word):
        proves = [claim.name for claim in claims() if word in claim.proving]
        claimed = f"\n\nproves: {', '.join(proves)}" if proves else ""
        check = suite.check(word)
        yield f"{word} (check, {check.tier}): {check.docstring.rstrip()}{claimed}"


def _of_xid(word: str) -> Iterator[str]:
    from nodegate.knowledge import tables  # noqa: PLC0415

    match = _XID.fullmatch(word)
    row = tables.xids().get(int(match[1])) if match else None
    if match and row is not None:
        yield f"Xid {match[1]}, {row.name}: {row.meaning.en} - {row.action.en}"


def _in_pages(word: str) -> Iterator[str]:
    """The page of this name; else each row and section of the pages that is about the word."""
    for page in _pages():
        if word.casefold() == page.stem:
            yield _text(page).rstrip()
            return
    for page in _pages():
        for names, text in _entries(page):
            if word.casefold() in names:
                yield f"{text}\n({page.parent.name}/{page.stem}: nodegate explain {page.stem})"


def _known() -> set[str]:
    pages = _pages()
    words = {name for page in pages for names, _ in _entries(page) for name in names}
    files = suite_folder(CHECKS).glob("test_*.py")
    checks = {
        f"{file.stem.removeprefix('test_')}.{name}"
        for file in files
        for name in re.findall(r"\ndef test_(\w+)\(", _text(file))
    }
    return words | checks | {page.stem for page in pages}


def _pages() -> list[Path]:
    folder = suite_folder(DOCS)
    return [page for part in ("reference", "guide") for page in sorted((folder / part).glob("*.md"))]


def _text(file: Path) -> str:
    return read_whole(file, _MOST_BYTES).decode()


def _entries(page: Path) -> Iterator[tuple[frozenset[str], str]]:
    """The rows of a page's tables and its sections: the names that each has, in small letters, and its text."""
    if page.name in _NO_WORDS:
        return
    lines = _text(page).splitlines()
    head: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("#"):
            title = line.lstrip("# ")
            section = takewhile(lambda text: not text.startswith("#"), lines[number + 1 :])
            # without tables: their rows are found by their own words
            body = "\n".join(text for text in section if not text.startswith("|")).strip()
            yield _names(title) | {re.sub(r" \(.*\)$", "", title).casefold()}, f"{title}\n{body}"
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1]]
        if not head:
            head = cells
        elif set(cells[0]) - set("-: "):
            said = [
                f"{name}: {cell}" if name else cell for name, cell in zip(head[1:], cells[1:], strict=False) if cell
            ]
            wrapped = textwrap.TextWrapper(
                _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
            yield _names(cells[0]), "\n".join([cells[0], *map(wrapped.fill, said)])


def _names(cell: str) -> frozenset[str]:
    """The names in a first cell: `--nodes PATTERN` is --nodes and nodes; "NIC, NIC port" are two."""
    code = [text.split()[0] for text in _CODE.findall(cell) if text.split()]
    found = {name.strip().casefold() for name in (*code, *_CODE.sub("", cell).split(","))}
    return frozenset({*found, *(name.lstrip("-") for name in found)} - {""})
