"""The values of each comparable quantity over the nodes, and how far good ones lie apart."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from nodegate.metric import Statistic
from nodegate.numbers import quantity
from nodegate.numbers.kin import TOGETHER
from nodegate.numbers.levels import Levels
from nodegate.numbers.node_figures import OF
from nodegate.numbers.pool import FEW, Pool, Spread
from nodegate.numbers.quantity import Key
from nodegate.numbers.spread import moderated, of_joined, of_looks, of_median, with_looks
from nodegate.numbers.table import Row, Scatter, Table

_MOST_KNOWN = 4096  # spreads that are kept: those of one node at a time are needed


class Quantities:
    """The table of a fleet by the numbers of its quantities; a negative one is all that differ in software only."""

    def __init__(self, table: Table, keys: Mapping[Key, int], levels: Levels) -> None:
        self._table, self._levels_keys = table, levels.keys
        self._pools: dict[tuple[int, str | None, Statistic], Pool] = {}
        self._spreads: dict[tuple[int, bool, Statistic], Spread] = {}
        self._known_spreads: dict[tuple[str, int, Statistic, bool], tuple[float, float, int]] = {}
        self._scatters: dict[int, Scatter] = {}
        self._looks: dict[int, tuple[int, int]] = {}
        self.alike: defaultdict[Key, list[int]] = defaultdict(list)
        for number, key in levels.keys.items():
            self.alike[key].append(number)
        self._better = {number: str(key[2]) for key, number in keys.items()}
        kinds: defaultdict[Key, list[int]] = defaultdict(list)
        for key, number in keys.items():
            kinds[quantity.kind(key)].append(number)
        self._kin = {number: numbers for numbers in kinds.values() for number in numbers}
        self._figures = {
            number: (keys[device], int(words[OF]))
            for key, number in keys.items()
            if OF in (words := quantity.words(key)) and (device := quantity.key_of_devices(key)) in keys
        }
        self._joined = {
            number: tuple(map(int, words[TOGETHER].split()))
            for key, number in keys.items()
            if TOGETHER in (words := quantity.words(key))
        }

    def pool(self, number: int | None, device: str | None, statistic: Statistic) -> Pool:
        """The values of a quantity, of one device or of all; none of an unknown one."""
        if number is None:
            return Pool("", ())
        found = self._pools.get((number, device, statistic))
        if found is None:
            value_of = self.value_of(number, statistic)
            held = {(row.launch or row.node, row.device): value_of(row.seen) for row in self.rows(number, device)}
            found = self._pools[number, device, statistic] = Pool(
                device or "", [(value, whose) for (whose, _), value in held.items()]
            )
        return found

    def value_of(self, number: int, statistic: Statistic) -> Callable[[tuple[float, ...]], float]:
        """The value of a row by its looks: by as many as most have had, or by as many as all have had."""
        better, (fewest, usual) = self.better_of(number), self.looks_of(number)
        if statistic is not Statistic.USUAL:
            return lambda seen: statistic.of(seen[:fewest], better=better) or 0.0
        expected = self.of_looks(number, usual)[0]

        def value(seen: tuple[float, ...]) -> float:
            own = statistic.of(seen, better=better) or 0.0
            return own if len(seen) == usual else own * expected / self.of_looks(number, len(seen))[0]

        return value

    def of_looks(self, number: int, looks: int) -> tuple[float, float]:
        """The usual value of so many looks as a part of the true one, and its variance by the noise of a look."""
        middle, variance = of_looks(looks)
        scatter = self.scatter(number).spread
        better = 1 if self.better_of(number) == "higher" else -1
        return 1 + better * middle * scatter, variance * scatter**2

    def spread_without(
        self, node: str, number: int, statistic: Statistic, *, by_slot: bool
    ) -> tuple[float, float, int]:
        """How far good values lie apart, in degrees of freedom how well that is known, and how many are judged.

        Of few values by the other quantities of the same kind too: the collectives of a run, its copies. The figure of
        a node is the median of its devices, and varies at least as that of so many does.
        """
        key = node, number, statistic, by_slot  # the same for all devices of a node
        if key not in self._known_spreads:
            if len(self._known_spreads) >= _MOST_KNOWN:
                self._known_spreads.clear()
            self._known_spreads[key] = self._spread_of(node, number, statistic, by_slot=by_slot)
        return self._known_spreads[key]

    def _spread_of(self, node: str, number: int, statistic: Statistic, *, by_slot: bool) -> tuple[float, float, int]:
        spread = self.spread(number, statistic, by_slot=by_slot)
        own = spread.without(node)
        if members := self._joined.get(number):
            inside = [self.of_looks(each, self.looks_of(each)[1])[1] for each in (number, *members)]
            singles = [self.spread(each, statistic, by_slot=False).without(node) for each in members]
            own = of_joined(own, inside[0], [(*each, square) for each, square in zip(singles, inside[1:], strict=True)])
        elif spread.count <= FEW:
            kin = [
                self.spread(each, statistic, by_slot=by_slot).without(node) for each in self._kin.get(number, [number])
            ]
            own = moderated(own, kin)
            if statistic is Statistic.USUAL:
                own = with_looks(own, self.of_looks(number, self.looks_of(number)[1])[1], self.scatter(number).freedom)
        if number in self._figures:
            devices, many = self._figures[number]
            of_one, freedom = self.spread(devices, statistic, by_slot=True).without(node)
            own = max(own, (of_one * of_median(many), freedom))
        return *own, spread.count

    def spread(self, number: int, statistic: Statistic, *, by_slot: bool) -> Spread:
        """How far the values of a quantity lie apart, each slot by itself or all together."""
        found = self._spreads.get((number, by_slot, statistic))
        if found is None:
            devices: list[str | None] = [None]
            if by_slot:
                devices = list(dict.fromkeys(row.device for row in self.rows(number)))
            pools = [self.pool(number, each, statistic) for each in devices]
            found = self._spreads[number, by_slot, statistic] = Spread(pools)
        return found

    def looks_of(self, number: int) -> tuple[int, int]:
        """The fewest looks at it, and how many most nodes have had."""
        if number not in self._looks:
            self._looks[number] = self._table.looks(*self.numbers(number))
        return self._looks[number]

    def scatter(self, number: int) -> Scatter:
        """How far looks at one part lie apart."""
        if number not in self._scatters:
            higher = self.better_of(number) == "higher"
            self._scatters[number] = self._table.scatter(*self.numbers(number), higher_is_better=higher)
        return self._scatters[number]

    def better_of(self, number: int | None) -> str:
        """Which end of a quantity is the good one."""
        return self._better[self.numbers(number or 0)[0]]

    def rows(self, number: int, device: str | None = None) -> Iterator[Row]:
        """The rows of a quantity."""
        return self._table.rows(*self.numbers(number), device=device)

    def numbers(self, number: int) -> Sequence[int]:
        """The quantities that are meant: of a negative number all that differ in software only."""
        return (number,) if number >= 0 else self.alike[self._levels_keys[-1 - number]]
