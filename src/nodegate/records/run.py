"""A run as its reports have it: its conditions, its nodes, and what sets some of them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from nodegate.files.text_file import Source
from nodegate.records.claim import BESIDE, Shown, State
from nodegate.records.finding import Record
from nodegate.records.verdict import NodeVerdict, Verdict

_NO_SUCCESS = frozenset((NodeVerdict.REJECTED, NodeVerdict.UNREACHABLE, NodeVerdict.INCOMPLETE))
PARTIES = ("supplier", "customer", "supervisor", "test_body")


@dataclass(frozen=True, slots=True)
class Party:
    """Who signs, as the site writes it."""

    name: str = ""
    address: str = ""
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A claim in the words of the contract, and the clause that asks for it."""

    text: str = ""
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Contract:
    """`file` is the site file, empty without one; `criteria` are by the claim's name.

    `languages` are those of the paper and of the answer, the first one first; none: English.
    """

    file: str = ""
    parties: Mapping[str, Party] = field(default_factory=dict)
    contract: Mapping[str, str] = field(default_factory=dict)
    lot: Mapping[str, str] = field(default_factory=dict)
    site: Mapping[str, str] = field(default_factory=dict)
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The conditions of a run: who, when, with what. Times are seconds since the epoch by the controller's clock.

    `selection` says in words which part of the checks or nodes was asked for; empty means all of the profile.
    `versions` are python and the libraries on the controller. `answer` is the sentence of profile troubleshoot.
    `manifest_sha256` is the fingerprint of the manifest of all evidence (manifest.sha256), empty if there is none;
    `evidence` says where the evidence is from, if it is not this run's own. `notes` are true of the run as a whole.
    `judging_s` are the seconds that the judging of each node took, by its name. `contract` is from the site file.
    """

    id: str
    profile: str
    started_epoch_s: float
    finished_epoch_s: float
    suite_version: str
    command: str = ""
    host: str = ""
    user: str = ""
    inventory: tuple[Source, ...] = ()
    baselines: tuple[Source, ...] = ()
    interrupted: bool = False
    selection: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    manifest_sha256: str = ""
    evidence: str = ""
    notes: tuple[str, ...] = ()
    judging_s: Mapping[str, float] = field(default_factory=dict)
    contract: Contract = field(default_factory=Contract)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node: its verdict, what it is, and what each check said of it.

    `serials` maps a part ("chassis", "GPU 0") to its serial number. `identity` is rows of (label, value): model,
    driver, VBIOS, BIOS, kernel, firmware. `unreachable` is the reason where the verdict is `unreachable`. `gpus` counts
    those that PCIe or NVML lists, lost ones included. `claims` is what was shown of each claim of the profile.
    """

    node: str
    verdict: NodeVerdict
    platform: str = ""
    rack: str = ""
    serials: Mapping[str, str] = field(default_factory=dict)
    identity: tuple[tuple[str, str], ...] = ()
    records: tuple[Record, ...] = ()
    unreachable: str = ""
    gpus: int = 0
    claims: tuple[Shown, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether something was judged, and nothing failed or could not be measured; not all may be proven."""
        verdicts = {Verdict.PASS if record.waiver else record.verdict for record in self.records
                    if record.claim != BESIDE}  # fmt: skip
        return Verdict.PASS in verdicts and not verdicts & {Verdict.FAIL, Verdict.ERROR}

    @property
    def is_partly_judged(self) -> bool:
        """Whether it is not accepted only because the run was asked for a part of its profile."""
        left = all(each.left_out or each.signed for each in self.unproven)
        return left and self.is_sound and self.verdict is NodeVerdict.INCOMPLETE

    @property
    def is_no_success(self) -> bool:
        """Whether a run with it does not end with 0; a node that was busy at night is left out."""
        return self.verdict in _NO_SUCCESS and not self.is_partly_judged

    @property
    def unproven(self) -> tuple[Shown, ...]:
        """The claims that are not proven, signed for or not."""
        return tuple(each for each in self.claims if each.state is State.NOT_PROVEN)


@dataclass(frozen=True, slots=True)
class Drift:
    """A characteristic that most nodes of a platform share, and the nodes that differ.

    `count` nodes of `total` hold the `majority` value; `others` maps each other value to its nodes.
    """

    platform: str
    characteristic: str
    majority: str
    count: int
    total: int
    others: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """What a check says of itself: the first sentence of its docstring, and the failure modes that it speaks to."""

    title: str
    failure_modes: tuple[str, ...] = ()


def shared(record: object, kind: Any) -> dict[str, Any]:
    """The fields of a record that records of this kind have too."""
    return {each.name: getattr(record, each.name) for each in fields(kind) if hasattr(record, each.name)}
