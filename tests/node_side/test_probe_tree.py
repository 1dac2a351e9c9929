"""The probe on a made file tree: PCI with bridges, RDMA adapters, driver files, programs; and files that hang."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.payload import run_probe

from lab.nodes.tree import DEVICES_HEX, NodeTree, config_space, hgx_h100
from lab.nvml import scenario as nvml
from nodegate.demands.demands import Demands
from nodegate.facts import NodeFacts
from nodegate.node_program import PYTHON_OPTIONS
from nodegate.probe import environment
from nodegate.probe.collect import decode, program
from nodegate.unknown import Unknown


@pytest.fixture
def tree(tmp_path):
    return NodeTree(tmp_path / "node")


def pci_of(tree):
    return {device["address"]: device for device in run_probe(sections=["pci"], root=tree.root).data("pci")}


def test_a_gpu_comes_with_every_bridge_above_it_and_nothing_else(tree):
    tree.pci("0000:10:01.0")
    tree.pci("0000:11:00.0", below=("0000:10:01.0",))
    tree.pci("0000:12:00.0", below=("0000:10:01.0", "0000:11:00.0"), ids=DEVICES_HEX["gpu"], driver="nvidia")
    tree.pci("0000:00:1f.0", ids=("0x060100", "0x8086", "0x1b81"), driver="")  # an ISA bridge
    tree.pci("0000:13:00.0", below=("0000:10:01.0",), ids=("0x010802", "0x144d", "0xa80a"))  # an NVMe disk
    devices = pci_of(tree)
    assert list(devices) == ["0000:10:01.0", "0000:11:00.0", "0000:12:00.0"]
    gpu = devices["0000:12:00.0"]
    assert gpu["parent"] == "0000:11:00.0"
    assert (devices["0000:11:00.0"]["parent"], devices["0000:10:01.0"]["parent"]) == ("0000:10:01.0", "")
    assert (gpu["driver"], gpu["class"], gpu["current_link_speed"]) == ("nvidia", "0x030200", "32.0 GT/s PCIe")
    assert str(gpu["aer_dev_correctable"]).splitlines()[-1] == "TOTAL_ERR_COR 0"
    assert str(gpu["config"]).startswith("de103023")
    assert len(str(gpu["config"])) == 128


def test_devices_that_do_not_answer_or_lack_a_file(tree):
    ids = ("0x020000", "0x15b3", "0x101e")
    circle = bytearray(config_space())
    circle[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    spaces = (b"\xff" * 4096, config_space(acs_control=0x1D), config_space(), b"\0" * 64, bytes(circle))
    for number, config in enumerate(spaces):
        tree.pci(f"0000:1b:0{number}.0", ids=DEVICES_HEX["gpu"], config=config)
    (tree.path("/sys/bus/pci/devices/0000:1b:00.0") / "aer_dev_fatal").unlink()
    tree.pci("0000:1c:00.0", ids=ids)
    (tree.pci("0000:1c:00.2", ids=ids) / "physfn").symlink_to("../0000:1c:00.0")
    devices = pci_of(tree)
    assert list(devices) == [*(f"0000:1b:0{number}.0" for number in range(5)), "0000:1c:00.0"]  # no virtual function
    off_the_bus, acs, none, short, _ = list(devices.values())[:5]
    assert off_the_bus["config"] == "ff" * 64
    assert off_the_bus["aer_dev_fatal"] == {"why": "missing", "detail": "aer_dev_fatal: No such file or directory"}
    assert acs["acs"] == "001d"  # behind another capability
    why = "not supported" if os.geteuid() == 0 else "denied"
    assert [each["acs"]["why"] for each in (none, short)] == ["not supported", why]  # type: ignore[index]


def test_section_upkeep_has_the_control_word_of_each_device(tree):
    express = bytearray(config_space())
    express[0x34], express[0x40], express[0x48:0x4A] = 0x40, 0x10, b"\x57\x28"
    for number, config in enumerate((bytes(express), bytes(express[:0x40]), config_space())):
        tree.pci(f"0000:1b:0{number}.0", ids=DEVICES_HEX["gpu"], config=config)
    probed = run_probe(sections=["pci", "upkeep"], root=tree.root)
    word, short, without = probed.data("upkeep")["pcie"].values()
    assert (word, short["why"], without["why"]) == ("2857", "denied", "not supported")
    assert not any("control" in device for device in probed.data("pci"))


def test_an_adapter_is_read_with_its_counters_as_text(tree):
    tree.pci("0000:1c:00.0", ids=("0x020700", "0x15b3", "0x1021"), numa_node="1")
    folder = tree.adapter("mlx5_0", "0000:1c:00.0", link_downed="255", symbol_error="N/A (no PMA)")
    tree.file("/sys/devices/pci0000:00/0000:1c:00.0/net/ib0/dev_port", "0\n")
    tree.file(f"{folder}/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n")
    tree.file(f"{folder}/ports/1/gid_attrs/types/3", "RoCE v2\n")
    adapter = run_probe(sections=["infiniband"], root=tree.root).data("infiniband")["mlx5_0"]
    assert (adapter["pci"], adapter["fw_ver"]) == ("0000:1c:00.0", "28.41.1000")
    port = adapter["ports"]["1"]
    assert (port["state"], port["phys_state"], port["rate"]) == ("4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)")
    assert (port["counters"]["link_downed"], port["counters"]["symbol_error"]) == ("255", "N/A (no PMA)")
    assert port["hw_counters"]["lifespan"] == "0"
    assert list(port["gids"]) == ["0", "3"]  # the empty rows of the table are left out
    assert (port["gid_types"], port["netdev"]) == ({"0": "IB/RoCE v1", "3": "RoCE v2"}, "ib0")


def test_no_rdma_class_is_missing_and_an_empty_one_is_empty(tree):
    assert run_probe(sections=["infiniband"], root=tree.root).section("infiniband")["why"] == "missing"
    tree.path("/sys/class/infiniband").mkdir(parents=True)
    assert run_probe(sections=["infiniband"], root=tree.root).data("infiniband") == {}


def test_network_devices_are_the_physical_ones(tree):
    home = tree.pci("0000:1d:00.0", ids=("0x020000", "0x15b3", "0x101d"), driver="mlx5_core")
    tree.file("/sys/class/net/ens1f0/operstate", "up\n")
    tree.file("/sys/class/net/ens1f0/carrier_changes", "4\n")
    tree.path("/sys/class/net/ens1f0/device").symlink_to(home)
    tree.file("/sys/class/net/lo/operstate", "unknown\n")
    devices = run_probe(sections=["netdev"], root=tree.root).data("netdev")
    assert list(devices) == ["ens1f0"]
    assert (devices["ens1f0"]["carrier_changes"], devices["ens1f0"]["pci"]) == ("4", "0000:1d:00.0")
    assert devices["ens1f0"]["mtu"]["why"] == "missing"


def test_the_driver_section_tells_device_nodes_that_open_from_those_that_hang(tree):
    tree.path("/sys/module/nvidia").mkdir(parents=True)
    tree.file("/proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: \t\t NVIDIA H100\n")
    tree.file("/dev/nvidia0", "")
    tree.fifo("/dev/nvidia1")
    tree.file("/dev/nvidiactl", "")
    data = run_probe(sections=["driver"], limits_s={"driver": 3.0}, root=tree.root).data("driver")
    assert (data["loaded"], data["gpus"]) == (True, {"0000:1b:00.0": "Model: \t\t NVIDIA H100"})
    assert (data["devices"], data["version"]["why"]) == ({"nvidia0": "ok", "nvidia1": "ETIMEDOUT"}, "missing")


def test_a_file_that_hangs_costs_its_section_alone_and_is_named(tree):
    tree.pci("0000:1c:00.0", ids=("0x020700", "0x15b3", "0x1021"))
    folder = tree.adapter("mlx5_0", "0000:1c:00.0")
    tree.fifo(f"{folder}/ports/1/counters/symbol_error")
    started = time.monotonic()
    ran = run_probe(sections=["infiniband", "pci"], limits_s={"infiniband": 3.0}, root=tree.root)
    assert time.monotonic() - started < 30
    section = ran.section("infiniband")
    assert section["why"] == "timeout"
    assert section["detail"].endswith("at /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error")
    assert ran.data("pci")[0]["address"] == "0000:1c:00.0"


needs_fuse = pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and FUSE")
HELPER = Path(__file__).parent.parent / "support" / "hung_mount.py"


def beside_a_dead_mount(folder, before="", **options):
    """A FUSE server that never answers: its reader sits in D state, deaf to SIGKILL, as with a dead file server."""
    point, source = folder / "dead", folder / "probe.py"
    point.mkdir()
    source.write_bytes(program(**options))
    script = f"{before.format(point=point)} exec {sys.executable} {' '.join(PYTHON_OPTIONS)} {source}"
    argv = [sys.executable, HELPER, point, "sh", "-c", script]
    return point, decode(subprocess.run(argv, capture_output=True, timeout=90, check=True).stdout).sections


@needs_fuse
def test_a_mount_that_hangs_for_good_costs_its_own_limit_and_is_named(tmp_path):
    point, sections = beside_a_dead_mount(tmp_path, sections=["mounts", "system"], limits_s={"mounts": 60.0})
    usage = sections["mounts"]["data"]["usage"]
    dead = usage[str(point)]
    assert dead["why"] == "hung"
    assert dead["pid"] > 0
    assert "state D" in dead["detail"]
    assert f"statvfs {point}" in dead["detail"]
    assert usage["/"]["size_bytes"] > 0


@needs_fuse
def test_a_process_that_stays_in_d_state_is_named(tmp_path: Path) -> None:
    # FUSE waits killably at first: only a process that was killed while it waits stays in D state.
    waits = 'until [ "$(cut -d" " -f2,3 /proc/$!/stat)" = "(stat) S" ]; do sleep 0.05; done; sleep 2'
    before = f"(stat {{point}}/file & {waits}; kill -9 $!);"
    _, sections = beside_a_dead_mount(tmp_path, before, sections=["system"])
    assert "stat" in [process["comm"] for process in sections["system"]["data"]["dstate"]]


def test_programs_are_looked_for_in_the_tree_alone(tree):
    tree.program("/usr/bin/systemctl", 'echo "Id=nvidia-fabricmanager.service"; echo "LC=$LC_ALL arg=$1"\n')
    tree.program("/usr/bin/nv-fabricmanager", "exec /bin/sleep 300\n")
    tree.file("/var/log/fabricmanager.log", "x" * 70000 + "\nlast line\n")
    services = run_probe(sections=["services"], limits_s={"services": 50.0}, root=tree.root).data("services")
    assert services["show"] == "Id=nvidia-fabricmanager.service\nLC=C arg=show"
    late = {"why": "timeout", "detail": "nv-fabricmanager: not finished within 4 s"}
    assert services["fabric_manager_version"] == late
    assert services["fabric_manager_log"].endswith("\nlast line")
    assert len(services["fabric_manager_log"]) == 65535


def test_a_program_that_refuses_is_a_reading(tree):
    tree.program("/usr/bin/systemctl", "echo 'Failed to connect to bus: Permission denied' >&2; exit 1\n")
    show = run_probe(sections=["services"], root=tree.root).data("services")["show"]
    said = "systemctl: exit code 1: Failed to connect to bus: Permission denied"
    assert show == {"why": "denied", "detail": said}


def test_a_program_that_writes_without_end_is_bounded(tree):
    tree.program("/usr/bin/ofed_info", "exec /usr/bin/yes MLNX_OFED_LINUX\n")
    data = run_probe(sections=["software"], limits_s={"software": 50.0}, root=tree.root).data("software")
    assert data["ofed"]["why"] == "timeout"


def test_the_environment_of_a_login_keeps_only_what_matters(tree):
    tree.file("/etc/environment", 'PATH="/bin"\nNCCL_IB_DISABLE="1"\n# NCCL_DEBUG=TRACE\n')
    tree.program(
        "/bin/sh", 'printf "NCCL_DEBUG=INFO\\0SECRET=x\\0UCX_TLS=%0400d\\0LD_LIBRARY_PATH=$LD_LIBRARY_PATH\\0" 1\n'
    )
    tree.file("/etc/nccl.conf", "NCCL_NET_PLUGIN=none\n")
    own = {"LD_LIBRARY_PATH": "/callers/own"}  # not taken for the login's
    data = run_probe(sections=["environment"], root=tree.root, environment=own).data("environment")
    assert (data["variables"]["NCCL_IB_DISABLE"], data["variables"]["NCCL_DEBUG"]) == ("1", "INFO")
    assert len(data["variables"]["UCX_TLS"]) == 300
    assert data["variables"]["LD_LIBRARY_PATH"] == ""
    assert set(data["variables"]) == {"NCCL_IB_DISABLE", "NCCL_DEBUG", "UCX_TLS", "LD_LIBRARY_PATH"}
    assert (data["nccl_conf"], data["user_nccl_conf"]["why"]) == ("NCCL_NET_PLUGIN=none", "missing")
    assert data["demands"]["why"] == "missing"


def test_of_the_sites_demands_the_hash_is_read(tree):
    demands = Demands("gpu01", {"nodegate_mounts": [f"/mount/{number}" for number in range(100)]}, made="today")
    tree.file("/etc/nodegate/demands.yaml", demands.text)
    tree.program("/bin/sh", "true\n")
    data = run_probe(sections=["environment"], root=tree.root).data("environment")
    assert len(data["demands"]) == 400
    assert environment.parse(data).demands == demands.sha256
    tree.file("/etc/nodegate/demands.yaml", demands.text.replace('"sha256"', '"sha"'))
    data = run_probe(sections=["environment"], root=tree.root).data("environment")
    assert isinstance(environment.parse(data).demands, Unknown)


def test_files_that_settings_of_nccl_name_are_looked_for(tree):
    tree.file("/opt/there.xml", "")
    tree.file("/opt/file", "")
    tree.program("/bin/sh", "printf 'NCCL_TUNER_PLUGIN=/opt/gone.so\\0NCCL_DEBUG_FILE=/tmp/%%h.log\\0' 1\n")
    lines = ("NCCL_TOPO_FILE=/opt/there.xml", "#NCCL_GRAPH_FILE=/opt/no", "NCCL_GRAPH_FILE=/opt/file/below")
    tree.file("/etc/nccl.conf", "\n".join((*lines, "NCCL_NET_PLUGIN=none", "NCCL_TOPO_DUMP_FILE=/tmp/out", "")))
    data = run_probe(sections=["environment"], root=tree.root).data("environment")
    assert data["files"] == {"/opt/there.xml": True, "/opt/file/below": False, "/opt/gone.so": False}


def test_software_is_found_where_it_lies(tree):
    tree.file("/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", "")
    tree.path("/usr/lib/x86_64-linux-gnu/libnccl.so.2").symlink_to("libnccl.so.2.21.5")
    tree.file("/etc/ld.so.conf.d/site.conf", "/opt/site/lib\n")
    tree.file("/opt/site/lib/libnccl.so.2.18.3", "")
    tree.file("/usr/local/cuda/version.json", '{"cuda": {"version": "12.4.1"}}\n')
    tree.program("/usr/bin/dpkg-query", "printf 'ii \\tlibnccl2\\t2.21.5-1\\nun \\tnvidia-driver\\t\\n'; exit 1\n")
    tree.program("/usr/bin/ib_write_bw", "")
    software = run_probe(sections=["software"], root=tree.root).data("software")
    assert software["nccl"] == [
        {"path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "file": "libnccl.so.2.21.5"},
        {"path": "/opt/site/lib/libnccl.so.2.18.3", "file": "libnccl.so.2.18.3"},
    ]
    assert software["cuda"] == {"/usr/local/cuda": '{"cuda": {"version": "12.4.1"}}'}
    assert software["packages"] == {"libnccl2": "2.21.5-1"}
    assert software["tools"]["ib_write_bw"].endswith("/usr/bin/ib_write_bw")
    assert software["tools"]["nvidia-smi"] == ""


def test_a_library_that_is_asked_for_is_looked_for_where_libraries_are(tree):
    """By the loader's cache, else in the folders; `libcudnn9` is the name of a package, `cudnn_ops` of another file."""
    row = "\tlibcudnn{0} (libc6,x86-64) => /opt/dnn/libcudnn{0}\n"
    tree.program("/sbin/ldconfig", f"printf '{row.format('_ops.so.9')}{row.format('.so.9')}'\n")
    tree.file("/usr/lib64/libsite.so.2.1", "")
    asked = ["cudnn", "libcudnn9", "libsite2", "site", "cudn", "libnone"]
    found = run_probe(sections=["software"], root=tree.root, programs=asked).data("software")["libraries"]
    assert [found[name] for name in asked] == [
        *("/opt/dnn/libcudnn.so.9", "/opt/dnn/libcudnn.so.9", "/usr/lib64/libsite.so.2.1", "/usr/lib64/libsite.so.2.1"),
        *("", ""),
    ]


def test_holders_of_gpus_slurm_jobs_and_ports_are_listed(tree):
    for pid, comm in ((900, "slurmd"), (901, "slurmstepd"), (902, "python3")):
        tree.file(f"/proc/{pid}/stat", f"{pid} ({comm}) S 1 1 1 0\n")
        tree.path(f"/proc/{pid}/fd").mkdir()
    tree.file("/proc/901/cmdline", "slurmstepd: [4711.batch]\0")
    tree.file("/proc/900/limits", "Limit                     Soft Limit\n")
    tree.file("/proc/902/cgroup", "0::/system.slice/slurmstepd.scope/job_4711/step_0\n")
    tree.file("/dev/nvidia3", "")
    tree.path("/proc/902/fd/7").symlink_to("/dev/nvidia3")
    tree.path("/proc/902/fd/8").symlink_to("/dev/nvidiactl")
    header = "  sl  local_address rem_address   st\n"
    tree.file(
        "/proc/net/tcp", f"{header}   0: 00000000:0016 00000000:0000 0A 0\n   1: 0100007F:1F90 0100007F:9C40 01 0\n"
    )
    uuid = "GPU-8f2c1d90-3e5a-4b17-9c2e-5da9abb51763"
    plugins = {"Data": {"RegisteredDevices": {"nvidia.com/gpu": [f"{uuid}::0", f"{uuid}::1", uuid.replace("8", "9")]}}}
    tree.file("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", json.dumps(plugins, separators=(",", ":")))
    ran = run_probe(sections=["jobs", "limits"], root=tree.root)
    jobs = ran.data("jobs")
    assert (jobs["shared_gpus"], jobs["slurm"]) == ([uuid], ["4711"])
    cgroup = "0::/system.slice/slurmstepd.scope/job_4711/step_0"
    assert jobs["gpu_users"] == [{"pid": 902, "comm": "python3", "uid": os.getuid(), "cgroup": cgroup}]
    assert jobs["listening_ports"] == [22]
    assert ran.data("limits")["slurmd"].startswith("Limit")


XID = "NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus."
UNKNOWN = {"nvlink5", "retired_single_bit", "retired_double_bit", "retired_pending", "memory_temperature_limit_c"}


def test_a_whole_eight_gpu_node_is_small_and_becomes_facts_of_the_controller(tmp_path):
    tree = hgx_h100(tmp_path / "node")
    tree.file("/dev/kmsg", f"4,1,5000000,-;{XID}\n")
    variables = nvml.environment(nvml.healthy_h100().write(tmp_path / "scenario.conf"))
    ran = run_probe(root=tree.root, environment=variables)
    assert len(ran.raw) < 100_000
    assert len(json.dumps(ran.document)) < 200_000
    facts = NodeFacts(decode(ran.raw))
    assert (len(facts.gpus.devices), len(facts.rdma.devices), len(ran.data("pci"))) == (8, 8, 8 * 6 + 5)
    for gpu in facts.gpus.devices:
        assert {name for name, value in vars(gpu).items() if isinstance(value, Unknown)} == UNKNOWN
        assert gpu.lost is None
        assert isinstance(gpu.nvlinks, tuple)
        assert {link.up for link in gpu.nvlinks} == {True}
    assert (facts.gpus.devices[1].address, facts.gpus.devices[1].pci_id) == ("0000:3b:00.0", "10de:2330")
    assert next(device.address for device in facts.rdma.devices) == "0000:14:00.0"
    assert {port.rate_gbps for port in facts.rdma.ports} == {400.0}
    assert (facts.driver.version, set(facts.driver.device_nodes.values())) == ("550.163.01", {"ok"})
    assert [line.text for line in facts.kernel_log.lines] == [XID]
    assert facts.mounts.by_path["/"].type == "ext4"
