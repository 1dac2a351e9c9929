"""The page docs/guide/nights.md, typed on a machine of the lab: each of its commands does what the page says."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

import pytest

from lab.nodes import gpu_faults, gpus
from lab.nodes.image import image
from lab.nodes.node import LabNode
from lab.nodes.nodes import LIMITS, Nodes, why_not
from lab.nodes.space import FOLDER
from lab.run import ROOT

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/guide/nights.md").read_text(), re.MULTILINE | re.DOTALL)
# Where the page has nodegate installed; here with the packages and the Python of these tests.
OPT = "/opt/nodegate"
PROGRAM = f"""#!/bin/sh
export PYTHONPATH={OPT}/checkout/src:{OPT}/packages:{OPT}/checkout LD_LIBRARY_PATH={OPT}/python/lib
exec {{python}} -m nodegate.cli "$@"
"""


def install(node: LabNode) -> None:
    """Put nodegate on the first node: it is the machine of the page."""
    gpus.prepare(node)
    if node.name != "gpu-1":
        return
    mounts = {"checkout": str(ROOT), "packages": sysconfig.get_path("purelib"), "deploy": str(ROOT / "deploy")}
    own = sys.base_prefix != "/usr"  # else it is Debian's, which the node has too
    mounts |= {"python": sys.base_prefix} if own else {}
    for name, source in mounts.items():
        (node.root / f"opt/nodegate/{name}").mkdir(parents=True)
        node.space.inside("mount", "--bind", source, f"{FOLDER}/{node.name}/root{OPT}/{name}")
    (node.root / "opt/nodegate/bin").mkdir()
    program = node.root / "opt/nodegate/bin/nodegate"
    program.write_text(PROGRAM.format(python=f"{OPT}/python/bin/python3" if own else "python3"))
    program.chmod(0o755)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    if reason := why_not():
        pytest.skip(reason)
    with Nodes(image(), 4, tmp_path_factory.mktemp("guide"), install) as nodes:
        hosts = "".join(f"{node.address} {node.name}\n" for node in nodes.nodes)
        with (nodes.nodes[0].root / "etc/hosts").open("a") as file:
            file.write(hosts)
        yield nodes


class Typed:
    """The blocks of the page, typed one after the other."""

    def __init__(self, machine: LabNode) -> None:
        self._machine, self.left = machine, list(BLOCKS)

    def next(self) -> tuple[int, str]:
        """Type the next block; the exit code of its last command, and what is printed."""
        command = ["nsenter", "-t", str(self._machine.first), "-m", "-u", "-i", "-n", "-p", "-T"]
        done = subprocess.run(
            [*command, "--", "bash", "-c", self.left.pop(0)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout


def test_from_an_empty_machine_to_the_third_night(lab: Nodes) -> None:
    machine, two, *others = lab.nodes
    page = Typed(machine)

    code, key = page.next()  # 1: the login and its key, which an administrator brings to the nodes
    assert (code, key.startswith("ssh-ed25519 ")) == (0, True), key
    for node in (two, *others):
        with (node.root / "etc/ssh/authorized_keys").open("a") as file:
            file.write(key)

    code, printed = page.next()  # 2: host keys
    assert (code, printed.count("(ED25519)")) == (0, 3), printed

    assert page.next() == (0, "")  # 3: inventory and site file
    site = machine.root / "etc/nodegate/site.yaml"  # the lab's GPUs cannot burn, and its nodes have a kernel's limits
    site.write_text(
        site.read_text().replace("  within: 2h", "  within: 2h\n  options: [-p, lab.slow_probe, --passive]")
    )
    hosts = machine.root / "etc/nodegate/hosts.yaml"
    hosts.write_text(hosts.read_text().replace("  hosts:", f"    nodegate_limits: {LIMITS}\n  hosts:"))

    code, printed = page.next()  # 4: doctor
    assert (code, "3 of 3 nodes can be queried" in printed) == (0, True), printed

    code, printed = page.next()  # 5: the first night
    assert (code, "no fault on 3 of 3 nodes" in printed) == (0, True), printed
    assert "3 incomplete of 3 nodes" in printed  # the notice: a target hears everything the first time

    code, printed = page.next()  # 6: the timer
    assert (code, "nodegate-nightly.service" in printed) == (0, True), printed

    code, printed = page.next()  # 7: the second night
    assert "Result=success\nExecMainStatus=0" in printed
    assert (code, "no fault on 3 of 3 nodes" in printed) == (0, True), printed

    with gpu_faults.gpu_lost_in_mid_run(two):
        code, printed = page.next()  # 8: the third night
    assert "new: 1\n  gpu-2: GPU 3" in printed, printed
    assert "new problems: 1\n- lost: gpu-2: GPU 3" in printed, printed
    assert "Result=exit-code" in machine.run("systemctl", "show", "--property=Result", "nodegate-nightly.service")
    assert not page.left
