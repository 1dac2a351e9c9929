"""What goes out of the house: nothing of another node, and on request no address, user name or other serial number.

JSON is cleaned value by value: in its text an escape may be glued to a name.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand, natural
from nodegate.report.redact import GONE, redactor
from nodegate.rma.subject import all_serials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nodegate.rma.subject import Subject

OTHER = "other-node-{}"  # the same number for the same node throughout an archive
OTHERS = "other-nodes"
_LIST = re.compile(r"[\w.-]{0,64}\[[0-9][0-9,-]{0,400}\][\w.-]{0,64}")
_SERIAL_KEY = re.compile("serial|uuid|guid|machine_id|asset", re.IGNORECASE)
_USER_KEYS = frozenset(("user", "users", "username", "login", "owner"))
_SERIAL_TEXT = re.compile(
    r"(?i)\b(?:s/n|serial(?:[ _]?(?:number|no\.?))?)[\s:=#\"']{0,40}([\w.-]{0,60}[0-9][\w.-]{0,60})"
)
_USER_TEXT = re.compile(r"\b(?:UserId|USER|LOGNAME)=([\w.-]{3,64})")
_SHORTEST, _SHORTEST_INSIDE = 3, 6  # a short one would take innocent text with it; inside a word a longer one


class Clean:
    """The names and numbers that are to be taken out of an archive."""

    def __init__(self, about: Subject, others: Iterable[str], *, redacted: bool) -> None:
        self._about, self._redacted = about, redacted
        own = {about.name, about.name.partition(".")[0]}
        names = sorted({name for name in others if name not in own}, key=natural)
        shorts = {name: name.partition(".")[0] for name in names if not _is_address(name)}
        self._names = {name: OTHER.format(number) for number, name in enumerate(names, 1) if _can_be_found(name)}
        self._names |= {
            short: OTHER.format(names.index(name) + 1)
            for name, short in reversed(shorts.items())
            if short not in own and _can_be_found(short) and short not in self._names
        }
        mine = all_serials(about.report, about.node)
        theirs = {serial for node in about.report.nodes if node is not about.node
                  for serial in all_serials(about.report, node)}  # fmt: skip
        self._names |= dict.fromkeys((each for each in theirs - mine if len(each) >= _SHORTEST_INSIDE), OTHERS)
        self._others = _any_of({*self._names, *own}) if self._names else None
        self._own = own
        self._secrets: set[str] = set()
        self._redact = redactor(about.report, keep=about.kept)
        self._inside: re.Pattern[str] | None = None

    def learn(self, value: object) -> None:
        """Take note of the serial numbers and user names in a document or a text: `text` takes them out then."""
        if self._redacted:
            self._secrets |= {each for each in _secrets(value) if len(each) >= _SHORTEST} - self._about.kept - self._own
            self._redact = redactor(self._about.report, keep=self._about.kept, more=self._secrets)
            long = {each for each in self._secrets if len(each) >= _SHORTEST_INSIDE and not each.isalpha()}
            self._inside = _any_of(long, whole=False) if long else None

    def text(self, text: str) -> str:
        """A text without them."""
        if self._others is not None:
            text = _LIST.sub(self._of_list, text)
            text = self._others.sub(lambda match: self._names.get(match[0], match[0]), text)
        if self._redacted:
            text = self._redact(text)
            text = self._inside.sub(GONE, text) if self._inside is not None else text
        return text

    def value(self, value: object) -> object:
        """The same of what JSON holds, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if not isinstance(value, dict):
            return value
        found: dict[str, object] = {}
        for key, each in value.items():
            clean, number = self.text(key), 1
            while clean in found:
                number += 1
                clean = f"{self.text(key)} ({number})"
            found[clean] = self.value(each)
        return found

    def document(self, value: object) -> bytes:
        """JSON without them."""
        return json.dumps(self.value(value), ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace") + b"\n"

    def _of_list(self, match: re.Match[str]) -> str:
        try:
            names = set(expand(match[0]))
        except UsageError:
            return match[0]
        return OTHERS if names & self._names.keys() else match[0]


def _can_be_found(name: str) -> bool:
    """Whether a name is one in any text: "gpu1", an address; "12" is a number."""
    return len(name) > 1 and (any(letter.isalpha() for letter in name) or _is_address(name))


def _is_address(name: str) -> bool:
    return ":" in name or (name.count(".") == 3 and name.replace(".", "").isdecimal())


def _any_of(names: Iterable[str], *, whole: bool = True) -> re.Pattern[str]:
    either = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])" if whole else either)


def _secrets(value: object, key: str = "") -> Iterator[str]:
    """The serial numbers and user names in a value of JSON, by the key that it has, or by the words before them."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _secrets(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _secrets(each, key)
    elif isinstance(value, str):
        if _SERIAL_KEY.search(key) or key.lower() in _USER_KEYS:
            yield value.strip()
        yield from (match[1].strip(".") for match in _SERIAL_TEXT.finditer(value))
        yield from (match[1] for match in _USER_TEXT.finditer(value))
