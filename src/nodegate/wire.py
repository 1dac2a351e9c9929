"""The one line in which a program on a node sends its document: `SCHEMA+zlib:`, then the compressed JSON in base64."""

import base64
import json
import math
import zlib
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.files.strict_json import loads
from nodegate.text import shown


@dataclass(frozen=True)
class Wire:
    """How the document of one program is sent. `who` begins messages; `next_step` is for invalid documents."""

    schema: str
    who: str
    most_bytes: int
    next_step: str

    @property
    def mark(self) -> str:
        """The text before the document."""
        return f"{self.schema}+zlib:"

    def json(self, written: str) -> object:
        """The content of the document. What a login script printed around it is ignored; plain JSON is accepted.

        Raises:
            CannotMeasure: it is damaged, truncated, too large or not JSON.
        """
        text = self._plain(written).strip()
        if not text:
            raise self._refused("sent nothing")
        try:
            document = loads(text, parse_constant=_refuse, parse_float=_finite)
            if "\\u" in text or not text.isascii():  # else there is no half of a surrogate pair in it
                json.dumps(document, ensure_ascii=False).encode()  # such a half can be read but not written
        except (ValueError, RecursionError) as error:
            said = f"{shown(text[-200:], 160)} ({shown(str(error), 120)})"
            raise self._refused(f"did not send a JSON document: {said}") from None
        return document

    def _plain(self, written: str) -> str:
        """The JSON text, decompressed if it was compressed; never more than the limit, whatever a node sends."""
        _, marker, sent = written.rpartition(self.mark)
        if not marker:
            self._check_size(len(written))
            return written
        inflate = zlib.decompressobj()
        try:
            packed = base64.b64decode(sent.split("\n", 1)[0].strip(), validate=True)
            plain = inflate.decompress(packed, self.most_bytes + 1)
        except (ValueError, zlib.error) as error:
            raise self._refused(f"sent a damaged document: {error}") from None
        if not inflate.eof and len(plain) <= self.most_bytes:
            raise self._refused("sent a truncated document")
        self._check_size(len(plain))
        return plain.decode("utf-8", "replace")

    def _check_size(self, size: int) -> None:
        if size > self.most_bytes:
            raise self._refused(f"sent more than {self.most_bytes} bytes")

    def _refused(self, why: str) -> CannotMeasure:
        return CannotMeasure(f"{self.who} {why}", next_step=self.next_step)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written[:40]} is not a finite number")
    return number
