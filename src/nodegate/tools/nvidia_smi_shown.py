"""What nvidia-smi -q shows of one GPU: values by their path, each a reading or the reason why there is none."""

import re
from collections.abc import Iterable, Mapping

from nodegate.probe.readings import label, mapped, wrong
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

MAX_VALUES = 20_000
_AMOUNT = re.compile(r"P?(-?[0-9]{1,15}(?:\.[0-9]{1,6})?) ?(x|MHz|W|C|MiB|%|bank\(s\))?")
_REMARK = re.compile(r" \[(?:Deprecated|deprecated)[^\]]{0,200}\]$")
_YES_NO = {"Yes": True, "No": False, "Enabled": True, "Disabled": False, "Active": True, "Not Active": False}


class Shown:
    """What nvidia-smi shows about one GPU: values by path, the first of each path, in the order of the output."""

    def __init__(self, leaves: Iterable[tuple[str, str]]) -> None:
        self.values: dict[str, str] = {}
        self.in_order: list[tuple[str, str]] = []
        for path, value in leaves:
            if len(self.in_order) >= MAX_VALUES:
                break
            self.in_order.append((path, value))
            self.values.setdefault(path, value)

    def find(self, *paths: str) -> Known[str]:
        """The first of several places with a value; else the best reason."""
        reasons = []
        for path in paths:
            found = self._at(path)
            if not isinstance(found, Unknown):
                return found
            reasons.append(found)
        return next((reason for reason in reasons if reason.why is not Why.MISSING), reasons[0])

    def _at(self, path: str) -> Known[str]:
        """The value of a path. A part that is N/A as a whole (remapped_rows) applies to everything below it."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):
            value = self.values.get("/".join(parts[:length]))
            if value is None:
                continue
            absent = why_absent(value)
            if absent is not None:
                return absent
            if length == len(parts):
                return label(_REMARK.sub("", value))
        return Unknown(Why.MISSING, f"nvidia-smi shows no {parts[-1]}")

    def amount(self, unit: str, *paths: str) -> Known[float]:
        """A number that must carry this unit."""

        def read(written: str) -> Known[float]:
            match = _AMOUNT.fullmatch(written)
            return float(match[1]) if match and (match[2] or "") == unit else wrong(f"a number {unit}".strip(), written)

        return mapped(self.find(*paths), read)

    def count(self, unit: str, *paths: str) -> Known[int]:
        """A whole number that must carry this unit."""
        return mapped(self.amount(unit, *paths), int)

    def word(self, words: Mapping[str, int], *paths: str) -> Known[int]:
        """The number for one of several words."""
        return mapped(self.find(*paths), lambda word: words[word] if word in words else wrong("a known word", word))

    def yes(self, *paths: str) -> Known[bool]:
        """Whether it is on."""
        return mapped(self.find(*paths), lambda word: _YES_NO[word] if word in _YES_NO else wrong("yes or no", word))


def why_absent(value: str) -> Unknown | None:
    """Why nvidia-smi shows text instead of a value."""
    words = value.strip("[] ").lower()
    if words in ("n/a", "not supported", "unsupported") or "has been deprecated" in words:
        return Unknown(Why.NOT_SUPPORTED, shown(value))
    if "gpu is lost" in words:
        return Unknown(Why.LOST, shown(value))
    if "insufficient permissions" in words:
        return Unknown(Why.DENIED, shown(value))
    if "unknown error" in words or words == "err!" or "gpu requires reset" in words:
        return Unknown(Why.FAILED, shown(value))
    return None
