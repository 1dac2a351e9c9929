"""Other digits in a PDF that Chromium printed: a glyph of its fonts in place of another one."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pypdf
from pypdf.generic import ByteStringObject, ContentStream, DictionaryObject

_SHOWS = b"Tj"
_CHARS = re.compile(rb"^<(\w{4})> <(\w{4})>$", re.MULTILINE)
_RANGES = re.compile(rb"^<(\w{4})> <(\w{4})> <(\w{4})>$", re.MULTILINE)


def with_other_digits(paper: Path, changed: Path, count: int, draw: random.Random) -> list[int]:
    """Write the PDF with so many digits changed, no two near each other; returns the page of each, from 1."""
    writer = pypdf.PdfWriter(clone_from=paper)
    streams = [ContentStream(page.get_contents(), writer) for page in writer.pages]
    places = [(at, *found) for at, page in enumerate(writer.pages) for found in _digits(page, streams[at])]
    chosen = sorted(draw.sample(places[:: max(1, len(places) // (4 * count))], count))
    for at, shown, glyph, others in chosen:
        operands, _ = streams[at].operations[shown]
        raw = bytearray(operands[0].original_bytes)
        raw[glyph : glyph + 2] = draw.choice(others)
        operands[0] = ByteStringObject(bytes(raw))
    for page, stream in zip(writer.pages, streams, strict=True):
        page.replace_contents(stream)
    writer.write(changed)
    return [at + 1 for at, *_ in chosen]


def _digits(page: DictionaryObject, stream: ContentStream) -> Iterator[tuple[int, int, list[bytes]]]:
    """Which operation shows a digit, at which byte of its text, and the glyphs of the other digits of its font."""
    fonts = {name: _glyphs(font.get_object()) for name, font in page["/Resources"]["/Font"].items()}
    digits: dict[bytes, str] = {}
    for number, (operands, operator) in enumerate(stream.operations):
        if operator == b"Tf":
            digits = fonts[operands[0]]
        elif operator == _SHOWS:
            raw = operands[0].original_bytes
            for at in range(0, len(raw), 2):
                if raw[at : at + 2] in digits:
                    yield number, at, [glyph for glyph in digits if glyph != raw[at : at + 2]]


def _glyphs(font: DictionaryObject) -> dict[bytes, str]:
    """The digits of a font by their glyphs."""
    table = font["/ToUnicode"].get_data()
    found = {int(glyph, 16): chr(int(sign, 16)) for glyph, sign in _CHARS.findall(table)}
    for first, last, sign in _RANGES.findall(table):
        found |= {int(first, 16) + n: chr(int(sign, 16) + n) for n in range(int(last, 16) - int(first, 16) + 1)}
    return {glyph.to_bytes(2, "big"): sign for glyph, sign in found.items() if sign.isdecimal()}
