"""The collector that a check writes its findings to: a sentence per device, worst wins, unknown is `error`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nodegate.errors import CannotMeasure, NotJudged
from nodegate.unknown import Unknown
from nodegate.verdict import Finding, Limit, Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Callable

NEXT_STEP_UNKNOWN = "see the evidence file for what the node answered"


class Verdicts:
    """The findings of one check on one node.

    Every judging method takes the reading as it came: an `Unknown` becomes an `error` finding with its reason, a limit
    of None becomes "not judged" (`skip`), never 0. Every healthy device leaves a `pass` finding: a pass needs positive
    evidence.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    @property
    def verdict(self) -> Verdict:
        """The worst finding so far; `error` when there is none."""
        return worst(finding.verdict for finding in self.findings)

    def equal(
        self,
        *,
        subject: str,
        what: str,
        observed: object,
        expected: object,
        remedy: str,
        unit: str = "",
        source: str = "",
        otherwise: Verdict = Verdict.FAIL,
    ) -> None:
        """The reading equals what is expected: a plain value (with `unit` and `source`) or a `Limit`."""
        limit = expected
        if not (limit is None or isinstance(limit, (Limit, Unknown))):
            limit = Limit(expected, unit, source)
        self._judge(subject, what, observed, limit, remedy, otherwise, "", lambda seen, right: seen == right)

    def at_least(
        self,
        *,
        subject: str,
        what: str,
        observed: object,
        limit: Limit | Unknown | None,
        remedy: str,
        otherwise: Verdict = Verdict.FAIL,
    ) -> None:
        """The reading is not below the limit."""
        self._judge(subject, what, observed, limit, remedy, otherwise, "at least ", lambda seen, low: seen >= low)  # type: ignore[operator]

    def at_most(
        self,
        *,
        subject: str,
        what: str,
        observed: object,
        limit: Limit | Unknown | None,
        remedy: str,
        otherwise: Verdict = Verdict.FAIL,
    ) -> None:
        """The reading is not above the limit."""
        self._judge(subject, what, observed, limit, remedy, otherwise, "at most ", lambda seen, high: seen <= high)  # type: ignore[operator]

    def found(
        self,
        verdict: Verdict,
        *,
        subject: str,
        message: str,
        remedy: str = "",
        metric: str = "",
        value: object = None,
        unit: str = "",
        limit: Limit | None = None,
    ) -> None:
        """A finding whose sentence the check writes itself (`subject: message - remedy`)."""
        line = f"{subject}: {message}" + (f" - {remedy}" if remedy and verdict is not Verdict.PASS else "")
        self.findings.append(
            Finding(
                subject=subject,
                verdict=verdict,
                message=line,
                metric=metric,
                value=_plain(value),
                unit=unit,
                limit=_plain(limit.value) if limit else None,
                limit_source=limit.source if limit else "",
                action=remedy if verdict is not Verdict.PASS else "",
            )
        )

    def passed(self, *, subject: str, message: str, metric: str = "", value: object = None, unit: str = "") -> None:
        """Positive evidence that this part is healthy."""
        self.found(Verdict.PASS, subject=subject, message=message, metric=metric, value=value, unit=unit)

    def unknown(self, *, subject: str, what: str, reason: str | Unknown, remedy: str = NEXT_STEP_UNKNOWN) -> None:
        """Something that must be known could not be read: `error`."""
        self.found(Verdict.ERROR, subject=subject, message=f"{what} is unknown ({reason})", remedy=remedy, metric=what)

    def skip(self, reason: str) -> NoReturn:
        """This check does not apply to this node: ends the check.

        Raises:
            NotJudged: always.
        """
        raise NotJudged(reason)

    def cannot(self, reason: str, *, next_step: str) -> NoReturn:
        """Nothing can be judged here: ends the check with `error`.

        Raises:
            CannotMeasure: always.
        """
        raise CannotMeasure(reason, next_step=next_step)

    def _judge(  # noqa: PLR0917 - one caller a method, all in this class
        self,
        subject: str,
        what: str,
        observed: object,
        limit: Limit | Unknown | None,
        remedy: str,
        otherwise: Verdict,
        word: str,
        right: Callable[[object, object], bool],
    ) -> None:
        if isinstance(observed, Unknown):
            self.unknown(subject=subject, what=what, reason=observed)
            return
        if isinstance(limit, Unknown):
            self.unknown(subject=subject, what=f"the limit for {what}", reason=limit)
            return
        if limit is None:
            self.found(Verdict.SKIP, subject=subject, message=f"{what} is not judged: no limit", metric=what)
            return
        verdict = Verdict.PASS if right(observed, limit.value) else otherwise
        value = _with_unit(observed, limit.unit)
        expected = f"expected {word}{_with_unit(limit.value, limit.unit)}"
        source = f" ({limit.source})" if limit.source else ""
        message = f"{what} {value}" if verdict is Verdict.PASS else f"{what} {value}, {expected}{source}"
        self.found(
            verdict,
            subject=subject,
            message=message,
            remedy=remedy,
            metric=what,
            value=observed,
            unit=limit.unit,
            limit=limit,
        )


def _plain(value: object) -> object:
    """As JSON can hold it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _with_unit(value: object, unit: str) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {unit}".rstrip()
