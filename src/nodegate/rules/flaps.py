"""Link changes of NICs in the kernel log: a link that went down and came back, or stayed down, within one boot."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.probe.kernel_log import KernelLine, KernelLog
    from nodegate.rules.log_time import Moment

_PCI = r"(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_CHANGES = (
    # mlx5_core 0000:5c:00.0 ibp92s0: Link down
    re.compile(rf"mlx5_core {_PCI} (?P<name>[\w.-]{{1,32}}): Link (?P<to>down|up)\b"),
    # bnxt_en 0000:5c:00.0 ens1f0np0: NIC Link is Down
    re.compile(rf"(?:bnxt_en|ice|i40e|ixgbe|ionic) {_PCI} (?P<name>[\w.-]{{1,32}}): NIC Link is (?P<to>Down|Up)\b"),
    # infiniband mlx5_3: Port: 1 Link DOWN
    re.compile(r"(?:infiniband )?(?P<device>mlx[45]_\w{1,16}): Port: \d{1,2} Link (?P<to>DOWN|ACTIVE)\b"),
    # systemd-networkd[2385]: ib1: Lost carrier (where the kernel log is read from a file)
    re.compile(r"systemd-networkd\[\d{1,10}\]: (?P<device>[\w.-]{1,32}): (?P<to>Lost|Gained) carrier\b"),
)
_DOWN = frozenset({"down", "lost"})


def link_downs(log: KernelLog, moment: Moment, grace_s: float) -> dict[str, list[KernelLine]]:
    """The link-downs of each NIC in the window.

    Left out are those soon after boot (bring-up) and those with which an earlier boot ended (the shutdown).
    """
    open_downs: dict[str, KernelLine] = {}
    found: defaultdict[str, list[KernelLine]] = defaultdict(list)
    for line in log.lines:
        match = next((match for match in (form.search(line.text) for form in _CHANGES) if match), None)
        if match is None:
            continue
        groups = match.groupdict()
        device = f"{groups['device']} {groups.get('name') or ''}".strip()
        if groups["to"].lower() in _DOWN:
            open_downs[device] = line
            continue
        down = open_downs.pop(device, None)
        if down and moment.earlier_boot(down.epoch_s) == moment.earlier_boot(line.epoch_s):
            found[device].append(down)
    for device, down in open_downs.items():
        if not moment.earlier_boot(down.epoch_s):
            found[device].append(down)
    counted = {device: [down for down in downs if _counts(down, moment, grace_s)] for device, downs in found.items()}
    return {device: downs for device, downs in counted.items() if downs}


def _counts(down: KernelLine, moment: Moment, grace_s: float) -> bool:
    if not moment.recent(down.epoch_s):
        return False
    if isinstance(down.epoch_s, Unknown) or isinstance(moment.boot_s, Unknown) or moment.earlier_boot(down.epoch_s):
        return True
    return down.epoch_s >= moment.boot_s + grace_s
