"""The report without what names machines and people: for a ticket, a vendor or a public page."""

import ipaddress
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import Enum
from typing import Any

from nodegate.files.text_file import Source
from nodegate.inventory.hostlist import natural
from nodegate.policy.policy import Policy
from nodegate.records.claim import Shown
from nodegate.records.finding import Finding, Limit, Record
from nodegate.records.part import Part
from nodegate.records.run import Contract, Drift, NodeReport, Run
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
_TEXTS = {  # the fields of each record in which such text can be
    Run: ("command", "selection", "answer", "evidence", "notes", "inventory", "baselines"),
    Source: ("path",),
    Policy: ("title", "source"),
    NodeReport: ("identity", "records", "unreachable", "claims"),
    Shown: ("why", "signed"),
    Record: ("remark", "findings", "evidence", "waiver"),
    Finding: ("part", "also", "text", "note", "observed", "limit", "action"),
    Part: ("name", "netdev", "of"),
    Limit: ("value", "source"),
    Drift: ("majority",),
}


def redact(report: Report) -> Report:
    """The same report without serial numbers, addresses and user names.

    They go from every text, not only from their own fields. Node names stay, except where a name is an IP address:
    those are numbered. PCI addresses, versions and what was measured stay.
    """
    redaction = Redaction(report)
    fields = {name: redaction.of(getattr(report, name)) for name in ("run", "nodes", "drift", "policy")}
    return replace(report, **fields)


class Redaction:
    """The rules for a run: `keep` are serial numbers that stay, `more` serial numbers and names that go too."""

    def __init__(
        self, original: Report, keep: AbstractSet[str] = frozenset(), more: AbstractSet[str] = frozenset()
    ) -> None:
        addresses = [node.node for node in original.nodes if is_address(node.node)]
        self.names = {name: f"node-{index:04d}" for index, name in enumerate(sorted(addresses, key=natural), start=1)}
        secrets = {serial for node in original.nodes for serial in node.serials.values()}
        secrets |= {original.run.user, original.run.host} - {"root", "localhost"}
        secrets = {secret for secret in (secrets | more) - keep if len(secret) >= _SHORTEST}
        self.words = frozenset(secret for secret in secrets if _WORD.fullmatch(secret))
        self.phrases = sorted(secrets - self.words)

    def of(self, value: Any) -> Any:
        """A record without what names machines and people, or a value of one of its fields."""
        if isinstance(value, tuple):
            return tuple(map(self.of, value))
        if isinstance(value, str) and not isinstance(value, Enum):
            return self.text(value)
        if type(value) not in _TEXTS:
            return value
        texts = {name: self.of(getattr(value, name)) for name in _TEXTS[type(value)]}
        return replace(value, **texts, **self.own(value))

    def own(self, value: object) -> dict[str, object]:
        """What is no text. A part keeps where it sits in the node, so parts stay told apart."""
        if isinstance(value, Run):
            contract = Contract(languages=value.contract.languages)
            return {"host": value.host and GONE, "user": value.user and GONE, "judging_s": {}, "contract": contract}
        if isinstance(value, NodeReport):
            return {"node": self.names.get(value.node, value.node), "serials": dict.fromkeys(value.serials, GONE)}
        if isinstance(value, Record):
            return {"node": self.names.get(value.node, value.node)}
        if isinstance(value, Part):
            return {"serial": "", "uuid": ""}
        return {"others": self.others(value.others)} if isinstance(value, Drift) else {}

    def others(self, others: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Two values that redaction makes equal keep all their nodes."""
        found: dict[str, tuple[str, ...]] = {}
        for value, nodes in others.items():
            shown = self.text(value)
            found[shown] = found.get(shown, ()) + tuple(self.names.get(node, node) for node in nodes)
        return found

    def text(self, text: str) -> str:
        """A text by the same rules."""
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
            if is_address(address):
                return GONE + rest
        return found

    def word(self, match: re.Match[str]) -> str:
        """A whole word, or one before the full stop of a sentence, that is a serial or a name."""
        found = match[0]
        word = found if found in self.words else found.rstrip(".")
        return GONE + found[len(word) :] if word in self.words else found


def is_address(text: str) -> bool:
    """Whether it is an IP address and nothing more."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
