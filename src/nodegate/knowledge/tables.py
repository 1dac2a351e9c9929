"""The knowledge files of this package, read strictly: an error in one is a bug and stops at once."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources

from nodegate.knowledge.required import required
from nodegate.knowledge.words import Cause, Role, Side, Signature, Text
from nodegate.records.verdict import Verdict

_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_NICS = (
    "mlx[45]_(?:core|ib|en)|bnxt_(?:en|re)|irdma|ice|i40e|iavf|ixgbe|ena|efa|ionic|mana|hns3|hns_roce|qede|qedr|cxgb4"
    "|gve|idpf"
)
# How the lines of a driver begin, as a pattern may name it; each names the device. NVRM: "GPU3 function: text",
# "GPU 0000:9b:00.0: text" or the text alone; NICs: address and interface, or the name of the RDMA device.
WRITERS = {
    "<NVRM>": rf"NVRM: (?!Xid)(?:GPU ?(?P<device>{_PCI}|[0-9]{{1,3}}(?![0-9a-fA-F]))[ :]{{1,2}})?[^\n]{{0,160}}?",
    "<NIC>": (
        rf"(?:\binfiniband (?P<netdev>[\w.-]{{1,32}})|\b(?:{_NICS}) (?P<device>{_PCI}"
        r"(?: [\w.-]{1,32})?)): [^\n]{0,120}?"
    ),
    "<PCI>": rf"^\S{{1,60}} (?P<device>{_PCI}): [^\n]{{0,40}}?",
}


class Lasts(str, Enum):
    """How long an event in the kernel log counts against the node."""

    BOOT = "boot"  # until the node is rebooted
    COLD = "cold"  # until its power was off: a reboot in the log does not prove that
    GOOD = "good"  # permanent: only a new part ends it
    WINDOW = "window"  # an event, not a state: for some hours
    START = "start"  # until the service that wrote it is started again


class XidKind(str, Enum):
    """What kind of event an Xid reports."""

    HARDWARE = "hardware"
    APPLICATION = "application"  # usually the job's own fault
    CONSEQUENCE = "consequence"  # follows another error
    SEVERITY = "severity"  # the line itself says Fatal or Nonfatal
    RECOVERY = "recovery"  # Xid 154: the recovery that the driver requires
    LEGACY = "legacy"  # of older GPUs or drivers: unexpected today
    UNKNOWN = "unknown"  # not in the table


@dataclass(frozen=True)
class Rule:
    """How an event is judged: at delivery, and (`bootcheck`) in every other profile."""

    lasts: Lasts
    delivery: Verdict
    bootcheck: Verdict


@dataclass(frozen=True)
class XidRule(Rule):
    """One Xid."""

    code: int
    name: str
    meaning: Text
    action: Text
    cause: Cause
    failure_modes: tuple[str, ...]
    under_test: Verdict  # when it was raised while nodegate's own tests ran: their programs are known
    kind: XidKind
    mnemonic: str  # the driver's own name for it
    note: str  # what differs between generations


@dataclass(frozen=True)
class LineRule(Rule, Signature):
    """One kind of line that is not an Xid, of the kernel or the fabric manager; its group `device` names the device."""

    subject: str  # which check judges it, such as "nic" or "lockup"; "context": none, only triage
    part: str  # what the device is: "NIC", "disk"


@dataclass(frozen=True)
class Setting:
    """A setting of NCCL or CUDA that no node should have for all its jobs. `values` are lower case; "*" is any."""

    name: str
    values: tuple[str, ...]
    needs: str  # only harmful if the node has: "rdma", "nvswitch", "superchips", or anything ("")
    verdict: Verdict
    meaning: str

    def matches(self, value: str) -> bool:
        """Whether this value is the harmful one."""
        return bool(value.strip()) and ("*" in self.values or value.strip().lower() in self.values)


@cache
def clouds() -> Mapping[str, Mapping[str, str]]:
    """What the known clouds ask of NCCL on their machines: settings by the name of the machine (nccl_clouds.csv)."""
    found: dict[str, dict[str, str]] = {}
    for row in rows("nccl_clouds.csv"):
        found.setdefault(row["cloud"], {})[row["name"]] = row["value"]
    return found


@cache
def xids() -> Mapping[int, XidRule]:
    """The Xids by code (xid.csv)."""
    return {
        int(row["code"]): XidRule(
            code=int(row["code"]),
            under_test=Verdict(row["under_test"]),
            kind=XidKind(row["kind"]),
            **_rule(row, "name", "mnemonic", "note"),  # type: ignore[arg-type]
        )
        for row in rows("xid.csv")
    }


@cache
def lines() -> tuple[LineRule, ...]:
    """The other kernel lines, in file order: the first rule that matches a line has it (kernel_lines.csv)."""
    return tuple(map(_line_rule, rows("kernel_lines.csv")))


@cache
def recoveries() -> Mapping[str, re.Pattern[str]]:
    """By row of kernel_lines.csv: the line by which the same device says that it recovered (recovered_lines.csv)."""
    return {
        name: re.compile(_whole(row["pattern"])) for row in rows("recovered_lines.csv") for name in row["rows"].split()
    }


@cache
def fabric_lines() -> tuple[LineRule, ...]:
    """Errors in the fabric manager's log, in file order; NVSwitch errors are known by their SXid (fabric_lines.csv)."""
    return tuple(map(_line_rule, rows("fabric_lines.csv")))


def _line_rule(row: Mapping[str, str]) -> LineRule:
    pattern = _whole(row["pattern"])
    return LineRule(
        side=Side.KERNEL,
        role=Role(row["role"]),
        holds=tuple(sorted(required(pattern))),
        pattern=re.compile(pattern),
        **_rule(row, "id", "subject", "part", "example"),  # type: ignore[arg-type]
    )


def _whole(pattern: str) -> str:
    """The pattern with the beginning of its writers' lines in the place of their name."""
    for name, begin in WRITERS.items():
        pattern = pattern.replace(name, begin)
    return pattern


@cache
def settings() -> tuple[Setting, ...]:
    """Harmful settings of NCCL and CUDA (nccl_settings.csv)."""
    return tuple(
        Setting(
            row["name"],
            tuple(row["value"].lower().split("|")),
            row["needs"],
            Verdict(row["verdict"]),
            row["meaning"],
        )
        for row in rows("nccl_settings.csv")
    )


def xid_rule(code: int) -> XidRule:
    """The rule for a code; one that the table does not have is reported, never dropped."""
    return xids().get(code) or XidRule(
        name="not in the table",
        lasts=Lasts.BOOT,
        delivery=Verdict.WARN,
        bootcheck=Verdict.WARN,
        meaning=Text("a code that this version does not know", "本版本不认识的代码"),
        action=Text("look it up in NVIDIA's Xid catalogue", "在 NVIDIA 的 Xid 目录中查找"),
        cause=Cause.UNKNOWN,
        failure_modes=(),
        code=code,
        under_test=Verdict.WARN,
        kind=XidKind.UNKNOWN,
        mnemonic="",
        note="",
    )


def _rule(row: Mapping[str, str], *texts: str) -> dict[str, object]:
    return {
        **{each: row[each] for each in texts},
        "lasts": Lasts(row["lasts"]),
        "delivery": Verdict(row["delivery"]),
        "bootcheck": Verdict(row["bootcheck"]),
        "meaning": Text.read(row, "meaning"),
        "action": Text.read(row, "action"),
        "cause": Cause(row["cause"]),
        "failure_modes": tuple(row["failure_modes"].split()),
    }


@cache
def texts(name: str) -> Mapping[tuple[str, str], Text]:
    """The sentences of one table by their sort and word."""
    return {(row["sort"], row["word"]): Text(row["en"], row["zh"]) for row in rows(name)}


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one table of this package."""
    return list(csv.DictReader(text(name).splitlines()))


def text(name: str) -> str:
    """The text of one file of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")
