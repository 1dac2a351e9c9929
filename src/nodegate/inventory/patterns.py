"""`--nodes`: Ansible's host patterns and Slurm's hostlists, over the names of one inventory.

`gpu[001-128,130]` · `gpu:!gpu005:&rack1` · `rack*` · `~gpu0(01|02)` · `gpu[0:3]`, the first four of a group.
"""

import fnmatch
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.inventory import hostlist, ranges

# Without leading zeros: gpu[001:128] is a range of names even if there is a group called gpu.
_SUBSCRIPT = re.compile(
    r"(?P<base>.+)\[(?:(?P<index>0|-?[1-9][0-9]{0,8})|(?P<low>0|[1-9][0-9]{0,8}):(?P<high>0|[1-9][0-9]{0,8}|))\]",
    re.ASCII,
)
_MAX_PATTERN = 65536


def select(pattern: str, hosts: Sequence[str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The hosts that a pattern selects, in the order of the inventory.

    Terms are separated by `:`, `,` or white space and joined; then `&term` keeps only its hosts, and `!term` removes
    its hosts, in any order. Every term must match something, and every name of a hostlist must exist.

    Raises:
        UsageError: a term matches nothing or is not a pattern, or no host is left.
    """
    if len(pattern) > _MAX_PATTERN:
        hint = "write the nodes to a file and give it with --inventory"
        raise UsageError("--nodes: the pattern is too long", hint=hint)
    terms = ranges.split_outside_brackets(pattern, ":, \t\r\n")
    find = _Finder(hosts, groups)
    chosen: set[str] = set()
    plain = [term for term in terms if term[0] not in "!&"]
    for term in plain:
        chosen |= set(find(term))
    if not plain:
        chosen = set(hosts)
    for term in terms:
        if term[0] == "&":
            chosen &= set(find(term[1:], partly=True))
    for term in terms:
        if term[0] == "!":
            chosen -= set(find(term[1:], partly=True))
    if not chosen:
        raise UsageError(f"--nodes {shown(pattern)}: no node is left", hint=f"the inventory has {_few(hosts)}")
    return tuple(host for host in hosts if host in chosen)


class _Finder:
    """Finds the hosts of one term."""

    def __init__(self, hosts: Sequence[str], groups: Mapping[str, tuple[str, ...]]) -> None:
        self._hosts, self._groups = dict.fromkeys(hosts), groups

    def __call__(self, term: str, *, partly: bool = False) -> Sequence[str]:
        """`partly`: some names of a hostlist may be missing, but not all."""
        if term in self._hosts:
            return (term,)
        if (found := self._by_name(term)) is None:
            found = self._hostlist(term, partly=partly) if "[" in term else ()
        if not found and term not in self._groups:
            raise self._nothing(term)
        return found

    def _by_name(self, term: str) -> Sequence[str] | None:
        """By group, regular expression, glob or subscript; None when it is none of these."""
        if term in self._groups:
            return self._groups[term]
        if term.startswith("~"):
            return self._matching(_regex(term[1:]).match)
        subscript = _SUBSCRIPT.fullmatch(term)
        base = subscript["base"] if subscript else term
        if set(base) & set("*?"):
            found: Sequence[str] | None = self._matching(re.compile(fnmatch.translate(base)).match)
        else:
            found = self._groups.get(base) if subscript else None
        return found if found is None or subscript is None else _cut(found, subscript, term)

    def _matching(self, match: Callable[[str], object]) -> Sequence[str]:
        """Hosts of the groups whose name matches, then hosts whose own name does."""
        found = dict.fromkeys(host for group, hosts in self._groups.items() if match(group) for host in hosts)
        return tuple(found | dict.fromkeys(host for host in self._hosts if match(host)))

    def _hostlist(self, term: str, *, partly: bool) -> Sequence[str]:
        names = hostlist.expand(term)
        missing = [name for name in names if name not in self._hosts]
        if missing and not partly and len(missing) < len(names):
            what = f"--nodes {shown(term)}: not in the inventory: {_few(missing)}"
            raise UsageError(what, hint="name only nodes of the inventory")
        return [name for name in names if name in self._hosts]

    def _nothing(self, term: str) -> UsageError:
        known = [*self._hosts, *self._groups]
        return UsageError(f"--nodes: no host or group is called {shown(term)}", hint=did_you_mean(term, known))


def _regex(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set": a warning about future Python versions
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise UsageError(f"--nodes ~{text[:80]}: not a regular expression: {problem}") from None


def _cut(hosts: Sequence[str], subscript: re.Match[str], term: str) -> Sequence[str]:
    """One host by its index, or those of an inclusive range."""
    if subscript["index"] is None:
        end = int(subscript["high"]) + 1 if subscript["high"] else len(hosts)
        return hosts[int(subscript["low"]) : end]
    try:
        return (hosts[int(subscript["index"])],)
    except IndexError:
        raise UsageError(f"--nodes {shown(term)}: there are only {len(hosts)} hosts") from None


def _few(names: Iterable[str]) -> str:
    text = hostlist.fold(names)
    return text if len(text) <= 200 else text[:197] + "..."
