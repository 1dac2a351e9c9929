"""What perftest is started with on the sites that there are, word for word, and on which CPUs.

To accept other words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import copy
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fleet import pcie
from fleet.changes import changes
from fleet.machine import Machine, facts_of
from support.rdma_fleet import LENGTH

from nodegate.errors import CannotMeasure, UsageError
from nodegate.measure.measurement import Target
from nodegate.measure.rdma import node_pair, rdma_node
from nodegate.measure.rdma.rails import traffic_of
from nodegate.measure.rdma.rdma_node import prepare
from nodegate.node import Connection, Node
from nodegate.node_side.seats import Room
from nodegate.records.program_run import ProgramRun
from nodegate.toolbox.toolbox import Tool

GOLDEN = Path(__file__).parents[1] / "golden" / "perftest"
OLD_HELP = "  -c, --connection=<RC/XRC/UC/DC>\n  -S, --sl=<sl>\n  --report_gbits\n  --tclass=<value>\n"
CUDA_HELP = OLD_HELP + "  --ipv6-addr\n  --use_cuda=<id>\n  --use_cuda_bus_id=<id>\n  --use_cuda_dmabuf\n"
DIRECT_HELP = CUDA_HELP + "  --use_data_direct\n"
EFA_HELP = CUDA_HELP.replace("UC/DC", "DC/SRD")
PEER_MEMORY = "nvidia_peermem 16384 0 - Live 0x0000000000000000\n"
DIRECT = "/sys/bus/pci/devices/0000:19:00.2/uevent\n"
V6 = {"0": "fe80:0000:0000:0000:0af7:11ff:fe00:0001", "1": "2001:0db8:0000:0001:0000:0000:0000:0002"}


class Tools:
    """Every tool, in one place."""

    def find(self, *names):
        return Tool(names[0], (f"/usr/bin/{names[0]}",), "PATH")


def as_they_are(machine):
    """No change."""


@changes
def renamed(machine, *names, **port):
    """The adapters under other names, and what their ports say."""
    adapters = machine.sections["infiniband"]
    machine.sections["infiniband"] = dict(zip(names, adapters.values(), strict=False))
    for adapter in machine.sections["infiniband"].values():
        adapter["ports"]["1"].update(port)


def ipv6_only(machine):
    for adapter in machine.sections["infiniband"].values():
        adapter["ports"]["1"].update(
            gids={**V6, "2": V6["1"]}, gid_types={"0": "RoCE v2", "1": "IB/RoCE v1", "2": "RoCE v2"}
        )


@dataclass(frozen=True)
class Shape:
    """One kind of site: its nodes, what they answer, and what its inventory says."""

    name: str
    kind: Callable[[str], Machine] = Machine.hgx_h100
    change: Callable[[Machine], None] = as_they_are
    help_text: str = CUDA_HELP
    peer_memory: str = PEER_MEMORY
    direct: str = ""
    expected: Mapping[str, object] = field(default_factory=dict)
    numa: Sequence[str] = ("0", "1")  # of its rails, in turn

    def __str__(self):
        return self.name


SHAPES = (
    Shape("hgx-infiniband", expected={"nccl_env": {"NCCL_IB_SL": 1, "NCCL_IB_TC": 106}}),
    Shape(
        "roce-bonds",
        Machine.pcie_l40s,
        renamed("mlx5_bond_0", "mlx5_bond_1"),
        peer_memory="",
        expected={"rdma_tclass": 104, "nccl_env": {"NCCL_IB_TC": 96, "NCCL_IB_GID_INDEX": 3}},
    ),
    Shape("ipv6-only", Machine.pcie_l40s, ipv6_only, expected={"fabric_address": "2001:db8:0:1::2"}),
    Shape(
        "efa",
        change=renamed("rdmap79s0", "rdmap80s0", link_layer="Unknown", rate="100 Gb/sec (4X EDR)"),
        help_text=EFA_HELP,
        peer_memory="",
        expected={"nics": ["rdmap79s0", "rdmap80s0"]},
    ),
    Shape("vm-without-place", Machine.pcie_l40s, help_text=OLD_HELP, peer_memory="", numa=("-1",)),
    Shape("b300-data-direct", help_text=DIRECT_HELP, direct=DIRECT),
)


def prepared(shape, name, monkeypatch):
    answers = ("Version: 6.24", shape.help_text, shape.peer_memory, shape.direct)

    def answered(_, what, programs, **__):
        if what == "gids":
            found = [
                f"{name}/ports/1/{kind}/{index}:{text}"
                for name, device in devices.items()
                for kind, key in (("gids", "gids"), ("gid_attrs/types", "gid_types"))
                for index, text in device["ports"]["1"][key].items()
            ]
            return [ProgramRun("gids", stdout="\n".join(found))]
        return [ProgramRun(what, stdout=text) for text in answers[: len(programs)]]

    machine = shape.kind(name)
    shape.change(machine)
    devices = machine.sections["infiniband"]
    monkeypatch.setattr(rdma_node, "run_at_once", answered)
    node = Node(name, Connection(address=f"10.0.0.{name[-1]}"), expected=shape.expected)
    return prepare(Target(node, None, facts_of(machine), Tools(), LENGTH))  # type: ignore[arg-type]


def place(root, shape, nics):
    """The seats of a node: two sockets of 8 CPUs, and the rails on them in turn."""
    files = {"devices/system/node/has_cpu": "0-1"}
    for number, nic in enumerate(nics):
        node = shape.numa[number % len(shape.numa)]
        files[f"class/infiniband/{nic}/device/numa_node"] = node
        files[f"class/infiniband/{nic}/device/local_cpulist"] = {"0": "0-7", "1": "8-15"}.get(node, "0-15")
    for name, text in files.items():
        file = root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return Room(nics)


def lines(shape, root, monkeypatch):
    """Both programs of the first two rails of two nodes, test by test."""
    one, other = (prepared(shape, name, monkeypatch) for name in ("gpu1", "gpu2"))
    names = [rail.name for rail in one.rails][:2]
    one, other = (replace(each, rails=each.rails[:2]) for each in (one, other))
    monkeypatch.setenv("NODEGATE_PROBE_ROOT", str(root))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    room, pair, said = place(root, shape, names), node_pair.NodePair(one, other, "1"), []
    for nic in names:
        for turn, end in ((0, "server"), (1, "client")):
            seat = room.seat({"nic": nic, "turn": turn})
            assert seat is not None
            said.append(f"{nic} {end}: {seat.why or f'CPU {sorted(seat.cpus)}, {seat.near}'}")
    for test in node_pair.TESTS:
        said.append(f"\n{test.what} ({test.memory.value} memory)")
        for step in pair.steps:
            found = [node_pair._words(pair, test, each) for each in step]
            said += [" ".join(words.argv) for link in found if link for words in (link.server, link.client)]
            said += ["not here"] if None in found else []
    return "\n".join(said) + "\n"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_words_of_a_site(shape, tmp_path, monkeypatch):
    found, file = lines(shape, tmp_path, monkeypatch), GOLDEN / f"{shape.name}.txt"
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found)
    assert found == file.read_text()


def with_storage(machine):
    """Two more NICs of the same model, each at a root port of its own, as a DGX H100 has them for storage."""
    for number, address in ((8, "0000:f1:00.0"), (9, "0000:f2:00.0")):
        machine.sections["pci"].append(pcie.device(pcie.CONNECTX_7, address, "", numa=1))
        adapter = copy.deepcopy(machine.sections["infiniband"]["mlx5_0"])
        machine.sections["infiniband"][f"mlx5_{number}"] = {**adapter, "pci": address}


def test_storage_nics_are_left_out_by_rule_and_named(monkeypatch):
    dgx = Shape("dgx", change=with_storage)
    found = prepared(dgx, "gpu1", monkeypatch)
    assert [rail.name for rail in found.rails] == [f"mlx5_{number}" for number in range(8)]
    assert {name: why.reason for name, why in found.left_out.items()} == dict.fromkeys(
        ("mlx5_8", "mlx5_9"), "left out: no GPU is behind its PCIe switch, as one is with 8 others: a storage NIC"
    )
    named = prepared(replace(dgx, expected={"nics": ["mlx5_0", "mlx5_8"]}), "gpu1", monkeypatch)
    assert ([rail.name for rail in named.rails], named.left_out) == (["mlx5_0", "mlx5_8"], {})


def test_where_fewer_nics_than_gpus_have_a_gpu_beside_them_none_is_left_out(monkeypatch):
    def change(machine):
        with_storage(machine)
        del machine.sections["infiniband"]["mlx5_3"]

    found = prepared(Shape("seven", change=change), "gpu1", monkeypatch)
    assert (len(found.rails), found.left_out) == (9, {})


def test_of_more_nics_than_gpus_each_gpu_has_as_many_as_the_others(monkeypatch):
    def change(machine):
        for number in range(8):
            adapter = copy.deepcopy(machine.sections["infiniband"][f"mlx5_{number}"])
            machine.sections["infiniband"][f"mlx5_{number + 8}"] = adapter

    found = prepared(Shape("sixteen", change=change), "gpu1", monkeypatch)
    assert len(found.rails) == 16
    gpus = Counter(rail.gpu[0] for rail in found.rails if rail.gpu is not None)
    assert gpus == dict.fromkeys(range(8), 2)


def test_efa_without_srd_is_said_and_is_no_fault_of_a_link(monkeypatch):
    efa = next(shape for shape in SHAPES if shape.name == "efa")
    with pytest.raises(CannotMeasure, match="the NICs are Amazon's EFA, and perftest on the node is built without SRD"):
        prepared(replace(efa, help_text=CUDA_HELP), "gpu1", monkeypatch)


def test_an_ipv6_address_that_this_perftest_cannot_take_is_said(monkeypatch):
    shape = next(shape for shape in SHAPES if shape.name == "ipv6-only")
    with pytest.raises(CannotMeasure, match="perftest on the node has no --ipv6-addr, and must be reached by 2001:db8"):
        prepared(replace(shape, help_text=OLD_HELP), "gpu1", monkeypatch)


def test_what_nccl_takes_for_its_own_choice_is_perftests_own_too():
    node = Node("gpu1", expected={"nccl_env": {"NCCL_IB_GID_INDEX": -1, "NCCL_IB_TC": "41"}})
    assert (traffic_of(node).gid_index, traffic_of(node).tclass) == (None, 41)


@pytest.mark.parametrize("value", ["high", 256, -1, True, "1.5", ""])
def test_a_traffic_class_that_is_none_is_refused(value):
    with pytest.raises(UsageError, match="gpu1: nodegate_rdma_tclass must be a number from 0 to 255"):
        traffic_of(Node("gpu1", expected={"rdma_tclass": value}, origin="hosts.yaml:3"))
