"""A made file tree of a GPU node, for NODEGATE_PROBE_ROOT: /sys, /proc, /dev and /etc as the kernel lays them out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_UNCORRECTABLE = [
    "Undefined",
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "CmpltAbrt",
    "UnxCmplt",
    "RxOF",
    "MalfTLP",
    "ECRC",
    "UnsupReq",
    "ACSViol",
    "UncorrIntErr",
    "BlockedTLP",
    "AtomicOpBlocked",
    "TLPBlockedErr",
    "PoisonTLPBlocked",
]
_COUNTERS = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
]
_HW_COUNTERS = [
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
]

DEVICES_HEX = {"gpu": ("0x030200", "0x10de", "0x2330"), "nvswitch": ("0x068000", "0x10de", "0x22a3")}


class NodeTree:
    """A tree below `root`. Paths are the node's own, absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("/proc", "/dev", "/etc", "/var/log", "/tmp", "/sys/bus/pci/devices", "/sys/bus/pci/drivers"):
            self.path(folder).mkdir(parents=True)
        self.file("/proc/uptime", "86400.50 100.00\n")
        self.file("/proc/self/mounts", "/dev/root / ext4 rw,relatime 0 0\n")

    def path(self, path: str) -> Path:
        """Where a path of the node lies."""
        return self.root / path.lstrip("/")

    def file(self, path: str, content: str | bytes) -> Path:
        """A file with this content."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def program(self, path: str, script: str) -> Path:
        """A program: a shell script."""
        file = self.file(path, "#!/bin/sh\n" + script)
        file.chmod(0o755)
        return file

    def fifo(self, path: str) -> Path:
        """A file whose reader waits for ever."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
        return file

    def pci(
        self,
        address: str,
        *,
        below: tuple[str, ...] = (),
        ids: tuple[str, str, str] = ("0x060400", "0x1000", "0xc030"),
        driver: str = "pcieport",
        config: bytes | None = None,
        **texts: str,
    ) -> Path:
        """A PCI device; `below` names the bridges above it, root port first."""
        home = "/sys/devices/pci0000:00/" + "/".join([*below, address])
        kind, vendor, device = ids
        correctable = "".join(f"{name} 0\n" for name in _CORRECTABLE)
        uncorrectable = "".join(f"{name} 0\n" for name in _UNCORRECTABLE)
        written = {
            "class": kind,
            "vendor": vendor,
            "device": device,
            "subsystem_vendor": vendor,
            "subsystem_device": "0x16c1",
            "revision": "0xa1",
            "current_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16",
            "max_link_speed": "32.0 GT/s PCIe",
            "max_link_width": "16",
            "numa_node": "0",
            "power_state": "D0",
            "aer_dev_correctable": correctable + "TOTAL_ERR_COR 0",
            "aer_dev_nonfatal": uncorrectable + "TOTAL_ERR_NONFATAL 0",
            "aer_dev_fatal": uncorrectable + "TOTAL_ERR_FATAL 0",
            **texts,
        }
        for name, text in written.items():
            self.file(f"{home}/{name}", text + "\n")
        self.file(f"{home}/config", config if config is not None else config_space())
        if driver:
            self.path(f"/sys/bus/pci/drivers/{driver}").mkdir(exist_ok=True)
            self.link(f"{home}/driver", f"/sys/bus/pci/drivers/{driver}")
        self.link(f"/sys/bus/pci/devices/{address}", home)
        return self.path(home)

    def link(self, path: str, target: str) -> None:
        """A relative symbolic link."""
        link = self.path(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.path(target), link.parent))

    def adapter(self, name: str, address: str, *, rate: str = "400 Gb/sec (4X NDR)", **counters: str) -> str:
        """An InfiniBand adapter on a PCI device; returns its folder."""
        folder = f"/sys/class/infiniband/{name}"
        self.file(f"/sys/bus/pci/devices/{address}/local_cpulist", "0-1023\n")
        for file, text in {
            "fw_ver": "28.41.1000",
            "hca_type": "MT4129",
            "board_id": "MT_0000000838",
            "node_guid": "a088:c203:0052:1c34",
            "node_desc": f"node {name}",
            "sys_image_guid": "a088:c203:0052:1c34",
        }.items():
            self.file(f"{folder}/{file}", text + "\n")
        self.link(f"{folder}/device", f"/sys/bus/pci/devices/{address}")
        port = f"{folder}/ports/1"
        for file, text in {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": rate,
            "link_layer": "InfiniBand",
            "lid": "0x1c",
            "sm_lid": "0x1",
        }.items():
            self.file(f"{port}/{file}", text + "\n")
        for file in _COUNTERS:
            self.file(f"{port}/counters/{file}", counters.get(file, "0") + "\n")
        for file in _HW_COUNTERS:
            self.file(f"{port}/hw_counters/{file}", counters.get(file, "0") + "\n")
        self.file(f"{port}/gids/0", "fe80:0000:0000:0000:a088:c203:0052:1c34\n")
        self.file(f"{port}/gid_attrs/types/0", "IB/RoCE v1\n")
        for row, key in enumerate(("0xffff", "0x0000")):
            self.file(f"{port}/pkeys/{row}", f"{key}\n")
        for row in range(1, 8):
            self.file(f"{port}/gids/{row}", "0000:0000:0000:0000:0000:0000:0000:0000\n")
        return folder


def config_space(*, acs_control: int | None = None) -> bytes:
    """4 KiB of configuration space of a device that answers; with an ACS capability behind another one if asked for."""
    space = bytearray(4096)
    space[0:4] = bytes.fromhex("de103023")
    if acs_control is not None:
        space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")  # AER, next at 0x148
        space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")  # ACS, the last one
        space[0x14E:0x150] = acs_control.to_bytes(2, "little")
    return bytes(space)


def hgx_h100(root: Path) -> NodeTree:
    """An HGX H100 node: 8 GPUs and 8 InfiniBand adapters, each pair behind a PCIe switch, and 4 NVSwitches."""
    tree = NodeTree(root)
    for rail in range(8):
        bus = 0x10 + 0x10 * rail
        port, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        tree.pci(port, ids=("0x060400", "0x8086", "0x352a"))
        tree.pci(up, below=(port,))
        for leg, (ids, driver) in enumerate(
            ((DEVICES_HEX["gpu"], "nvidia"), (("0x020700", "0x15b3", "0x1021"), "mlx5_core"))
        ):
            down, device = f"0000:{bus + 2:02x}:{leg:02x}.0", f"0000:{bus + 3 + leg:02x}:00.0"
            tree.pci(down, below=(port, up), config=config_space(acs_control=0))
            tree.pci(device, below=(port, up, down), ids=ids, driver=driver, numa_node=str(rail // 4))
        tree.adapter(f"mlx5_{rail}", f"0000:{bus + 4:02x}:00.0", port_xmit_data="230442669431839")
        address = f"0000:{bus + 3:02x}:00.0"
        tree.file(
            f"/proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-{rail}\n"
        )
        tree.file(f"/dev/nvidia{rail}", "")
    tree.pci("0000:a0:01.0", ids=("0x060400", "0x8086", "0x352a"))
    for switch in range(4):
        tree.pci(
            f"0000:a1:{switch:02x}.0", below=("0000:a0:01.0",), ids=DEVICES_HEX["nvswitch"], current_link_width="2"
        )
    tree.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01\n")
    tree.file("/proc/driver/nvidia/params", "EnableGpuFirmware: 18\n")
    tree.path("/sys/module/nvidia").mkdir(parents=True)
    tree.file("/sys/module/nvidia/version", "550.163.01\n")
    tree.file("/etc/os-release", 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n')
    return tree
