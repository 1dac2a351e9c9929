"""The table of the `nodegate_*` variables: what follows from it, and what each kind of value takes and refuses."""

import re
from pathlib import Path

import pytest

from nodegate.errors import UsageError
from nodegate.inventory.known_variables import probably_meant
from nodegate.node import Node
from nodegate.node_settings.table import KNOWN, PREFIX, NodeSettings

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "running.md"


def settings(**expected):
    return Node("gpu01", expected=expected, origin="hosts.yaml:3", origins={"rack": "group_vars/a.yaml:2"}).settings


def test_every_variable_is_on_the_page_and_no_other():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `nodegate_")]
    named = {name for row in rows for name in re.findall(r"`nodegate_(\w+)`", row.split("|")[1])}
    assert KNOWN - named == {"nics", "mig", "host_keys"}  # told in the text of their subjects
    assert named <= KNOWN


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_slip_in_any_name_is_seen(name):
    assert probably_meant(PREFIX + name) == ""
    assert probably_meant("nodgate_" + name) == PREFIX + name


def test_what_is_not_set_is_empty():
    empty = settings()
    given = {name: getattr(empty, name) for name in NodeSettings.__slots__}
    assert {name: value for name, value in given.items() if value not in (None, "", (), {})} == {}
    assert (empty.limit_values, empty.rail_devices) == ({}, None)


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("rack", 7, "7"),
        ("leaf", ["l1", "l2"], ("l1", "l2")),
        ("leaf", 1.1, ("1.1",)),
        ("mounts", "/data:ro, /scratch", ("/data:ro", "/scratch")),
        ("require", "cuda", ("cuda",)),
        ("ports", "29500, 29501", (29500, 29501)),
        ("ports", 29500, (29500,)),
        ("rdma_port", "18600", 18600),
        ("rdma_sl", " 3", 3),
        ("limits", '{"gpu.count": 4}', {"gpu.count": 4}),
        ("tool_paths", "/opt/a::/opt/b", ("/opt/a", "/opt/b")),
        ("mpi_args", "--mca x 'two words'", ("--mca", "x", "two words")),
        ("launch_network", "10.0.0.0/16, eth0", ("10.0.0.0/16", "eth0")),
        ("cublas", "none", "none"),
    ],
)
def test_values_are_read_with_their_type(name, given, read):
    assert getattr(settings(**{name: given}), name) == read


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("serial", ["a"], "nodegate_serial must be a single value, not a list or mapping"),
        ("mounts", {"a": "b"}, "nodegate_mounts must be a name or a list of names"),
        ("require", True, "nodegate_require must be a name or a list of names"),
        ("ports", 99999, "nodegate_ports: '99999' is not a TCP port - give numbers from 1 to 65535"),
        ("ports", {"master": 29500}, "nodegate_ports: must be a TCP port or a list of them"),
        ("tool_paths", False, "nodegate_tool_paths must be a list of at most 64 folders"),
        ("srun_args", 0, "nodegate_srun_args must be a list of at most 64 words"),
        ("limits", "", "nodegate_limits must map limit keys to values"),
        ("rdma_gid_index", 1024, "nodegate_rdma_gid_index must be a number from 0 to 1023, not '1024'"),
        ("limits", {8: 8}, "nodegate_limits must map limit keys to values - for example {rdma.rails: 4}"),
        ("nccl_env", {f"NCCL_{each}": 1 for each in range(65)}, "nodegate_nccl_env must map variables to values"),
        ("tools", {"gpu_burn": {"a": 1}}, "nodegate_tools: must be a single value, a list of values, or a flat"),
        ("hold", "kubernetes", "nodegate_hold: 'kubernetes' is not supported - give slurm"),
        ("slurm_name", "gpu[1-2]", "nodegate_slurm_name: 'gpu[1-2]' is not one name in Slurm"),
        ("slurm_reservation", "a b", "nodegate_slurm_reservation: 'a b' is not one name in Slurm"),
        ("expect", {"driver": [["550"]]}, "nodegate_expect: must be a single value, a list of values, or a flat"),
    ],
)
def test_what_is_not_of_its_kind_is_refused_with_its_place(name, given, message):
    with pytest.raises(UsageError) as refused:
        settings(**{name: given})
    assert str(refused.value).startswith(f"hosts.yaml:3: gpu01: {message}")


def test_the_place_is_that_of_the_variable_where_it_is_known():
    with pytest.raises(UsageError, match=r"^group_vars/a\.yaml:2: gpu01: nodegate_rack must be a single value"):
        settings(rack=["r1"])


def test_limits_of_their_own_name_win_over_those_by_key():
    found = settings(gpus=4, nics=["mlx5_0", "mlx5_1"], limits={"gpu.count": 8, "gpu.power_limit_w": 500})
    assert found.limit_values == {"gpu.count": 4, "gpu.power_limit_w": 500, "rdma.rails": 2}
    assert found.rail_devices == ("mlx5_0", "mlx5_1")
    assert settings(nics=8).rail_devices is None
