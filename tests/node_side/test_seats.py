"""On which CPUs perftest runs: near its NIC, by trees of sysfs, and as the kernel says of real processes."""

import os
import subprocess
import sys

import pytest

from nodegate.node_side import seats
from nodegate.node_side.seats import Room

NICS = tuple(f"mlx5_{number}" for number in range(8))


def tree(root, files):
    for name, text in files.items():
        file = root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


def nic(name, node, listed):
    about = {f"class/infiniband/{name}/device/numa_node": node}
    return about | ({f"class/infiniband/{name}/device/local_cpulist": listed} if listed is not None else {})


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two sockets of 24 cores with two threads each: 0-23 and 48-71, 24-47 and 72-95; four NICs on each socket."""
    for number, name in enumerate(NICS):
        listed = "0-23,48-71" if number < 4 else "24-47,72-95"
        tree(tmp_path, nic(name, str(number // 4), listed))
    for cpu in range(96):
        tree(tmp_path, {f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 48},{cpu % 48 + 48}"})
    tree(tmp_path, {"devices/system/node/has_cpu": "0-1", "devices/system/node/node1/cpulist": "24-47,72-95"})
    monkeypatch.setenv("NODEGATE_PROBE_ROOT", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(96)))
    return tmp_path


def given(room, name, turn=0):
    seat = room.seat({"nic": name, "turn": turn})
    assert seat is not None
    return seat.cpus, seat.near, seat.why


@pytest.mark.usefixtures("machine")
def test_each_rail_and_turn_has_a_core_of_its_own_on_the_socket_of_its_nic():
    room = Room(NICS)
    found = {(name, turn): given(room, name, turn) for name in NICS for turn in (0, 1)}
    cpus = [cpu for seat, _, _ in found.values() for cpu in seat]
    assert len(cpus) == len(set(cpus)) == 16
    assert all(cpu < 48 for cpu in cpus), "one thread of a core"
    assert 0 not in cpus, "there the kernel works"
    assert {place for (name, _), (seat, place, _) in found.items() if max(seat) < 24} == {"NUMA node 0"}
    assert {name for (name, _), (seat, _, _) in found.items() if min(seat) >= 24} == set(NICS[4:])


@pytest.mark.usefixtures("machine")
def test_the_second_port_of_an_adapter_has_its_own_core():
    room = Room(("mlx5_0", "mlx5_0:2"))
    seats_of_both = [given(room, name, turn)[0] for name in ("mlx5_0", "mlx5_0:2") for turn in (0, 1)]
    assert len(set.union(*seats_of_both)) == 4


def test_without_a_list_the_cpus_of_the_numa_node_count(machine):
    (machine / "sys/class/infiniband/mlx5_5/device/local_cpulist").unlink()
    assert given(Room(("mlx5_5",)), "mlx5_5") == ({25}, "NUMA node 1", "")


def test_where_cores_are_few_the_programs_share_those_near_the_nic(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {20, 21, 22, 30, 31})
    assert given(Room(NICS), "mlx5_2") == ({20, 21, 22}, "NUMA node 0", "")
    assert given(Room(("mlx5_2",)), "mlx5_2", 1) == ({22}, "NUMA node 0", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {30, 31})
    assert given(Room(NICS), "mlx5_2")[2] == "none of the CPUs near mlx5_2 (0-23,48-71) may be used here"


def test_a_virtual_machine_that_does_not_say_where_its_nics_are(machine):
    tree(machine, nic("mlx5_0", "-1", "0-95"))
    cpus, place, why = given(Room(NICS), "mlx5_0")
    assert (cpus, place) == (set(), "")
    assert why == "sysfs does not say to which of 2 NUMA nodes mlx5_0 belongs"


def test_with_one_numa_node_every_cpu_is_near(machine):
    tree(machine, {**nic("mlx5_0", "-1", "0-95"), "devices/system/node/has_cpu": "0"})
    assert given(Room(("mlx5_0",)), "mlx5_0") == ({1}, "the only NUMA node", "")


@pytest.mark.parametrize("written", ["", "-", "0-", "a-b", "0-3,", "1,-4", "\u0661"])
def test_a_list_that_is_none_names_no_cpu(written):
    assert seats.cpus_in(written) == set()


def test_a_list_of_cpus_is_read_and_bounded():
    assert seats.cpus_in("0-2,8") == {0, 1, 2, 8}
    assert seats.cpus_in("0-99999") == set(range(8193))


def test_a_process_starts_on_its_cpus_and_ours_are_as_before():
    before = os.sched_getaffinity(0)
    one = {max(before)}
    seat = seats.Seat(one, "NUMA node 0")
    with seats.taken(seat):
        program = "import time; print(flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()  # the kernel shows its command line only some time after Popen returns
        assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(child.pid) == one
        assert seat.look(child.pid, child.args)  # type: ignore[arg-type]
        cpu = str(max(one))
        assert seat.line() == {"near": "NUMA node 0", "asked": cpu, "found": cpu, "why": ""}
        assert seats.process_of(["docker", "run", *child.args]) == child.pid  # type: ignore[misc]
    finally:
        child.kill()
        child.communicate()
    assert seats.allowed(child.pid) == ""


def test_cpus_that_the_kernel_refuses_are_said_and_the_program_runs():
    seat = seats.Seat({8000}, "NUMA node 0")
    with seats.taken(seat):
        assert subprocess.run(["true"], check=False).returncode == 0
    why = "the CPUs near its NIC (8000) are refused: Invalid argument"
    assert seat.line() == {"near": "", "asked": "", "found": "", "why": why}
