"""Accepted deviations (`--waivers FILE`): a fail, or a claim that is not proven, that a named person accepts."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Loaded, did_you_mean
from nodegate.inventory.hostlist import expand, fold
from nodegate.node import Node
from nodegate.records.finding import Finding, Record
from nodegate.records.verdict import Verdict
from nodegate.text import day

_REQUIRED = ("node", "reason", "owner", "expires")
_RANGES = re.compile(r"\[[^]]*(?:[0-9]{2}[-,:]|[-,:][0-9]{2})")  # numbers of a hostlist, which no shell's pattern has
_WORDS = ("node", "check", "claim", "reason", "owner", "expires", "subject")
GAPS = "gaps"  # without the prefix, as a node has it


@dataclass(frozen=True)
class Waiver:
    """One accepted deviation. `expires` is the last day on which it holds.

    `node` is a name, a Slurm hostlist (gpu[001-016]) or a pattern (gpu*). It speaks of a `check` that fails, or of a
    `claim` that is not proven. `subject` limits it to one device ("GPU 3", "mlx5_0"); empty: everything that the check
    says of the node.
    """

    node: str
    check: str
    reason: str
    owner: str
    expires: dt.date
    claim: str = ""
    subject: str = ""
    file: str = ""
    line: int = 0
    nodes: frozenset[str] = frozenset()  # what the hostlist stands for; empty for a name or a pattern

    def holds(self, today: dt.date) -> bool:
        """Whether it has not run out."""
        return today <= self.expires

    def is_for(self, record: Record) -> bool:
        """Whether it speaks of this check on this node."""
        return self.check == record.check and self.names(record.node)

    def names(self, node: str) -> bool:
        """Whether the node is one that it is for."""
        return node == self.node or node in self.nodes or (not self.nodes and fnmatchcase(node, self.node))

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this device: "GPU 1" is not "GPU 10"."""
        return not self.subject or any(part.is_called(self.subject) for part in finding.parts)

    def __str__(self) -> str:
        return f"{self.reason} (owner {self.owner}, expires {self.expires})"


@dataclass(frozen=True)
class Waivers:
    """All waivers of a run, judged by one date so that a run over midnight is one run."""

    waivers: tuple[Waiver, ...] = ()
    today: dt.date = dt.date.max  # without waivers no day matters

    @staticmethod
    def read(path: Path, today: dt.date) -> Waivers:
        """Read a waiver file: a YAML list.

        Raises:
            UsageError: it cannot be read, or an entry lacks something, with file and line.
        """
        loaded = strict_yaml.load_file(path)
        entries = [] if loaded.value is None else loaded.value
        if not isinstance(entries, list):
            raise loaded.wrong("a waiver file must be a list", hint="- {node: .., check: .., ..}")
        return Waivers(tuple(_waiver(loaded, index, entry) for index, entry in enumerate(entries)), today)

    def check(self, *, checks: Collection[str], claims: Collection[str], nodes: Collection[str]) -> tuple[str, ...]:
        """What is odd about the waivers in this run: one line for each that names no node of it.

        Raises:
            UsageError: a waiver names a check or a claim that there is not.
        """
        odd = []
        for waiver in self.waivers:
            for what, name, known in (("check", waiver.check, checks), ("claim", waiver.claim, claims)):
                if name and name not in known:
                    message = f"a waiver for the unknown {what} {name!r}"
                    raise UsageError(message, file=waiver.file, line=waiver.line, hint=did_you_mean(name, known))
            if not any(waiver.names(node) for node in nodes):
                odd.append(f"{waiver.file}:{waiver.line}: the waiver for {waiver.node} matches no node of this run")
        return tuple(odd)

    def cover(self, record: Record) -> Record:
        """The record with its waiver, when waivers in force cover every failed finding of it.

        A fail stays a fail where a waiver has run out, where it speaks of other devices only, and where something
        else on the node could not be judged: what is unknown cannot be waived. The message then says so.
        """
        ours = [waiver for waiver in self.waivers if waiver.is_for(record)]
        if record.verdict is not Verdict.FAIL or not ours:
            return record
        in_force = [waiver for waiver in ours if waiver.holds(self.today)]
        failed = [finding for finding in record.findings if finding.verdict is Verdict.FAIL]
        bare = [finding for finding in failed if not any(waiver.covers(finding) for waiver in in_force)]
        if bare or (not failed and not in_force):
            return replace(record, remark=self._why_not(ours, bare))
        if any(finding.verdict is Verdict.ERROR for finding in record.findings):
            return replace(record, remark="not waived: other parts could not be judged")
        used = [waiver for waiver in in_force if not failed or any(waiver.covers(each) for each in failed)]
        return replace(record, waiver="; ".join(str(waiver) for waiver in used))

    def signed(self, claim: str, node: str) -> str:
        """Who accepts that a claim is not proven on this node, why and until when; empty if no one does now."""
        ours = (waiver for waiver in self.waivers if waiver.claim == claim and waiver.names(node))
        return "; ".join(str(waiver) for waiver in ours if waiver.holds(self.today))

    def run_out(self) -> tuple[str, ...]:
        """One line for each signature under a claim whose last day is past: it has no effect any more."""
        return tuple(
            f"{waiver.file}:{waiver.line}: {waiver.node}: {waiver.claim} was signed for until {waiver.expires} "
            f"(owner {waiver.owner}), which has passed: it no longer applies"
            for waiver in self.waivers
            if waiver.claim and not waiver.holds(self.today)
        )

    def _why_not(self, ours: Iterable[Waiver], bare: list[Finding]) -> str:
        expired = [
            waiver
            for waiver in ours
            if not waiver.holds(self.today) and (not bare or any(waiver.covers(finding) for finding in bare))
        ]
        if expired:
            return "; ".join(f"waiver expired on {each.expires}: {each.reason}, owner {each.owner}" for each in expired)
        return f"no waiver covers {bare[0].part.label}"


def _waiver(loaded: Loaded, index: int, entry: object) -> Waiver:
    if not isinstance(entry, dict):
        raise loaded.wrong("a waiver is a mapping", (index,), f"with {', '.join(_REQUIRED)}")
    for word in entry:
        if word not in _WORDS:
            raise loaded.unknown_key((index, word), _WORDS)
    for word in _REQUIRED:
        if word not in entry:
            raise loaded.wrong(f"this waiver has no {word}", (index,), "every waiver needs one")
    if ("check" in entry) == ("claim" in entry):
        raise loaded.wrong("a waiver must name one check or one claim", (index,), "write check: or claim:")
    texts = {word: value for word, value in entry.items() if word != "expires"}
    for word, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise loaded.wrong(f"{word} must be some text, not {value!r}", (index, word))
    texts.setdefault("check", "")
    expires = day(entry["expires"])
    if expires is None:
        message = f"expires must be a day, not {entry['expires']!r}"
        raise loaded.wrong(message, (index, "expires"), "write it as 2026-12-31")
    return Waiver(
        **texts,
        expires=expires,
        file=loaded.name,
        line=loaded.line((index,)),
        nodes=_hostlist(loaded, index, entry["node"]),
    )


def _hostlist(loaded: Loaded, index: int, node: str) -> frozenset[str]:
    if "[" not in node or set(node) & set("*?!"):
        if _RANGES.search(node):
            message = f"{node!r} is a hostlist and a pattern in one: a pattern reads [001-016] as single letters"
            raise loaded.wrong(message, (index, "node"), 'write gpu[001-016], or a pattern such as "gpu0*"')
        return frozenset()
    try:
        return frozenset(expand(node))
    except UsageError as problem:
        raise loaded.wrong(problem.message, (index, "node"), problem.hint) from None


def signed_gaps(nodes: Iterable[Node]) -> tuple[Waiver, ...]:
    """The gaps of all nodes, as waivers of claims: one for all nodes that have the same.

    Raises:
        UsageError: an unknown claim, or a gap without reason, owner or day, with the file and line that set it.
    """
    known = [claim.name for claim in claims()]
    found: dict[Waiver, set[str]] = {}
    for node in nodes:
        file, line = node.place(GAPS)
        for claim, gap in node.settings.gaps.items():
            if claim not in known:
                hint = did_you_mean(claim, known)
                raise node.wrong(f"nodegate_gaps: unknown claim {claim[:60]!r}", hint, variable=GAPS)
            waiver = Waiver("", "", gap.reason, gap.owner, gap.expires, claim=claim, file=file, line=line)
            found.setdefault(waiver, set()).add(node.name)
    return tuple(replace(gap, node=fold(names), nodes=frozenset(names)) for gap, names in found.items())
