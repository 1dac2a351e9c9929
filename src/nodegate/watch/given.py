"""What is usual by the user's word: a time (`--usual 3.1s`), that of an earlier run's log, or an MFU (`--mfu 40`)."""

from dataclasses import dataclass

from nodegate.watch.reading import Point

SETTINGS = {3: "global batch size", 4: "sequence length", 5: "number of ranks"}  # by their place in a point's key


@dataclass(frozen=True)
class Given:
    """What is usual by someone else's word.

    Args:
        name: where it comes from, as users read it.
        seconds: the time of an iteration (or sample, or token).
        per: what `seconds` is the time of.
        setting: the key of the earlier run's points; empty if only the time is known.
        tokens: of an iteration of the earlier run; None if it did not count them.
        mfu: the share of the GPUs' peak that is usual, in percent; then there is no time, and `seconds` is 0.
        peak_tflops: the peak of a GPU, for logs that name TFLOP/s and no MFU; 0 if it is not known.
    """

    name: str
    seconds: float
    per: str = "iteration"
    setting: tuple[object, ...] = ()
    tokens: float | None = None
    mfu: float = 0.0
    peak_tflops: float = 0.0

    def differs(self, point: Point, per: str) -> str:
        """Why these points cannot be compared with it; empty if they can."""
        if self.mfu:
            if point.mfu is None and point.tflops is None:
                return f"{self.name}: this log names neither an MFU nor TFLOP/s"
            lacks_peak = point.mfu is None and not self.peak_tflops
            return f"{self.name}: this log names TFLOP/s: give --platform for the GPU's peak" if lacks_peak else ""
        if per != self.per:
            return f"{self.name} is the time of one {self.per}, this log has that of one {per}"
        for place, what in SETTINGS.items() if self.setting else ():
            there, here = self.setting[place], point.key[place]
            if there is not None and here is not None and there != here:
                return f"another {what}: {there} in {self.name}, {here} here"
        if self.setting and (self.tokens is None) != (point.tokens is None):
            return f"only one of the two counts tokens: {self.name} and this log"
        return ""

    def seconds_for(self, point: Point) -> float:
        """The time for as many tokens as an iteration of this point has; the time of the same work at the usual MFU."""
        if self.mfu:
            share = point.mfu if point.mfu is not None else 100 * (point.tflops or 0.0) / self.peak_tflops
            return point.seconds * share / self.mfu
        return self.seconds * point.tokens / self.tokens if point.tokens and self.tokens else self.seconds
