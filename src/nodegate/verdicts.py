"""The collector that a check writes its findings to: one for each part, worst wins, unknown is `error`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar, cast

from nodegate.alike import Alike, held_to_limit
from nodegate.errors import ByDesign, CannotMeasure, NotApplicable, NotDemanded, NotDone
from nodegate.records.finding import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    OWN_WORD,
    AnyLimit,
    Finding,
    Limit,
    LimitValue,
    NumberLimit,
    Value,
    share_left,
)
from nodegate.records.part import NO_PARTS, Part, Parts
from nodegate.records.verdict import Verdict, worst
from nodegate.unknown import Known, Unknown, Why

NEXT_STEP_UNKNOWN = "see the evidence file for what the node answered"
Number = int | float
T = TypeVar("T", bound=LimitValue)


class Verdicts:
    """The findings of one check on one node.

    Every judging method takes the reading as it came: an `Unknown` becomes an `error` finding with its reason, a limit
    of None becomes `not-judged`, never 0. A reading that the part does not have by design (`Unknown.is_absent`) becomes
    the verdict that `absent` names. Every healthy part leaves a `pass` finding: a pass needs positive evidence.

    Args:
        parts: the node's parts, by which a part that a check names in one way is named in all.
    """

    def __init__(self, parts: Parts = NO_PARTS) -> None:
        self._found: list[Finding | Alike] = []
        self._healthy: dict[object, list[Alike]] = {}
        self._parts = parts

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, in the order in which they were made; healthy parts that are alike share one."""
        return [found.finding() if isinstance(found, Alike) else found for found in self._found]

    @property
    def verdict(self) -> Verdict:
        """The worst finding so far; `error` when there is none."""
        return worst(finding.verdict for finding in self.findings)

    def equal(
        self,
        *,
        part: Part,
        quantity: str,
        observed: Known[Value],
        expected: AnyLimit | Unknown | LimitValue | None,
        action: str,
        unit: str = "",
        source: str = "",
        otherwise: Verdict = Verdict.FAIL,
        absent: Verdict = Verdict.ERROR,
        note: str = "",
        code: str = "",
    ) -> None:
        """The reading equals what is expected, a plain value (with `unit` and `source`) or a `Limit`.

        Of a set of values any one is right.
        """
        limit = expected
        if not (limit is None or isinstance(limit, (Limit, Unknown))):
            limit = Limit(limit, unit, source)
        bad = otherwise, note, action, code
        self._judge(part, quantity, observed, limit, EQUAL, _equals, bad, absent)

    def at_least(
        self,
        *,
        part: Part,
        quantity: str,
        observed: Known[Number],
        limit: NumberLimit | Unknown | None,
        action: str,
        otherwise: Verdict = Verdict.FAIL,
        absent: Verdict = Verdict.ERROR,
        note: str = "",
        code: str = "",
    ) -> None:
        """The reading is not below the limit."""
        bad = otherwise, note, action, code
        self._judge(part, quantity, observed, limit, AT_LEAST, operator.ge, bad, absent)

    def at_most(
        self,
        *,
        part: Part,
        quantity: str,
        observed: Known[Number],
        limit: NumberLimit | Unknown | None,
        action: str,
        otherwise: Verdict = Verdict.FAIL,
        absent: Verdict = Verdict.ERROR,
        note: str = "",
        code: str = "",
    ) -> None:
        """The reading is not above the limit."""
        bad = otherwise, note, action, code
        self._judge(part, quantity, observed, limit, AT_MOST, operator.le, bad, absent)

    def holds(
        self,
        *,
        part: Part,
        quantity: str,
        observed: Known[bool],
        good: str,
        bad: str,
        action: str,
        expected: bool = True,
        otherwise: Verdict = Verdict.FAIL,
        absent: Verdict = Verdict.ERROR,
        code: str = "",
    ) -> None:
        """A yes or no that has its own words: `good` where it is as expected, else `bad`."""
        if isinstance(observed, Unknown):
            self.unknown(part=part, quantity=quantity, reason=observed, absent=absent)
        elif observed is expected:
            self.passed(part=part, text=good, quantity=quantity, observed=observed)
        else:
            self.found(otherwise, part=part, text=bad, action=action, quantity=quantity, observed=observed, code=code)

    def found(
        self,
        verdict: Verdict,
        *,
        part: Part,
        text: str = "",
        note: str = "",
        action: str = "",
        quantity: str = "",
        observed: Value = None,
        unit: str = "",
        limit: AnyLimit | None = None,
        code: str = "",
        metric: str = "",
        share: float | None = None,
        lacks: str = "",
    ) -> None:
        """A finding that the check itself judged; `text` says in words what was seen."""
        self._keep(
            Finding(
                self._parts.complete(part),
                verdict,
                quantity,
                observed,
                unit,
                limit,
                text,
                note,
                action,
                code=code,
                metric=metric,
                share=share,
                lacks=lacks,
            )
        )

    def passed(self, *, part: Part, text: str = "", quantity: str = "", observed: Value = None, unit: str = "") -> None:
        """Positive evidence that this part is healthy."""
        self._pass(part, quantity, observed, unit=unit, text=text)

    def unknown(
        self,
        *,
        part: Part,
        quantity: str,
        reason: str | Unknown,
        action: str = NEXT_STEP_UNKNOWN,
        blocked_by: str = "",
        lacks: str = "",
        absent: Verdict = Verdict.ERROR,
    ) -> None:
        """Something that must be known could not be read: `error`, or `absent` where the part does not have it.

        `blocked_by` names the check that says why it could not be read, `lacks` what was not there (`Finding`).
        """
        if isinstance(reason, Unknown) and reason.is_absent and absent is not Verdict.ERROR:
            self.absent(part=part, quantity=quantity, reason=reason, verdict=absent)
            return
        why = reason.why if isinstance(reason, Unknown) else None
        found = Finding(part, Verdict.ERROR, quantity, text=str(reason), action=action, why=why, lacks=lacks)
        self.add(replace(found, blocked_by=blocked_by) if blocked_by else found)

    def absent(self, *, part: Part, quantity: str, reason: Unknown, verdict: Verdict = Verdict.SKIP) -> None:
        """A reading that this part or driver says it does not have."""
        text = f"does not report {quantity} ({reason})"
        if verdict is Verdict.SKIP:
            self.lacking(part=part, quantity=quantity, text=text)
        else:
            self.add(Finding(part, verdict, quantity, text=text, why=reason.why))

    def lacking(self, *, part: Part, text: str, quantity: str = "", witness: str = OWN_WORD) -> None:
        """A part that has no such thing by design: `skip`. The device is a witness only if all of its kind say so."""
        self.add(Finding(part, Verdict.SKIP, quantity, text=text, why=Why.BY_DESIGN, witness=witness))

    def left_out(
        self, *, part: Part, quantity: str = "", observed: Value = None, unit: str = "", text: str = "", note: str = ""
    ) -> None:
        """A part that this run did not judge: `skip`, and nothing is proven of it."""
        self.add(Finding(part, Verdict.SKIP, quantity, observed, unit, text=text, note=note, why=Why.NOT_DONE))

    def add(self, finding: Finding) -> None:
        """One more finding; its part gets all of its names, and nothing but a bad finding keeps its action."""
        part = self._parts.complete(finding.part)
        self._keep(finding if part is finding.part else replace(finding, part=part))

    def _keep(self, finding: Finding) -> None:
        """One more finding, of a part with all of its names."""
        is_bare = not finding.action or finding.verdict not in (Verdict.PASS, Verdict.SKIP)
        self._found.append(finding if is_bare else replace(finding, action=""))

    def _pass(
        self,
        part: Part,
        quantity: str,
        observed: Value,
        limit: AnyLimit | None = None,
        direction: str = EQUAL,
        *,
        unit: str = "",
        text: str = "",
        code: str = "",
    ) -> None:
        """One more healthy part. A node has a thousand of them and a hundred findings: none is made for each part."""
        whole = self._parts.complete(part)
        key = quantity, observed, direction, unit, text, code
        same = self._healthy.get(key)
        if same is None:
            same = self._healthy[key] = []
        for alike in same:
            if alike.limit is limit or alike.limit == limit:
                alike.parts.append(whole)
                return
        alike = Alike([whole], quantity, observed, limit, direction, unit, text, code)
        same.append(alike)
        self._found.append(alike)

    def skip(self, reason: str) -> NoReturn:
        """Nothing is judged here, without a reason that counts: ends the check, and proves nothing.

        Raises:
            NotApplicable: always.
        """
        raise NotApplicable(reason)

    def by_design(self, reason: str, *, witness: str) -> NoReturn:
        """This kind of node has no such thing: ends the check. `witness`: a file and key, the order, the device.

        Raises:
            ByDesign: always.
        """
        raise ByDesign(reason, witness=witness)

    def not_demanded(self, reason: str) -> NoReturn:
        """Neither platform nor order nor contract asks for it: ends the check.

        Raises:
            NotDemanded: always.
        """
        raise NotDemanded(reason)

    def not_done(self, reason: str) -> NoReturn:
        """This check applies, but what it judges was left out of this run: ends the check, and proves nothing.

        Raises:
            NotDone: always.
        """
        raise NotDone(reason)

    def cannot(self, reason: str, *, next_step: str, blocked_by: str = "", lacks: str = "") -> NoReturn:
        """Nothing can be judged here: ends the check with `error`.

        Raises:
            CannotMeasure: always.
        """
        raise CannotMeasure(reason, next_step=next_step, blocked_by=blocked_by, lacks=lacks)

    def _judge(  # noqa: PLR0917 - one caller a method, all in this class
        self,
        part: Part,
        quantity: str,
        observed: Known[T] | Known[Value],
        limit: Limit[T] | Unknown | None,
        direction: str,
        right: Callable[[T, T], bool],
        bad: tuple[Verdict, str, str, str],
        absent: Verdict,
    ) -> None:
        """Keep what the reading makes of it; `bad` is the verdict, note, action and code of one that is not right."""
        verdict, note, action, code = bad
        if isinstance(observed, Unknown):
            self.unknown(part=part, quantity=quantity, reason=observed, absent=absent)
        elif isinstance(limit, Unknown):
            self.unknown(part=part, quantity=f"the limit for {quantity}", reason=limit, absent=absent)
        elif limit is None:
            text, action = f"{quantity} has no limit to be judged by", "add a limit to a baseline"
            self.add(Finding(part, Verdict.NOT_JUDGED, quantity, text=text, note=note, action=action, code=code))
        elif right(observed, limit.value):  # type: ignore[arg-type]
            self._pass(
                part, quantity, cast("Value", observed), cast("AnyLimit", limit), direction, unit=limit.unit, code=code
            )
        else:
            held_to = held_to_limit(cast("AnyLimit", limit), direction)
            share = share_left(cast("Value", observed), held_to)
            self.found(
                verdict,
                part=part,
                note=note,
                action=action,
                quantity=quantity,
                observed=cast("Value", observed),
                unit=limit.unit,
                limit=held_to,
                code=code,
                share=share,
            )


def _equals(observed: object, expected: object) -> bool:
    return observed in expected if isinstance(expected, tuple) else observed == expected
