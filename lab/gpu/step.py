"""What one step of `python -m lab gpu` found: what has to hold on any board, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass, field

HELD, BROKEN, NOT_DONE = "held", "BROKEN", "not done"


@dataclass
class Step:
    """A step: `claims` is what was asserted, each with whether it held; `missing` why it could not be done at all."""

    name: str
    claims: list[tuple[str, bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""
    took_s: float = 0.0

    def claim(self, what: str, held: object) -> None:
        """Note what has to hold anywhere, and whether it does."""
        self.claims.append((what, bool(held)))

    @property
    def broken(self) -> list[str]:
        """What did not hold."""
        return [what for what, held in self.claims if not held]

    @property
    def verdict(self) -> str:
        """A step that asserted nothing has shown nothing."""
        return NOT_DONE if self.missing else BROKEN if self.broken or not self.claims else HELD

    def to_json(self) -> dict[str, object]:
        """Its form in the report."""
        return {
            "step": self.name,
            "verdict": self.verdict,
            "took_s": round(self.took_s, 1),
            "claims": [{"what": what, "held": held} for what, held in self.claims],
            "notes": self.notes,
            "missing": self.missing,
        }
