"""What perftest 24.10 prints on a made-up link, as its clients do with --report_gbits and -D."""

from dataclasses import dataclass

from nodegate.measure.rdma.node_pair import BOTH_BYTES, LATENCY_BYTES, LATENCY_ROUNDS, QUEUE_PAIRS, SIZE_BYTES

VERSION = "24.10"
_TITLES = {
    "ib_write_bw": "RDMA_Write BW Test",
    "ib_write_bw -b": "RDMA_Write Bidirectional BW Test",
    "ib_read_bw": "RDMA_Read BW Test",
    "ib_write_lat": "RDMA_Write Latency Test",
    "ib_read_lat": "RDMA_Read Latency Test",
}
_RULER = "-" * 87
CUDA = """initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 19:00

Picking device No. 0
[pid = 41187, dev = 0] device name = [NVIDIA H100 80GB HBM3]
creating CUDA Ctx
making it the current CUDA Ctx
CUDA device integrated: 0
cuMemAlloc() of a 8388608 bytes GPU buffer
allocated GPU buffer address at 00007f4c5c000000 pointer=0x7f4c5c000000
"""


@dataclass(frozen=True)
class End:
    """One end of a link: its device, and its LID (0 with RoCE) with the index of its GID."""

    device: str
    lid: int
    gid_index: int | None

    def line(self, side: str, number: int) -> str:
        """Its queue pair, as the program prints it."""
        return f" {side} address: LID {self.lid:#04x} QPN {0xE7 + number:#06x} PSN {0x41A3B2 + number:#x}"


def printed(tool: str, value: float, ours: End, theirs: End, seconds: float) -> str:
    """The output of a client that measured `value`: Gb/s, or µs for a latency."""
    latency = tool.endswith("_lat")
    pairs = 1 if latency else QUEUE_PAIRS
    lines = [_RULER, f"{'':20}{_TITLES[tool]}", *_settings(ours, pairs), _RULER]
    for number in range(pairs):
        lines += [ours.line("local", number), theirs.line("remote", number + 16)]
    lines += [_RULER, *(_latency(value) if latency else _bandwidth(tool, value, seconds)), _RULER]
    return "\n".join(lines) + "\n"


def _settings(end: End, pairs: int) -> list[str]:
    gid = [] if end.gid_index is None else [f" GID index       : {end.gid_index}"]
    return [
        f" Dual-port       : OFF\t\tDevice         : {end.device}",
        f" Number of qps   : {pairs}\t\tTransport type : IB",
        " Connection type : RC\t\tUsing SRQ      : OFF",
        " PCIe relax order: ON",
        " ibv_wr* API     : ON",
        " TX depth        : 128",
        " CQ Moderation   : 1",
        " Mtu             : 4096[B]",
        f" Link type       : {'IB' if end.gid_index is None else 'Ethernet'}",
        *gid,
        " Max inline data : 0[B]",
        " rdma_cm QPs\t : OFF",
        " Data ex. method : Ethernet",
    ]


def _bandwidth(what: str, gbps: float, seconds: float) -> list[str]:
    """The row has the rate of both ends where both send, and counts what one does."""
    ends = 2 if what.endswith("-b") else 1
    size = BOTH_BYTES if ends == 2 else SIZE_BYTES
    rate = gbps * 1e9 / 8 / size
    return [
        " WARNING: BW peak won't be measured in this run.",
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
        f" {size:<10} {int(rate / ends * seconds):<14} 0.00               {gbps:.2f}\t\t   {rate / 1e6:.6f}",
    ]


def _latency(usec: float) -> list[str]:
    title = "#bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    row = f"{LATENCY_BYTES:<7} {LATENCY_ROUNDS:<13} {usec - 0.06:.2f}           {usec + 3.4:.2f}         {usec:.2f}"
    averages = f"{usec + 0.01:.2f}        \t0.05   \t\t{usec + 0.14:.2f}    \t\t{usec + 1.5:.2f}"
    return [f" {title}   99% percentile[usec]   99.9% percentile[usec] ", f" {row}     \t       {averages}   "]
