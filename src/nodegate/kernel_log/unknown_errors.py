"""Kernel lines that no signature knows and that sound like an error or have its level; what changes in them put aside.

The fleet judges them best: what most nodes of a platform print is that platform's habit. On a node alone what is
printed while it boots is left out, unless a GPU, switch, NIC or disk is named.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from nodegate.kernel_log import flaps
from nodegate.knowledge.roots import SLACK_S
from nodegate.knowledge.signatures import find
from nodegate.knowledge.tables import WRITERS
from nodegate.knowledge.words import Role, Side
from nodegate.node_side.probe.kernel_lines import ERROR
from nodegate.probe.kernel_log import KernelLine
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.unknown import Known, Unknown

BOOTING_S = 300.0  # from the start of the boot: what kernels work around while they look for devices
MOST_SHAPES = 100  # of one node; a healthy one has a handful
_SHAPE_LENGTH = 120
_REMEMBERED = 2048  # lines: every node is looked through twice, and the nodes of a fleet boot alike
_LOOKED_AT = 400  # characters: an error is said at the start of its line
_ERROR = re.compile(ERROR, re.IGNORECASE)
# "0 errors", "error: 0", "no error", "without errors"; correctable PCIe errors are counted in sysfs
_NO_ERROR = re.compile(
    r"\b(?:no|0|without|zero) (?:\w{1,20} )?(?:errors?|faults?|failures?)\b|\berrors?[:=] ?0\b"
    r"|\btime-?outs? (?:set|is|value|of \d)|\bfault[- ]tolerant"
    r"|\berror (?:handling|reporting|recovery|injection|log|containment|record)\b|\berrors=\w|\berrors collector"
    r"|low memory corruption|report a bug|not a bug|cpu bug present|panic notifier|module verification failed"
    r"|invalid subnqn|can't disable aspm|regulatory\.db|lost power or was reset",
    re.IGNORECASE,
)
# What a program was asked to do; slips in the tables of the firmware, which every kernel prints and works around.
_HARMLESS = re.compile(
    r"audit[:( ]|(?:acpi|ACPI)\b|[^\[\n]{0,60}\[Firmware (?:Bug|Warn|Info)\]|systemd[\[:-]"
    r"|Error: Driver '|pmd_set_huge: "
)
_ERR = 3  # the level of an error
# Whose levels say nothing: NVRM prints its banner as an error (nv_printf makes NV_DBG_ERRORS KERN_ERR). Below, what
# kernels print as errors on healthy machines.
_LEVEL_SAYS_NOTHING = re.compile(
    r"(?:NVRM|nvidia[\w-]{0,20}|mce): |ACPI|DMAR-IR: |x86/|Spectre |RETBleed|SGX |integrity: |tpm|i8042|ipmi_|usb |hub "
    r"|sd \d|sr \d|scsi |loop\d|blacklist|secureboot|Lockdown|TCP: |UDP: |IPv[46]: |bpfilter"
    r"|cgroup: |overlayfs: |squashfs|ISOFS|printk: |random: |efi: |EFI |platform |pnp |intel_|amd_|resctrl"
)
_VOLATILE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE), "<pci>"),
    (re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b", re.IGNORECASE), "<mac>"),
    (re.compile(r"\b0x[0-9a-f]{1,64}\b", re.IGNORECASE), "#"),
    (re.compile(r"\b(?=[0-9a-f]{0,16}\d)[0-9a-f]{8,64}\b", re.IGNORECASE), "#"),
    (re.compile(r"\d{1,40}"), "#"),
    (re.compile(r"#(?:[.:,]#)+"), "#"),
)


def shape(text: str) -> str:
    """The line with its numbers, addresses and identifiers put aside: equal for the same message of any node."""
    made = text[:_LOOKED_AT]
    for pattern, word in _VOLATILE:
        made = pattern.sub(word, made)
    return made[:_SHAPE_LENGTH]


def unknown_errors(lines: Sequence[KernelLine]) -> dict[str, list[KernelLine]]:
    """The lines of each shape, in the order in which the shapes began; at most `MOST_SHAPES` shapes.

    Left out are lines close to a known fault: they are its details (register dumps, stacks, what followed).
    """
    known, unknown = _sorted(lines)
    found: dict[str, list[KernelLine]] = {}
    for line in unknown:
        step = _step(line)
        if step is not None and known & {step - 1, step, step + 1}:
            continue
        key = shape(line.text)
        if key in found or len(found) < MOST_SHAPES:
            found.setdefault(key, []).append(line)
    return found


def speaker(text: str) -> Part | None:
    """The GPU, NVSwitch, NIC, disk or PCIe device whose driver wrote the line; None if it names none."""
    for kind, pattern in _speakers():
        if match := pattern.match(text):
            return part.from_kernel(kind, match.groupdict().get("device") or match.groupdict().get("netdev") or "")
    return None


def of_one_node(shapes: Mapping[str, list[KernelLine]], boot_s: Known[float]) -> dict[str, list[KernelLine]]:
    """What counts where no fleet tells a platform's habits: what a device says, and what came after the boot."""
    return {
        shape: lines
        for shape, lines in shapes.items()
        if ((said := speaker(lines[-1].text)) and said.kind is not part.Kind.HOST)
        or not _booting(lines[-1].epoch_s, boot_s)
    }


def _booting(epoch_s: Known[float], boot_s: Known[float]) -> bool:
    return not isinstance(epoch_s, Unknown) and not isinstance(boot_s, Unknown) and epoch_s < boot_s + BOOTING_S


@cache
def _speakers() -> tuple[tuple[str, re.Pattern[str]], ...]:
    kinds = {"<NVRM>": "GPU", "<NIC>": "NIC", "<PCI>": "PCIe device"}
    others = (("NVSwitch", r"(?P<device>nvidia-nvswitch\d{0,3}): "), ("disk", r"nvme (?P<device>nvme\d{1,4}): "))
    named = [(kind, WRITERS[name]) for name, kind in kinds.items()]
    gpu = (
        "GPU",
        r"nvidia (?P<device>[0-9a-f:.]{7,20}): |nvidia[\w-]{0,20}: (?:\S{1,20} )?(?:GPU:(?P<netdev>\d{1,3})\b)?",
    )
    return tuple((kind, re.compile(pattern)) for kind, pattern in (*others, gpu, *named))


def _sorted(lines: Sequence[KernelLine]) -> tuple[set[int], list[KernelLine]]:
    """The seconds (in steps of the slack) in which a known fault was logged, and the unknown lines."""
    known: set[int] = set()
    unknown: list[KernelLine] = []
    changed = {id(line) for _, _, line in flaps.changes(lines)}
    for line in lines:
        role = _role(line.text)
        if role is not None:
            step = _step(line)
            if role is Role.PRIMARY and step is not None:
                known.add(step)
        elif id(line) not in changed and _is_bad(line):
            unknown.append(line)
    return known, unknown


@lru_cache(maxsize=_REMEMBERED)
def _role(text: str) -> Role | None:
    """The role of the signature that a line has; None of one that nothing knows."""
    hit = find(text, Side.KERNEL)
    return hit.signature.role if hit is not None else None


def _is_bad(line: KernelLine) -> bool:
    if "Xid" in line.text or _HARMLESS.match(line.text):
        return False  # Xids and SXids are told by kernel_log.xid and kernel_log.sxid in every form
    is_error = line.level is not None and line.level <= _ERR and not _LEVEL_SAYS_NOTHING.match(line.text)
    said = line.text[:_LOOKED_AT]
    return is_error or (_ERROR.search(said) is not None and _ERROR.search(_NO_ERROR.sub("", said)) is not None)


def _step(line: KernelLine) -> int | None:
    """When the line was written, in steps of the slack; None if unknown."""
    if isinstance(line.epoch_s, Unknown) or not math.isfinite(line.epoch_s):
        return None
    return int(line.epoch_s // SLACK_S)
