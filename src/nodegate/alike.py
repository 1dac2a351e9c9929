"""Healthy parts with the same result: one finding for all of them, made when it is asked for."""

from dataclasses import dataclass

from nodegate.records.finding import AnyLimit, Finding, Limit, Value
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict


@dataclass(slots=True)
class Alike:
    """Healthy parts with the same result."""

    parts: list[Part]
    quantity: str
    observed: Value
    limit: AnyLimit | None
    direction: str
    unit: str
    text: str
    code: str

    def finding(self) -> Finding:
        """The finding of all of them."""
        return Finding(
            self.parts[0],
            Verdict.PASS,
            self.quantity,
            self.observed,
            self.unit,
            self.limit and held_to_limit(self.limit, self.direction),
            self.text,
            code=self.code,
            also=tuple(self.parts[1:]),
        )


def held_to_limit(limit: AnyLimit, direction: str) -> AnyLimit:
    """The limit, with how it is kept."""
    if limit.direction == direction:
        return limit
    return Limit(limit.value, limit.unit, limit.source, direction, limit.kind)
