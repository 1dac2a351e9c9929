"""A histogram of a metric over the fleet as a small SVG: bars, and a line at the limit."""

from collections.abc import Sequence

WIDTH, HEIGHT, BINS = 180, 26, 45


def histogram(values: Sequence[float], limit: float | None) -> str:
    """SVG of the values; colours come from the page's classes `bars` and `limit`. Made of numbers only."""
    low, high = min(values), max(values)
    if limit is not None and _near(limit, low, high):
        low, high = min(low, limit), max(high, limit)
    span = (high - low) or 1.0
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value - low) / span * BINS))] += 1
    step, most = WIDTH / BINS, max(counts)
    bars = "".join(
        f"M{index * step:.4g} {HEIGHT}v-{max(1.5, (HEIGHT - 2) * count / most):.3g}h{step - 1:.4g}V{HEIGHT}z"
        for index, count in enumerate(counts)
        if count
    )
    line = ""
    if limit is not None and low <= limit <= high:
        line = f'<path class="limit" d="M{(limit - low) / span * (WIDTH - 2) + 1:.4g} 0V{HEIGHT}"/>'
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg {size} aria-hidden="true"><path class="bars" d="{bars}"/>{line}</svg>'


def _near(limit: float, low: float, high: float) -> bool:
    """Whether the limit can be drawn without pressing the values into a corner."""
    room = 2 * (high - low)
    return low - room <= limit <= high + room
