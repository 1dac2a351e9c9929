"""What goes out of the house: nothing of another node, and on request no address, user name or other serial number.

JSON is cleaned value by value: in its text an escape may be glued to a name.
"""

import re
from collections.abc import Iterable, Iterator

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand, natural
from nodegate.report.redact import GONE, Redaction, is_address
from nodegate.rma.subject import Subject, all_serials

OTHER = "other-node-{}"  # the same number for the same node throughout an archive
OTHERS = "other-nodes"
_LIST = re.compile(r"[\w.-]{0,64}\[[0-9][0-9,-]{0,400}\][\w.-]{0,64}")
_REMOTE = re.compile(r"remote address:[^\n]*(?:\n\s*GID:[^\n]*)?")  # perftest's
# A line of a launch over nodes: "gpu7:99:99 [0] NCCL INFO", "[1,3]<stdout>:gpu7:99:99 ..."
_LINE = re.compile(r"(?m)^((?:\[[^\]\n]{0,20}\](?:<\w{1,8}>:)?\s*)?)([A-Za-z0-9][\w.-]*):[^\n]*")
_WORD, _CUT = re.compile(r"[A-Za-z0-9:][\w.:-]*"), re.compile(r"([._:-])")
_MOST_PIECES = 15  # of a name, with what is between them: those of an IPv6 address
_SERIAL_KEY = re.compile("serial|uuid|guid|machine_id|asset", re.IGNORECASE)
_USER_KEYS = frozenset(("user", "users", "username", "login", "owner"))
_IN_TEXT = re.compile(
    r"(?i:\b(?:s/n|serial(?:[ _]?(?:number|no\.?))?))[\s:=#\"']{0,40}([\w.-]{0,60}[0-9][\w-]{0,60})"
    r"|\b(?:UserId|USER|LOGNAME)=([\w.-]{3,64})"
)
_SHORTEST, _SHORTEST_INSIDE = 3, 6  # a shorter one would take innocent text with it; inside a word a longer one


class Clean:
    """The names and numbers that are to be taken out of an archive."""

    def __init__(self, about: Subject, others: Iterable[str], *, redacted: bool) -> None:
        self._about, self._redacted = about, redacted
        self._own = {about.name, about.name.partition(".")[0]}
        found: dict[str, str] = {}
        for number, name in enumerate(sorted(set(others) - self._own, key=natural), 1):
            short = name if is_address(name) else name.partition(".")[0]
            for each in (name, short):
                if each not in self._own and (any(map(str.isalpha, each)) or is_address(each)) and len(each) > 1:
                    found.setdefault(each, OTHER.format(number))
        report, mine = about.report, all_serials(about.report, about.node)
        theirs = {serial for node in report.nodes if node is not about.node for serial in all_serials(report, node)}
        self._names = found | dict.fromkeys((each for each in theirs - mine if len(each) >= _SHORTEST_INSIDE), OTHERS)
        self._secrets: set[str] = set()
        self.learn(None)

    def learn(self, value: object) -> None:
        """Take note of the serial numbers and user names in a document or a text: `text` takes them out then."""
        kept = self._about.kept
        self._secrets |= {each for each in _secrets(value) if len(each) >= _SHORTEST} - kept - self._own
        self._redact = Redaction(self._about.report, kept, self._secrets).text
        long = sorted(each for each in self._secrets if len(each) >= _SHORTEST_INSIDE)
        self._inside = re.compile("|".join(map(re.escape, sorted(long, key=len, reverse=True))) or r"(?!)")

    def text(self, text: str) -> str:
        """A text without them."""
        text = _LINE.sub(self._line, _REMOTE.sub(f"remote address: {OTHERS}", text))
        text = _WORD.sub(self._word, _LIST.sub(self._of_list, text))
        return self._inside.sub(GONE, self._redact(text)) if self._redacted else text

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
            clean = self.text(key)
            found[clean if clean not in found else f"{clean} ({len(found)})"] = self.value(each)
        return found

    def _line(self, match: re.Match[str]) -> str:
        return f"{match[1]}[a line of {self._names[match[2]]}]" if match[2] in self._names else match[0]

    def _word(self, match: re.Match[str]) -> str:
        """A word that is a name, or has one between its dots, colons and dashes: the longest."""
        word = match[0]
        if word in self._names or word in self._own or word.isalnum():
            return self._names.get(word, word)
        pieces, found, at = _CUT.split(word), "", 0
        while at < len(pieces):
            ends = range(min(at + _MOST_PIECES, len(pieces) - (len(pieces) - at + 1) % 2), at, -2)
            spans = ((end, "".join(pieces[at:end])) for end in ends)
            known = ((end, span) for end, span in spans if span in self._names or span in self._own)
            at, span = next(known, (at + 1, pieces[at]))
            found += self._names.get(span, span) + "".join(pieces[at : at + 1])
            at += 1
        return found

    def _of_list(self, match: re.Match[str]) -> str:
        try:
            return OTHERS if self._names.keys() & set(expand(match[0])) else match[0]
        except UsageError:
            return match[0]


def _secrets(value: object, key: str = "") -> Iterator[str]:
    """The serial numbers and user names in a value of JSON, by the key that it has, or by the words before them."""
    if isinstance(value, (dict, list)):
        for name, each in value.items() if isinstance(value, dict) else ((key, each) for each in value):
            yield from _secrets(each, str(name))
    elif isinstance(value, str):
        if (_SERIAL_KEY.search(key) and any(map(str.isdecimal, value))) or key.lower() in _USER_KEYS:
            yield value.strip()
        yield from (match[1] or match[2] for match in _IN_TEXT.finditer(value))
