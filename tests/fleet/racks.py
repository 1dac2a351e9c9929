"""Where the made-up nodes stand: five in a rack, and a row of racks for each kind of node."""

from collections.abc import Iterable, Mapping

_ONE_A_RACK = 5
_ROWS = "abcdefgh"


def racks(names: Iterable[str]) -> Mapping[str, str]:
    """The rack of each node by its name; nodes whose names differ only in their number are of one kind."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.rstrip("0123456789"), []).append(name)
    return {
        name: f"{row}{number // _ONE_A_RACK + 1}"
        for row, kind in zip(_ROWS, kinds.values(), strict=False)
        for number, name in enumerate(kind)
    }
