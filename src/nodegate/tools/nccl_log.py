"""What NCCL says of its transports with NCCL_DEBUG=INFO, from 2.7 to 2.30: networks, GPU memory in RDMA, MNNVL.

Source of the lines: NVIDIA/nccl, src/init.cc ("Using network", "MNNVL"), src/transport/net.cc ("via NET/"),
src/mnnvl.cc.
"""

import re
from dataclasses import dataclass

from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

MAX_TEXT = 4 << 20
_LINE = re.compile(r"(?<![\w.-])([A-Za-z0-9_.-]{1,255}):\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL INFO ([^\r\n]{1,400})")
_NETWORK = re.compile(r"Using network ([^\r\n]{1,60})")
_MNNVL = re.compile(r"\bMNNVL ([01])\b")
_VIA = re.compile(r"\bvia NET/([^/\r\n]{1,40})/\d{1,4}(?:\(\d{1,6}\))?(/[^\r\n]{0,40})?")
SOCKETS = "Socket"


@dataclass(frozen=True)
class NcclLog:
    """Of the ranks of one node. `network`: "IB", "Socket", or the name of a plug-in, as NCCL writes it.

    `gpu_memory` is whether messages to other nodes leave from the memory of GPUs. `mnnvl`: over NVLink between nodes.
    """

    network: Known[str]
    gpu_memory: Known[bool]
    mnnvl: Known[bool]

    @property
    def over_sockets(self) -> bool:
        """Whether NCCL sends over TCP."""
        return self.network == SOCKETS


def read_log(text: str, host: str) -> NcclLog:
    """What the ranks of a host say in what a launch printed; of several answers the last one."""
    name = host.partition(".")[0].casefold()  # NCCL writes it without its domain
    said = _LINE.finditer(text[:MAX_TEXT])
    lines = [match[2] for match in said if match[1].partition(".")[0].casefold() == name]
    silent = Unknown(Why.MISSING, "NCCL did not say it")
    network = [shown(found[1].strip(), 60) for found in map(_NETWORK.search, lines) if found]
    mnnvl = [found[1] == "1" for found in map(_MNNVL.search, lines) if found]
    ways = [found for found in map(_VIA.search, lines) if found]
    network = network or [shown(found[1], 60) for found in ways]  # a launcher may tear the line that says it
    return NcclLog(
        network[-1] if network else silent,
        any("GDRDMA" in (way[2] or "") for way in ways) if ways else silent,
        mnnvl[-1] if mnnvl else silent,
    )
