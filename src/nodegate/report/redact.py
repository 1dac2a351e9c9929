"""The report without what names machines and people: for a ticket, a vendor or a public page."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.files.source import Source
    from nodegate.policy.policy import Policy
    from nodegate.records.finding import AnyLimit, Finding, Record
    from nodegate.records.part import Part
    from nodegate.records.run import Drift, NodeReport, Run
    from nodegate.report.model import Report

GONE = "[redacted]"

# What looks like an IP address is asked whether it is one: versions and PCI addresses stay. All lengths are bounded,
# since the text is a node's own.
_IP = re.compile(r"(?<![\w.:])[0-9A-Fa-f.:]{3,45}(?![\w:])", re.ASCII)
_HARDWARE = re.compile(
    r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b"  # MAC
    r"|\b(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}\b|\b0x[0-9A-Fa-f]{16}\b"  # GUID
    r"|\b(?:GPU-|MIG-)?[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b"  # UUID
)
_HOME = re.compile(r"(/home/|/Users/|~(?=[A-Za-z]))[\w.-]{1,64}")
_LOGIN = re.compile(r"\b[\w.-]{1,64}@(?=[\w.-])")
_WORD = re.compile(r"[\w.-]{3,64}")
_SHORTEST = 3  # a shorter serial or user name would take innocent text with it


def redact(report: Report) -> Report:
    """The same report without serial numbers, addresses and user names.

    They go from every text, not only from their own fields. Node names stay, except where a name is an IP address:
    those are numbered. PCI addresses, versions and what was measured stay.
    """
    return _Redaction(report).report()


class _Redaction:
    def __init__(self, original: Report) -> None:
        self.original = original
        addresses = [node.node for node in original.nodes if _is_address(node.node)]
        self.names = {name: f"node-{index:04d}" for index, name in enumerate(sorted(addresses, key=natural), start=1)}
        secrets = {serial for node in original.nodes for serial in node.serials.values()}
        secrets |= {original.run.user, original.run.host} - {"root", "localhost"}
        secrets = {secret for secret in secrets if len(secret) >= _SHORTEST}
        self.words = frozenset(secret for secret in secrets if _WORD.fullmatch(secret))
        self.phrases = sorted(secrets - self.words)

    def report(self) -> Report:
        original = self.original
        return replace(
            original,
            run=self.run(original.run),
            nodes=tuple(self.node(node) for node in original.nodes),
            drift=tuple(self.drift(row) for row in original.drift),
            policy=original.policy and self.policy(original.policy),
        )

    def policy(self, policy: Policy) -> Policy:
        return replace(policy, title=self.text(policy.title), source=self.text(policy.source))

    def run(self, run: Run) -> Run:
        return replace(
            run,
            host=GONE if run.host else "",
            user=GONE if run.user else "",
            command=self.text(run.command),
            selection=self.text(run.selection),
            answer=self.text(run.answer),
            evidence=self.text(run.evidence),
            notes=tuple(self.text(note) for note in run.notes),
            inventory=self.sources(run.inventory),
            baselines=self.sources(run.baselines),
            judging_s={},
        )

    def sources(self, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return tuple(replace(source, path=self.text(source.path)) for source in sources)

    def node(self, node: NodeReport) -> NodeReport:
        return replace(
            node,
            node=self.names.get(node.node, node.node),
            serials=dict.fromkeys(node.serials, GONE),
            identity=tuple((label, self.text(value)) for label, value in node.identity),
            records=tuple(self.record(record) for record in node.records),
            unreachable=self.text(node.unreachable),
            claims=tuple(replace(each, why=self.text(each.why), signed=self.text(each.signed)) for each in node.claims),
        )

    def record(self, record: Record) -> Record:
        return replace(
            record,
            node=self.names.get(record.node, record.node),
            remark=self.text(record.remark),
            findings=tuple(self.finding(finding) for finding in record.findings),
            evidence=tuple(self.text(path) for path in record.evidence),
            waiver=self.text(record.waiver),
        )

    def finding(self, finding: Finding) -> Finding:
        return replace(
            finding,
            part=self.part(finding.part),
            also=tuple(self.part(part) for part in finding.also),
            text=self.text(finding.text),
            note=self.text(finding.note),
            observed=self.text(finding.observed) if isinstance(finding.observed, str) else finding.observed,
            limit=self.limit(finding.limit) if finding.limit else None,
            action=self.text(finding.action),
        )

    def part(self, part: Part) -> Part:
        """The part without serial number and UUID; where it sits in the node stays, so parts stay told apart."""
        return replace(
            part,
            name=self.text(part.name),
            serial="",
            uuid="",
            netdev=self.text(part.netdev),
            of=part.of and self.part(part.of),
        )

    def limit(self, limit: AnyLimit) -> AnyLimit:
        value = self.text(limit.value) if isinstance(limit.value, str) else limit.value
        return replace(limit, value=value, source=self.text(limit.source))

    def drift(self, row: Drift) -> Drift:
        others = self.others(row.others)
        return replace(row, majority=self.text(row.majority), others=others)

    def others(self, others: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Two values that redaction makes equal keep all their nodes."""
        found: dict[str, tuple[str, ...]] = {}
        for value, nodes in others.items():
            shown = self.text(value)
            found[shown] = found.get(shown, ()) + tuple(self.names.get(node, node) for node in nodes)
        return found

    def text(self, text: str) -> str:
        for phrase in self.phrases:
            text = text.replace(phrase, GONE)
        text = _HARDWARE.sub(GONE, text)
        text = _IP.sub(self.address, text)
        text = _LOGIN.sub(f"{GONE}@", text)
        text = _HOME.sub(rf"\1{GONE}", text)
        return _WORD.sub(self.word, text)

    def address(self, match: re.Match[str]) -> str:
        """An address alone, before a port, or at the end of a sentence."""
        found = match[0]
        host, _, port = found.rpartition(":")
        for address, rest in ((found, ""), (found.rstrip(".:"), found[len(found.rstrip(".:")) :]), (host, f":{port}")):
            if address in self.names:
                return self.names[address] + rest
            if _is_address(address):
                return GONE + rest
        return found

    def word(self, match: re.Match[str]) -> str:
        """A whole word, or one before the full stop of a sentence, that is a serial or a name."""
        found = match[0]
        word = found if found in self.words else found.rstrip(".")
        return GONE + found[len(word) :] if word in self.words else found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
