"""Who is measured with whom: rounds of node pairs in which no node is twice, and NIC pairs of a node pair by rail."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest

Pair = tuple[str, str]
Round = tuple[Pair, ...]


def rounds(names: Sequence[str], count: int | None = 3) -> tuple[Round, ...]:
    """Rounds of pairs: in a round each name is at most once, and no two names meet twice; fewer than two names: none.

    The rounds are of one 1-factorization (the circle method), as far apart as they can be. With an odd number of names
    one is left out in each round: the last rounds make up for that, so that each name has `count` partners, or all
    others if there are fewer. `count` None: every name with every other.
    """
    whole = _circle(names)
    wanted = len(whole) if count is None else min(count, len(whole))
    chosen = [whole[place * len(whole) // wanted] for place in range(wanted)] if wanted else []
    return (*chosen, *_made_up(names, chosen, min(wanted, len(names) - 1)))


def with_good_ones(suspects: Sequence[str], good: Sequence[str], count: int) -> tuple[Round, ...]:
    """Rounds in which each suspect meets `count` good ones, or all of them: never another suspect.

    If there are more suspects than good ones, they take turns.
    """
    found: list[Round] = []
    for turn in range(min(count, len(good))):
        for first in range(0, len(suspects), len(good)):
            some = suspects[first : first + len(good)]
            found.append(tuple((suspect, good[(place + turn) % len(good)]) for place, suspect in enumerate(some)))
    return tuple(found)


def second_looks(suspects: Sequence[str], good: Sequence[str], count: int, most: int) -> tuple[Round, ...]:
    """Rounds in which suspects meet `count` good ones, in at most `most` rounds, however many they are.

    Where turns at the good ones would take longer, the first suspects have them, and the others meet one another at the
    same time: three of them at least, so that each has `count` partners of which not all need be bad. Without good
    ones all of them meet one another.
    """
    found = with_good_ones(suspects, good, count)
    if good and len(found) <= most:
        return found
    turns = min(count, len(good))
    first = max(0, min(most // turns * len(good), len(suspects) - count - 1)) if good else 0
    with_each_other = rounds(suspects[first:], count)
    both = zip_longest(with_good_ones(suspects[:first], good, count), with_each_other, fillvalue=())
    return tuple((*ones, *others) for ones, others in both)


def nic_pairs(ours: Sequence[str], theirs: Sequence[str]) -> tuple[Round, ...]:
    """The NIC pairs of two nodes, in steps: all pairs of a step are measured at once, and in a step no NIC is twice.

    NICs with the same name are on one rail; the others are paired in their order. If one node has more, its last ones
    are measured in further steps.
    """
    same = [name for name in ours if name in theirs]
    left = [name for name in ours if name not in same]
    right = [name for name in theirs if name not in same]
    first = (*((name, name) for name in same), *zip(left, right, strict=False))
    steps = [first] if first else []
    for extra, others, turned in ((left[len(right) :], theirs, False), (right[len(left) :], ours, True)):
        for start in range(0, len(extra) if others else 0, len(others) or 1):
            step = zip(extra[start : start + len(others)], others, strict=False)
            steps.append(tuple((other, one) if turned else (one, other) for one, other in step))
    return tuple(steps)


def inside(names: Sequence[str]) -> tuple[Round, ...]:
    """The NIC pairs within one node, in steps as `nic_pairs`: each with both neighbours, once as server.

    With one partner alone it could not be said which of the two is slow.
    """
    count = len(names)
    ring = [(name, names[(place + 1) % count]) for place, name in enumerate(names)] if count > 1 else []
    odd = [ring.pop()] if count % 2 and ring else []
    return tuple(tuple(step) for step in (ring[::2], ring[1::2], odd) if step)


def with_roles(paired: Sequence[Round]) -> tuple[Round, ...]:
    """The same rounds, each pair as (server, client): a name with several partners is both, about equally often.

    The meetings are walked in closed trails, each from server to client; a name with an odd number of them has one
    more, which is left out.
    """
    links: defaultdict[str, dict[int, str]] = defaultdict(dict)
    meetings = [pair for pairs in paired for pair in pairs]
    for number, (one, other) in enumerate(meetings):
        links[one][number], links[other][number] = other, one
    odd = [name for name, met in links.items() if len(met) % 2]
    for number, name in enumerate(odd, len(meetings)):
        links[name][number], links[""][number] = "", name
    turned: dict[int, Pair] = {}
    for start in list(links):
        here = start
        while links[here]:
            number, there = links[here].popitem()
            del links[there][number]
            turned[number] = here, there
            here = there
    numbers = iter(range(len(meetings)))
    return tuple(tuple(turned[next(numbers)] for _ in pairs) for pairs in paired)


def in_rounds(pairs: Iterable[Pair], most: int) -> tuple[Round, ...]:
    """Any pairs as rounds without a name twice; pairs beyond the most rounds are left out."""
    found: list[list[Pair]] = []
    for pair in pairs:
        free = (each for each in found if not {*pair} & {name for other in each for name in other})
        fitting = next(free, None)
        if fitting is not None:
            fitting.append(pair)
        elif len(found) < most:
            found.append([pair])
    return tuple(map(tuple, found))


def _circle(names: Sequence[str]) -> list[Round]:
    """Every name with every other: one keeps its place, the others rotate."""
    seats: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    found: list[Round] = []
    for turn in range(len(seats) - 1 if len(names) > 1 else 0):
        moved = seats[1 + turn :] + seats[1 : 1 + turn]
        around = [seats[0], *moved]
        facing = zip(around[: len(around) // 2], reversed(around), strict=False)
        found.append(tuple((one, other) for one, other in facing if one is not None and other is not None))
    return found


def _made_up(names: Sequence[str], chosen: Iterable[Round], wanted: int) -> list[Round]:
    """Rounds for those that were left out, until each has its number of partners."""
    met: dict[str, set[str]] = {name: set() for name in names}
    for one, other in (pair for pairs in chosen for pair in pairs):
        met[one].add(other)
        met[other].add(one)
    more: list[Round] = []
    while short := [name for name in names if len(met[name]) < wanted]:
        busy: set[str] = set()
        pairs: list[Pair] = []
        for name in short:
            taken = busy | met[name] | {name}
            partner = next((each for each in (*short, *names) if each not in taken), None)
            if partner is not None and name not in busy:
                busy |= {name, partner}
                pairs.append((name, partner))
                met[name].add(partner)
                met[partner].add(name)
        more.append(tuple(pairs))
    return more
