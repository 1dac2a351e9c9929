"""Keras' progress bars: `150/1000 [==>...] - ETA: 21:22 - 1508ms/step`, `150/1000 ━━━━ 21:22 2s/step` in Keras 3.

Their time of a step is the mean since the epoch began, so a step's own is the difference of two means by their steps.
A program that writes the last step's own there is known by such a difference that is negative.
"""

import re

from nodegate.watch.reading import Reading, elapsed_s, positive

_BAR = re.compile(
    r"(?:^|\s)(?P<n>[0-9]{1,13})/(?P<of>[0-9]{1,13})\s{1,4}(?:\[[=>.]{1,60}\] -|[━╸╺ ]{1,60})\s{1,4}"
    r"(?:ETA: )?(?P<eta>[0-9:]{1,12})s?(?: -)? {1,4}(?P<time>[0-9]{1,9})(?P<unit>m?s)/(?:step|sample|batch)"
)
LEAST_S = 20.0  # between two means: their errors are those of whole milliseconds, times the steps
NEGATIVES = 2


class KerasBars:
    """Reads the bars of one log."""

    def __init__(self) -> None:
        self._anchor = self._before = (0, 0.0)  # steps, and the seconds of all of them
        self._negatives = 0
        self._lap, self._of = 1, 0

    def __call__(self, line: str) -> Reading | None:
        """The reading of a bar; None for other lines and while too little time has passed."""
        found = _BAR.search(line[:400]) if "/step" in line or "/sample" in line or "/batch" in line else None
        steps, of = (int(found["n"]), int(found["of"])) if found else (0, 0)
        mean = _mean(found, steps, of - steps) if found else None
        if mean is None or not 0 < steps < of:
            return None
        self._of = self._of or of
        if of != self._of:  # an evaluation
            return Reading("keras", steps, seconds=mean, bar=f" of {of}")
        spent_s = mean * steps
        if steps < self._before[0]:
            self._anchor = self._before = (0, 0.0)
            self._lap += 1
        self._negatives += spent_s < self._before[1]
        self._before = (steps, spent_s)
        if self._negatives < NEGATIVES:
            since, since_s = self._anchor
            if spent_s - since_s < LEAST_S:
                return None
            mean, self._anchor = (spent_s - since_s) / (steps - since), self._before
        return Reading("keras", steps, seconds=mean, bar=f" of {of}", lap=self._lap)


def _mean(found: re.Match[str], steps: int, left: int) -> float | None:
    """Seconds of a step: by the time that is left where it says more than whole seconds or milliseconds."""
    value = positive(found["time"])
    if value is None or found["unit"] == "ms":
        return None if value is None else value / 1000
    eta_s = elapsed_s(found["eta"]) if ":" in found["eta"] else positive(found["eta"])
    return eta_s / left if eta_s and left * 3 > steps else None
