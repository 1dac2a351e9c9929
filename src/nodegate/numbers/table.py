"""The table of everything that a fleet measured under load (pandas): a row a node, device and quantity.

It is kept in columns: 1,250 nodes with nine looks at 78 numbers are a million values, and as objects those are half of
a run's memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from nodegate.numbers.spread import scale

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_NAMES = ("node", "device", "launch")
LOW, FAR = 0.05, 4.0  # a look is far worse by this part of the value, and by so many spreads
_OF_STEPS = 0.5  # degrees of freedom that each difference of two looks in a row gives to their robust spread


class Row(NamedTuple):
    """What a node measured of one quantity of one device: a value a look. `launch` as in `Metric`."""

    node: str
    device: str
    launch: str
    seen: tuple[float, ...]


class Scatter(NamedTuple):
    """How far a look lies from its part's value, as a part of it; degrees of freedom; the share of looks far worse."""

    spread: float
    freedom: float
    disturbed: float


class TableMaker:
    """Takes the rows as they come."""

    def __init__(self) -> None:
        self._numbers, self._values, self._ends = array("i"), array("d"), array("q")
        self._codes = {name: array("i") for name in _NAMES}
        self._known: dict[str, dict[str, int]] = {name: {} for name in _NAMES}

    def add(self, number: int, row: Row) -> None:
        """One more row, of the quantity with this number."""
        for name, text in zip(_NAMES, row[:3], strict=True):
            known = self._known[name]
            self._codes[name].append(known.setdefault(text, len(known)))
        self._numbers.append(number)
        self._values.extend(row.seen)
        self._ends.append(len(self._values))

    def table(self) -> Table:
        """The table of all of them."""
        import numpy as np  # noqa: PLC0415 - heavy
        import pandas as pd  # noqa: PLC0415 - heavy

        columns: dict[str, object] = {"number": self._numbers, "end": self._ends}
        for name, known in self._known.items():
            texts = pd.CategoricalDtype(list(known))
            columns[name] = pd.Categorical.from_codes(np.asarray(self._codes[name]), dtype=texts)
        return Table(pd.DataFrame(columns), self._values)


class Table:
    """All rows. `values` are those of all looks, row after row; a row's last one ends at its `end`."""

    def __init__(self, frame: pd.DataFrame, values: array[float]) -> None:
        import numpy as np  # noqa: PLC0415 - heavy

        self._values = values
        self._places: Mapping[int, NDArray[np.intp]] = frame.groupby("number", sort=False).indices  # type: ignore[assignment]
        self._ends = frame["end"].to_numpy()
        self._looks = np.diff(self._ends, prepend=0)
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
            ends, looks = self._ends[at].tolist(), self._looks[at].tolist()
            seen = (tuple(self._values[end - count : end]) for end, count in zip(ends, looks, strict=True))
            yield from map(Row, nodes, devices, launches, seen)

    def looks(self, *numbers: int) -> tuple[int, int]:
        """The fewest looks at these quantities, and how many most of the nodes have had."""
        import numpy as np  # noqa: PLC0415 - heavy

        looks = np.concatenate([self._looks[self._places[number]] for number in numbers])
        return int(looks.min()), int(np.bincount(looks).argmax())

    def scatter(self, *numbers: int, higher_is_better: bool) -> Scatter:
        """How far looks at one part lie apart, over all parts."""
        import numpy as np  # noqa: PLC0415 - heavy

        at = np.concatenate([self._places[number] for number in numbers])
        steps, behind = [np.zeros(0)], [np.zeros(0)]
        for count in np.unique(self._looks[at][self._looks[at] > 1]):
            ends = self._ends[at][self._looks[at] == count]
            seen = np.asarray(self._values)[ends[:, None] - np.arange(count, 0, -1)]
            middles = np.median(seen, axis=1, keepdims=True)
            good = middles[:, 0] > 0
            steps.append((np.diff(seen[good], axis=1) / middles[good]).ravel())
            behind.append((1 - seen[good] / middles[good]).ravel() * (1 if higher_is_better else -1))
        held, lost = np.concatenate(steps), np.concatenate(behind)
        if not len(held):
            return Scatter(0.0, 0.0, 0.0)
        spread = scale(held) / math.sqrt(2)
        return Scatter(spread, _OF_STEPS * len(held), float(np.mean(lost > max(LOW, FAR * spread))))

    def _texts(self, name: str, places: NDArray[np.intp]) -> Iterator[str]:
        return map(self._names[name].__getitem__, self._codes[name][places].tolist())

    def _code(self, name: str, text: str) -> int:
        return self._names[name].index(text) if text in self._names[name] else -1
