"""The sections about the host: system, driver, services, limits, mounts, environment, software, clock, jobs."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.probe import driver, environment, mounts, services, software
from nodegate.probe.document import document_of
from nodegate.probe.host import BlockedProcess
from nodegate.unknown import Unknown, Why, value_or

HEALTHY = Machine.hgx_h100().sections


def with_changed(section, **values):
    machine = Machine.hgx_h100()
    for key, value in values.items():
        machine.set(section, key, value)
    return facts_of(machine)


def test_host():
    host = with_changed("system", dstate=[{"pid": 812, "comm": "nvidia-smi", "wchan": "os_acquire_mutex"}]).host
    assert (host.hostname, host.os_name, host.product) == ("gpu0001", "Ubuntu 22.04.5 LTS", "PowerEdge XE9680")
    assert host.memory_total_bytes == 2_113_511_424 * 1024
    assert (host.cpu_sockets, host.modules["nvidia"]) == (2, "550.163.01")
    assert host.blocked == (BlockedProcess(812, "nvidia-smi", "os_acquire_mutex"),)


# Driver


def test_gsp_is_off_when_the_driver_says_so():
    machine = Machine.hgx_h100()
    place = machine.gpu_address(3)
    information = machine.sections["driver"]["gpus"][place]
    machine.sections["driver"]["gpus"][place] = information.replace(
        "GPU Firmware: \t 550.163.01", "GPU Firmware: \t N/A"
    )
    found = facts_of(machine).driver
    assert not isinstance(found.gpus, Unknown)
    assert found.gpus[0].gsp_firmware == "550.163.01"
    assert found.gpus[3].gsp_firmware == Unknown(Why.NOT_SUPPORTED, "GSP is off: GPU Firmware N/A")
    assert (found.gpus[3].address, found.gpus[3].excluded) == (place, False)
    assert (found.version, found.open_kernel_module, found.loaded) == ("550.163.01", True, True)


def test_the_driver_section_must_say_whether_it_is_loaded():
    with pytest.raises(CannotMeasure, match="the node sent no loaded"):
        driver.parse({"devices": {}})


# Services


def test_no_systemd_is_unknown_and_not_dead():
    assert services.parse({"show": {"why": "failed", "detail": "Host is down"}}).units == Unknown(
        Why.FAILED, "Host is down"
    )
    assert services.parse({"show": ""}).units == Unknown(Why.FAILED, "systemctl show listed no unit")


# Limits, mounts, environment, software


def test_a_mount_with_blanks_in_its_names():
    found = mounts.parse({"table": "server:/a\\040b /mnt/a\\040b nfs4 ro,hard 0 0", "usage": {}}).by_path
    assert (found["/mnt/a b"].source, found["/mnt/a b"].read_only) == ("server:/a b", True)


def test_nccl_settings_are_taken_as_nccl_takes_them():
    written = "# NCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME==eth0\nNCCL_DEBUG = INFO\nnonsense\n"
    assert environment.nccl_settings(written) == {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_DEBUG ": " INFO"}


_KERNEL_MODULE = "NVRM version: NVIDIA UNIX"


@pytest.mark.parametrize(
    ("read", "written", "version"),
    [
        (driver.version_in, f"{_KERNEL_MODULE} x86_64 Kernel Module  535.183.01  Sun May 12", "535.183.01"),
        (driver.version_in, f"{_KERNEL_MODULE} Open Kernel Module for x86_64  580.105.08  Release", "580.105.08"),
        (driver.version_in, f"{_KERNEL_MODULE} Open Kernel Module for aarch64  595.80  Release Build", "595.80"),
        (software.cuda_version_in, '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}', "12.4.1"),
        (software.cuda_version_in, "CUDA Version 10.2.89\nCUDA Patch Version 10.2.1", "10.2.89"),
        *((software.cuda_version_in, each, "") for each in ("", "[" * 100_000, "[]", '{"cuda": 12}', "9" * 5000)),
        (software.nccl_version_in, "libnccl.so.2.21.5", "2.21.5"),  # of real files
        (software.nccl_version_in, "/usr/lib/libnccl.so.2.23.4", "2.23.4"),
        (software.nccl_version_in, "libnccl.so.2", ""),
    ],
)
def test_versions(read, written, version):
    assert value_or(read(written), "") == version


# Clock


NO_CHRONY = {"why": "missing", "detail": "chronyc"}


@pytest.mark.parametrize(
    ("values", "synchronized", "offset_s"),
    [
        ({"adjtimex": {"status": 0x40, "offset_us": 0}}, True, -18.421e-6),  # chrony without rtcsync: the daemon knows
        ({"adjtimex": {"status": 0x40, "offset_us": 250_000}, "chronyc": NO_CHRONY}, False, 0.25),
        ({"chronyc": HEALTHY["clock"]["chronyc"].replace("Normal", "Not synchronised")}, False, -18.421e-6),
    ],
)
def test_a_clock(values, synchronized, offset_s):
    clock = with_changed("clock", **values).clock
    assert (clock.synchronized, clock.offset_s) == (synchronized, pytest.approx(offset_s))


def test_the_skew_is_known_within_the_round_trip():
    machine = Machine.hgx_h100()
    document = document_of(machine.document(), received_epoch_s=machine.epoch_s - 2.0, round_trip_s=0.51)
    clock = NodeFacts(document).clock
    assert clock.skew_s == pytest.approx(2.0 + (0.51 + 0.31) / 2)
    assert clock.skew_error_s == pytest.approx(0.1)


def test_the_skew_of_a_bare_recording_is_unknown():
    recorded = document_of(Machine.hgx_h100().document())
    assert isinstance(NodeFacts(recorded).clock.skew_s, Unknown)


# Jobs


def test_jobs():
    users = [{"pid": 9, "comm": "python3", "uid": 1000}, "?"]
    jobs = with_changed("jobs", slurm=["4711", 4712], gpu_users=users, listening_ports=[22, "29500"]).jobs
    assert jobs.slurm_jobs == ("4711", "4712")
    assert not isinstance(jobs.gpu_users, Unknown)
    assert [user.name for user in jobs.gpu_users] == ["python3", "unknown"]  # one that cannot be read still holds a GPU
    assert isinstance(jobs.listening_ports, Unknown)
