"""Which PCIe link gives a rate: a slow copy in the words of whoever looks for a bad seat, riser or slot."""

from __future__ import annotations

# GB/s (1e9 bytes) that one lane carries in one direction, after line coding. Source: PCI Express base specifications,
# 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with 242 of 256 bytes of a flit.
LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
WIDTHS = (16, 8, 4, 2, 1)
# Healthy links give copies of pinned memory 79 % (Gen3 x16: 12.4 GB/s) to 88 % (Gen5 x16: 55.4 GB/s) of that. Only the
# words of a message rest on this, no verdict.
_GIVEN = 0.7
_SAME = 0.05  # within this part two links are equally fast: Gen4 x16 and Gen5 x8


def capacity(gen: int, width: int) -> float | None:
    """What a link carries in one direction in GB/s; None for one that is not known."""
    lane = LANE_GB_PER_S.get(gen)
    return None if lane is None or width < 1 else lane * width


def link_of(rate: float, gen_max: int) -> str:
    """The links that give this rate in GB/s: "what a Gen4 x16 or Gen5 x8 link gives".

    Args:
        rate: of copies with pinned memory.
        gen_max: the newest generation that the GPU has; links that it cannot have are not named.
    """
    carried = sorted({capacity(gen, width) or 0.0 for gen in _gens(gen_max) for width in WIDTHS})
    enough = [each for each in carried if each >= rate]
    if not enough:
        return f"more than PCIe Gen{max(_gens(gen_max))} x16 can carry"
    names = _names(enough[0], gen_max)
    if rate >= _GIVEN * enough[0]:
        return f"what a {names} link gives"
    return f"less than a {names} link gives"


def _gens(gen_max: int) -> tuple[int, ...]:
    return tuple(gen for gen in LANE_GB_PER_S if gen <= gen_max) or (1,)


def _names(carried: float, gen_max: int) -> str:
    """All links that carry as much, the oldest and widest first."""
    found = [
        f"Gen{gen} x{width}"
        for gen in _gens(gen_max)
        for width in WIDTHS
        if abs((capacity(gen, width) or 0.0) - carried) <= _SAME * carried
    ]
    return ", ".join(found[:-1]) + " or " + found[-1] if len(found) > 1 else found[0]
