"""The table of everything that a fleet measured under load (pandas): a row a node, device and quantity.

It is kept in columns: 1,250 nodes have half a million rows, and as objects those are a quarter of a run's memory.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_NAMES = ("node", "device", "launch")


class Row(NamedTuple):
    """What a node measured of one quantity of one device: a value a look. `launch` as in `Metric`."""

    node: str
    device: str
    launch: str
    seen: tuple[float, ...]


class TableMaker:
    """Takes the rows as they come."""

    def __init__(self) -> None:
        self._numbers, self._first, self._looks = array("i"), array("d"), array("i")
        self._codes = {name: array("i") for name in _NAMES}
        self._known: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
        self._again: dict[int, tuple[float, ...]] = {}

    def add(self, number: int, row: Row) -> None:
        """One more row, of the quantity with this number."""
        for name, text in zip(_NAMES, row[:3], strict=True):
            known = self._known[name]
            self._codes[name].append(known.setdefault(text, len(known)))
        if len(row.seen) > 1:
            self._again[len(self._numbers)] = row.seen
        self._numbers.append(number)
        self._first.append(row.seen[0])
        self._looks.append(len(row.seen))

    def table(self) -> Table:
        """The table of all of them."""
        import numpy as np  # noqa: PLC0415 - heavy
        import pandas as pd  # noqa: PLC0415 - heavy

        columns: dict[str, object] = {"number": self._numbers, "first": self._first, "looks": self._looks}
        for name, known in self._known.items():
            texts = pd.CategoricalDtype(list(known))
            columns[name] = pd.Categorical.from_codes(np.asarray(self._codes[name]), dtype=texts)
        return Table(pd.DataFrame(columns), self._again)


class Table:
    """All rows. `again` has, by the place of a row, what was seen in several looks."""

    def __init__(self, frame: pd.DataFrame, again: Mapping[int, tuple[float, ...]]) -> None:
        self._again = again
        numbers = frame.groupby("number", sort=False)
        self._places: Mapping[int, NDArray[np.intp]] = numbers.indices  # type: ignore[assignment]
        self._looks: Mapping[int, int] = dict(zip(self._places, map(int, numbers["looks"].min()), strict=True))
        self._first = frame["first"].to_numpy()
        self._codes = {name: frame[name].cat.codes.to_numpy() for name in _NAMES}
        self._names: dict[str, list[str]] = {name: list(frame[name].cat.categories) for name in _NAMES}

    def rows(self, *numbers: int, device: str | None = None) -> Iterator[Row]:
        """The rows of these quantities in the order in which they came; of one device alone if it is given."""
        of_device = None if device is None else self._code("device", device)
        for number in numbers:
            at = self._places[number]
            if of_device is not None:
                at = at[self._codes["device"][at] == of_device]
            nodes, devices, launches = (self._texts(name, at) for name in _NAMES)
            firsts = zip(at.tolist(), self._first[at].tolist(), strict=True)
            seen = (self._again.get(place) or (first,) for place, first in firsts)
            yield from map(Row, nodes, devices, launches, seen)

    def looks(self, *numbers: int) -> int:
        """How many looks every node has had at these quantities."""
        return min(self._looks[number] for number in numbers)

    def _texts(self, name: str, places: NDArray[np.intp]) -> Iterator[str]:
        return map(self._names[name].__getitem__, self._codes[name][places].tolist())

    def _code(self, name: str, text: str) -> int:
        return self._names[name].index(text) if text in self._names[name] else -1
