"""Faults of a lab node, set from outside and taken back: each is a context manager over a node.

What they yield are variables that the node then has in the inventory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.nodes.fault import holding, served, without
from lab.taken_back import Broken, taken_back

if TYPE_CHECKING:
    from lab.nodes.node import LabNode

MANAGER = "nvidia-fabricmanager"
UNIT = f"etc/systemd/system/{MANAGER}.service"
PROGRAM = "usr/bin/nv-fabricmanager"


@taken_back
def nothing(_node: LabNode) -> Broken:
    """A healthy node."""
    yield {}


@taken_back
def manager_stopped(node: LabNode) -> Broken:
    """Somebody stopped the fabric manager."""
    node.run("systemctl", "stop", MANAGER)
    yield {}
    node.run("systemctl", "start", MANAGER)


@taken_back
def manager_killed(node: LabNode) -> Broken:
    """The fabric manager was killed by the kernel or by hand."""
    node.run("systemctl", "kill", "--signal=KILL", MANAGER)
    node.run("sh", "-c", f"while systemctl -q is-active {MANAGER}; do sleep 0.02; done")
    yield {}
    node.run("systemctl", "restart", MANAGER)


@taken_back
def manager_of_another_version(node: LabNode) -> Broken:
    """The fabric manager was updated and the driver was not."""
    with holding(node.root / "etc/fabric-manager-version", "550.54.15\n"):
        yield {}


@taken_back
def manager_not_installed(node: LabNode) -> Broken:
    """The node's image came without the fabric manager."""
    node.run("systemctl", "stop", MANAGER)
    with without(node.root / UNIT), without(node.root / PROGRAM):
        node.run("systemctl", "daemon-reload")
        yield {}
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", MANAGER)


@taken_back
def gpu_lost(node: LabNode) -> Broken:
    """GPU 3 fell off the bus: NVML has no handle for it, its configuration space is all ones, the kernel said so."""
    address = gpus.gpu_addresses(node)[3]
    config = gpus.device_file(node, address, "config")
    kept = config.read_bytes()
    config.write_bytes(b"\xff" * 64)
    with served(node, gpus.scenario(node).lose(3)):
        yield {}
    config.write_bytes(kept)


@taken_back
def xid(node: LabNode) -> Broken:
    """A GPU met an uncorrectable memory error. What the kernel said stays said."""
    address = gpus.gpu_addresses(node)[5].removesuffix(".0")
    node.kernel_says(f"NVRM: Xid (PCI:{address}): 48, pid=4711, name=python3, DBE (double bit error) detected")
    yield {}


@taken_back
def narrow_link(node: LabNode) -> Broken:
    """A GPU's link trained at two lanes."""
    address = gpus.gpu_addresses(node)[6]
    with holding(gpus.device_file(node, address, "current_link_width"), "2\n"):
        yield {}


@taken_back
def rail_down(node: LabNode) -> Broken:
    """The cable of one InfiniBand port is out."""
    with (
        holding(gpus.port_file(node, "mlx5_2", "state"), "1: DOWN\n"),
        holding(gpus.port_file(node, "mlx5_2", "phys_state"), "3: Disabled\n"),
    ):
        yield {}


@taken_back
def by_sudo(_node: LabNode) -> Broken:
    """No fault: a login with sudo sees what root sees."""
    yield {"ansible_user": "ops", "ansible_become": "true"}


@taken_back
def no_root(_node: LabNode) -> Broken:
    """The login has no sudo, and the inventory asks for none."""
    yield {"ansible_user": "plain"}


@taken_back
def sudo_refused(_node: LabNode) -> Broken:
    """The inventory asks for sudo, and the login may not use it."""
    yield {"ansible_user": "plain", "ansible_become": "true"}


@taken_back
def no_python(node: LabNode) -> Broken:
    """The node's image came without python3."""
    with without(node.root / "usr/bin/python3"):
        yield {}


@taken_back
def small_shm(node: LabNode) -> Broken:
    """Shared memory as Docker gives it."""
    node.run("mount", "-o", "remount,size=64m", "/dev/shm")
    yield {}
    node.run("mount", "-o", "remount,size=256g", "/dev/shm")


@taken_back
def few_open_files(node: LabNode) -> Broken:
    """The limits that logins and jobs get are too low."""
    with holding(node.root / "etc/security/limits.d/gpu-node.conf", "* - nofile 1024\nroot - nofile 1024\n"):
        yield {}


@taken_back
def cable_out(node: LabNode) -> Broken:
    """Nobody reaches the node."""
    node.set_link("down")
    yield {"ansible_ssh_timeout": "3"}
    node.set_link("up")


@taken_back
def nvml_hangs(node: LabNode) -> Broken:
    """Reading the temperature of GPU 2 never returns."""
    with served(node, gpus.scenario(node).hang(2, "nvmlDeviceGetTemperature", 600)):
        yield {}
