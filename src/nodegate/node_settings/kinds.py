"""How the value of a `nodegate_*` variable is read: one function for each kind of value, which refuses what is not one.

Each returns the value with its type; what is not set has the kind's empty value.
"""

import datetime as dt
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nodegate.errors import UsageError
from nodegate.files.text_file import did_you_mean, shown
from nodegate.text import day, names, port_number

_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", re.ASCII)
PATH = re.compile(r"/[^\0-\x1f\x7f]{0,1023}")


@dataclass(frozen=True, slots=True)
class Given:
    """One variable as the inventory gives it: its full name, its value (None: it is not set), and how to refuse it."""

    variable: str
    value: object
    refused: Callable[[str, str], UsageError]

    def wrong(self, message: str, hint: str = "") -> UsageError:
        """The error for this value; `message` goes on after the variable's name (": ..." or " must ...")."""
        return self.refused(f"{self.variable}{message}", hint)


@dataclass(frozen=True, slots=True)
class Gap:
    """Who signs for a claim that cannot be proven on a node; `expires` is the last day on which that holds."""

    reason: str
    owner: str
    expires: dt.date


def anything(given: Given) -> object:
    """The value as it is: its reader knows more of it. None if it is not set."""
    return given.value


def text(given: Given) -> str:
    """One value, as text."""
    if isinstance(given.value, (list, tuple, dict)):
        raise given.wrong(" must be a single value, not a list or mapping")
    return "" if given.value is None else str(given.value)


def one_of(given: Given, *, words: Sequence[str]) -> str:
    """One of these words."""
    written = text(given)
    if written and written not in words:
        raise given.wrong(f": {shown(written)} is not supported", f"give {' or '.join(words)}")
    return written


def slurm_name(given: Given) -> str:
    """The name of one thing in Slurm: no hostlist, which would be many."""
    written = text(given)
    if written and not _SLURM_NAME.fullmatch(written):
        raise given.wrong(f": {shown(written)} is not one name in Slurm", "see sinfo -N, scontrol show reservation")
    return written


def listed(given: Given) -> tuple[str, ...]:
    """Names: a list, or one text with commas."""
    if isinstance(given.value, (bool, dict)):
        raise given.wrong(" must be a name or a list of names")
    return names([given.value] if isinstance(given.value, float) else given.value)


def ports(given: Given) -> tuple[int, ...]:
    """TCP ports: one that no program can listen on would always be free."""
    hint = "give numbers from 1 to 65535, 29500 for example"
    written = names(given.value)
    if not written and given.value not in (None, "", [], ()):
        raise given.wrong(": must be a TCP port or a list of them", hint)
    for each in written:
        if port_number(each) is None:
            raise given.wrong(f": {shown(each)} is not a TCP port", hint)
    return tuple(map(int, written))


def first_port(given: Given, *, last: int) -> int | None:
    """The first of some TCP ports; the highest that can be is `last`."""
    if given.value is None:
        return None
    port = port_number(str(given.value))
    if port is None or port > last:
        hint = f"give a number from 1 to {last}, for as many follow it as there are rails"
        raise given.wrong(f": {shown(str(given.value))} is not usable as the first TCP port", hint)
    return port


def whole(given: Given, *, most: int) -> int | None:
    """A whole number from 0 to `most`."""
    if given.value is None:
        return None
    written = str(given.value).strip()
    if isinstance(given.value, bool) or not re.fullmatch(r"[0-9]{1,6}", written) or int(written) > most:
        raise given.wrong(f" must be a number from 0 to {most}, not {written[:40]!r}")
    return int(written)


def mapping(given: Given, *, what: str, example: str, most: int = 0) -> Mapping[str, object]:
    """Names with values, at most `most` if it is given; `what` names both. In an INI inventory it is JSON."""
    if given.value is None:
        return {}
    value = _of_json(given.value) if isinstance(given.value, str) else given.value
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value) or 0 < most < len(value):
        raise given.wrong(f" must map {what}", example)
    return value


def gaps(given: Given) -> Mapping[str, Gap]:
    """Names of claims, each with who signs for it."""
    example = "for example {rails_gpu_memory: {reason: ticket 4711, owner: lee, expires: 2026-12-31}}"
    entries = mapping(given, what="claims to who signs for them", example=example)
    return {claim: _gap(given, claim, entry, example) for claim, entry in entries.items()}


def _gap(given: Given, claim: str, entry: object, example: str) -> Gap:
    words = ("reason", "owner", "expires")
    if not isinstance(entry, dict):
        raise given.wrong(f": {claim} is not a mapping with {', '.join(words)}", example)
    odd = next((str(word) for word in entry if word not in words), None)
    if odd is not None:
        raise given.wrong(f": {claim}: unknown word {odd[:60]!r}", did_you_mean(odd, words))
    for word in words:
        if not isinstance(entry.get(word), str) or not entry[word].strip():
            raise given.wrong(f": {claim} has no {word}", "every gap that is signed for needs one")
    if (expires := day(entry["expires"])) is None:
        message = f": {claim}: expires must be a day, not {entry['expires'][:60]!r}"
        raise given.wrong(message, "write it as 2026-12-31")
    return Gap(entry["reason"], entry["owner"], expires)


def folders(given: Given, *, most: int) -> tuple[str, ...]:
    """Absolute paths: a list, or one text with colons between them."""
    value = () if given.value is None else given.value
    value = [each for each in value.split(":") if each] if isinstance(value, str) else value
    if not isinstance(value, (list, tuple)) or len(value) > most:
        raise given.wrong(f" must be a list of at most {most} folders", "[/opt/tools]")
    for each in value:
        if not isinstance(each, str) or not PATH.fullmatch(each):
            raise given.wrong(f": {shown(str(each))} is not an absolute path", "start it with /")
    return tuple(value)


def path_or(given: Given, *, word: str, hint: str) -> str:
    """An absolute path, or this word."""
    if given.value in (None, "", word):
        return str(given.value or "")
    if not isinstance(given.value, str) or not PATH.fullmatch(given.value):
        raise given.wrong(f": {shown(str(given.value))} is not an absolute path", hint)
    return given.value


def arguments(given: Given, *, most: int) -> tuple[str, ...]:
    """Arguments of a program: a list of words, or one text that is split as a shell does. None of them sees a shell."""
    words = () if given.value is None else given.value
    try:
        words = shlex.split(words) if isinstance(words, str) else words
    except ValueError as problem:
        raise given.wrong(f": {str(problem).lower()}", "close the quote") from None
    if not isinstance(words, (list, tuple)) or len(words) > most:
        raise given.wrong(f" must be a list of at most {most} words", "[--mca, btl_tcp_links, 2]")
    return tuple(str(word) for word in words)


def networks(given: Given) -> tuple[str, ...]:
    """Networks or interfaces: a list, or one text with commas or spaces."""
    if isinstance(given.value, (list, tuple)):
        return tuple(map(str, given.value))
    return tuple(text(given).replace(",", " ").split())


def is_nested_at_most(value: object, depth: int) -> bool:
    """Whether a value is text, a number, true or false, or lists and mappings of those, so many in each other."""
    if isinstance(value, (list, tuple, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(is_nested_at_most(each, depth - 1) for each in inner)
    return isinstance(value, (str, int, float, bool))


@lru_cache(maxsize=64)  # the nodes of a group share a text
def _of_json(written: str) -> object:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None
