"""Real outputs of other machines give the facts that their truth states; skipped where they are not at hand."""

from __future__ import annotations

import csv
import re

import pytest
from support import lspci
from support.corpus import corpus, corpus_folder

from nodegate.probe import kernel_log, rdma
from nodegate.probe.gpu import Gpu, Gpus, RowRemap
from nodegate.probe.kernel_log import KernelLine
from nodegate.tools import fabric_manager, nvidia_smi
from nodegate.unknown import Unknown, Why

NOW_S = 1_795_248_900.0


def index() -> dict[str, dict[str, str]]:
    corpus("index.csv")
    with (corpus_folder() / "index.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def why(reading: object) -> Why:
    assert isinstance(reading, Unknown), reading
    return reading.why


# nvidia-smi -q as text: the truth of the exporter's captures is a sentence with numbers

EXPORTER = [
    f"smi/exporter_{card}_{load}_q.txt"
    for card in ("h100", "h100mig", "h200", "h200mig", "l40s", "rtx2080s")
    for load in ("idle", "load")
]


@pytest.mark.parametrize("file", EXPORTER)
def test_captures_of_newer_drivers(file):
    gpus = nvidia_smi.parse_q_text(corpus(file))
    truth = re.fullmatch(
        r"healthy; driver (\S+)(?: \[.*\])?; GSP (\S+); PCIe gen current \d of max (\d), width (\d+)x of (\d+)x; "
        r"SM clock (\d+) MHz of max (\d+) MHz; active clock event reasons (.*); recovery action None",
        index()[file]["truth"],
    )
    assert truth
    driver, gsp, gen_max, width, width_max, clock, clock_max, reasons = truth.groups()
    (gpu,) = gpus.devices
    assert gpus.driver_version == driver
    assert (gpu.gsp_firmware, gpu.gsp_enabled) == (gsp, True)
    assert gpu.link_gen_max == int(gen_max)
    assert (gpu.link_width, gpu.link_width_max) == (int(width), int(width_max))
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) == (int(clock), int(clock_max))
    assert gpu.event_reasons == (frozenset({"gpu_idle"}) if reasons == "['Idle']" else frozenset())
    assert gpu.recovery_action == 0
    assert not isinstance(gpu.power_limit_w, Unknown)


def test_eight_a100_of_an_old_driver():
    gpus = nvidia_smi.parse_q_text(corpus("smi/azhpc_a100_460_q.txt"))
    assert (gpus.driver_version, gpus.count, len(gpus.devices)) == ("460.32.03", 8, 8)
    for gpu in gpus.devices:
        assert gpu.name == "A100-SXM4-40GB"
        assert (gpu.link_gen_max, gpu.link_width, gpu.link_width_max) == (4, 16, 16)
        assert gpu.event_reasons == frozenset({"gpu_idle"})
        assert isinstance(gpu.remap, RowRemap)
        assert (gpu.remap.pending, gpu.remap.failed) == (False, False)
        assert why(gpu.gsp_firmware) is Why.MISSING


def test_retired_pages():
    good, bad = (
        nvidia_smi.parse_q_text(corpus(f"smi/azurenhc_{name}_retired_ecc.txt")).devices for name in ("orig", "bad")
    )
    assert {(gpu.retired_double_bit, gpu.retired_pending) for gpu in good} == {(0, False)}
    assert [gpu.retired_double_bit for gpu in bad] == [5, 61, 0, 0, 0, 45, 0, 56]
    assert [gpu.index for gpu in bad if gpu.retired_pending is True] == [1, 3, 5, 7]


def test_a_row_remap_that_waits_for_a_reset():
    (gpu,) = nvidia_smi.parse_q_text(corpus("smi/stas_remapped_rows_pending.txt")).devices
    assert gpu.remap == RowRemap(correctable=1, uncorrectable=0, pending=True, failed=False)


def test_a_corrupted_inforom_below_a_table():
    assert nvidia_smi.corrupted_inforoms(corpus("smi/azhpc_inforom_corrupt.txt")) == ("0008:00:00.0",)
    assert nvidia_smi.corrupted_inforoms(corpus("smi/exporter_h100_table_idle.txt")) == ()


# nvidia-smi -q -x


def xml(name: str) -> tuple[Gpus, Gpu]:
    gpus = nvidia_smi.parse_xml(corpus(f"smi/{name}.xml"))
    return gpus, gpus.devices[0]


@pytest.mark.parametrize(
    ("name", "driver", "gen", "width", "width_max"),
    [
        ("netdata_rtx-4090-driver-535", "535.86.05", 3, 16, 16),
        ("netdata_tesla-p100", "510.47.03", 3, 16, 16),
        ("telegraf_a100-sxm4-v12", "535.54.03", 4, 16, 16),
        ("telegraf_a10g", "515.105.01", 4, 8, 16),
        ("telegraf_rtx-3060-v12", "570.124.04", 4, 16, 16),
        ("telegraf_rtx-3080-v13", "595.58.03", 4, 16, 16),
        ("telegraf_tesla-t4", "515.105.01", 3, 8, 16),
    ],
)
def test_links_in_xml(name, driver, gen, width, width_max):
    gpus, gpu = xml(name)
    assert gpus.driver_version == driver
    assert gpu.link_gen_max == gen
    assert (gpu.link_width, gpu.link_width_max) == (width, width_max)


def test_gsp_remap_and_mig_in_xml():
    for name in ("netdata_rtx-4090-driver-535", "netdata_tesla-p100"):
        assert xml(name)[1].gsp_enabled is False
    p100, a100, mig = (
        xml(name)[1] for name in ("netdata_tesla-p100", "telegraf_a100-sxm4-v12", "netdata_a100-sxm4-mig")
    )
    assert why(p100.remap) is Why.NOT_SUPPORTED
    assert (p100.retired_single_bit, p100.retired_pending) == (0, False)
    assert p100.ecc.aggregate_corrected == 3
    assert (a100.gsp_firmware, a100.mig_enabled) == ("535.54.03", True)
    assert mig.mig_enabled is True
    assert why(mig.utilization_percent) is Why.NOT_SUPPORTED


def test_cut_down_xml():
    gpus, gpu = xml("telegraf_gtx-1070-ti")
    assert why(gpus.driver_version) is Why.MISSING
    assert (gpu.name, gpu.link_width) == ("GeForce GTX 1070 Ti", 16)
    assert why(gpu.link_width_max) is Why.MISSING
    _, blackwell = xml("netdata_rtx-pro-6000-driver-580")
    assert (blackwell.temperature_c, blackwell.temperature_margin_c) == (37, 56)
    assert blackwell.power_w == pytest.approx(66.84)


# lspci


@pytest.mark.parametrize(
    ("name", "width", "speed"),
    [
        ("gpud_dellxe9680_bcm5720_width_downgraded", (1, 2), (5.0, 5.0)),
        ("gpud_dellxe9680_cx6dx_gen4", (16, 16), (16.0, 16.0)),
        ("gpud_dellxe9680_cx7_gen5", (16, 16), (32.0, 32.0)),
        ("gpud_dellxe9680_gpu_h100_gen5", (16, 16), (32.0, 32.0)),
        ("gpud_dellxe9680_nvswitch", (2, 2), (16.0, 16.0)),
        ("gpud_dellxe9680_pex_switch_bridge_downgraded", (4, 4), (16.0, 32.0)),
        ("gpud_dellxe9680_root_port_width_downgraded", (2, 16), (16.0, 16.0)),
        ("pciutils_aer_root", (8, 8), (8.0, 8.0)),
        ("pciutils_phy32", (2, 2), (16.0, 32.0)),
    ],
)
def test_links_in_lspci(name, width, speed):
    (device,) = lspci.parse(corpus(f"lspci/{name}.txt")).devices
    assert (device.width, device.width_max) == width
    assert (device.speed_gts, device.speed_max_gts) == speed
    assert device.is_gpu == ("gpu_h100" in name)
    assert device.is_nvswitch == ("nvswitch" in name)
    assert device.is_nic == ("cx" in name or "bcm" in name)
    assert device.is_bridge == ("bridge" in name or "root" in name)


def test_lists_of_lspci():
    a10, a100 = (lspci.parse(corpus(f"lspci/{name}.txt")) for name in ("gpud_nn_a10", "gpud_nn_a100"))
    assert (len(a10.gpus), len(a10.nvswitches)) == (1, 0)
    assert (len(a100.gpus), len(a100.nvswitches)) == (8, 6)


# RDMA and Ethernet


def sysfs_port(name: str) -> rdma.RdmaPort:
    """A flattened /sys/class/infiniband/<device> in the form of the probe document."""
    port: dict[str, object] = {"counters": {}, "hw_counters": {}}
    adapter: dict[str, object] = {"ports": {"1": port}}
    for line in corpus(f"rdma/{name}.txt").splitlines():
        path, _, value = line.partition(": ")
        parts = path.removeprefix("ports/1/").split("/")
        holder = port if path.startswith("ports/1/") else adapter
        if len(parts) == 2:
            counters = port[parts[0]]
            assert isinstance(counters, dict)
            counters[parts[1]] = value
        else:
            holder[parts[0]] = value
    return rdma.parse({name: adapter}).ports[0]


@pytest.mark.parametrize(
    ("name", "rate", "lanes", "downed"),
    [
        ("gpud_sysfs_h100_mlx5_0", 400.0, 4, 0),
        ("gpud_sysfs_h100_mlx5_1", 400.0, 4, 255),
        ("gpud_sysfs_h100_mlx5_4", 400.0, 4, 0),
        ("gpud_sysfs_h100_mlx5_bond_0", 200.0, 2, None),
    ],
)
def test_ports_of_a_real_h100_node(name, rate, lanes, downed):
    port = sysfs_port(name)
    assert (port.state, port.phys_state, port.rate_gbps, port.lanes) == ("ACTIVE", "LinkUp", rate, lanes)
    assert port.link_layer == ("Ethernet" if "bond" in name else "InfiniBand")
    assert port.counters.get("link_downed") in (downed, 0)
    if name == "gpud_sysfs_h100_mlx5_0":
        assert (port.counters["port_rcv_errors"], port.hw_counters["roce_slow_restart"]) == (14, 0)
    if name == "gpud_sysfs_h100_mlx5_1":
        assert port.counters["link_downed"] == 255


def test_a_fixture_with_a_copied_state():
    entries = re.split(r"^# ttar.*$", corpus("rdma/procfs_mlx5_0_ttar.txt"), flags=re.MULTILINE)
    values = {}
    for entry in entries:
        if match := re.search(r"Path: \S+/mlx5_0/ports/1/(\S+)\nLines: 1\n(.*?)(?:EOF)?\n", entry):
            values[match[1]] = match[2]
    assert rdma.rate_in(values["rate"]) == (25.0, 1)
    assert (rdma.state_in(values["state"]), rdma.state_in(values["phys_state"])) == ("ACTIVE", "ACTIVE")
    assert values["counters/link_downed"] == "0"


# Kernel messages


def messages(file: str) -> tuple[KernelLine, ...]:
    return kernel_log.parse_lines(corpus(file).splitlines(), now_epoch_s=NOW_S, boot_epoch_s=NOW_S - 1e7)


@pytest.mark.parametrize(
    ("file", "start", "timed"),
    [
        ("kernel/gpud_dmesg_iso_xid13_43_oom.txt", "NVRM: Xid (PCI:0000:38:00): 13, pid='<unknown>'", True),
        ("kernel/gpud_filemax.txt", "VFS: file-max limit 1000000 reached", True),
        ("kernel/gpud_kmsg_boot.txt", "nvidia-nvswitch2: open (major=510)", True),
        ("kernel/gpud_kmsg_peermem.txt", "nvidia-peermem nv_get_p2p_free_callback:127 ERROR", True),
        ("kernel/gpud_nccl_segfault_iso.txt", "pt_main_thread[2536443]: segfault at", True),
        ("kernel/gpud_xid119_gsp_rpc_history.txt", "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380", True),
        ("kernel/gpud_xid149_154_gb200.txt", "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed", True),
        (
            "kernel/gpud_sxid_readme_xid79_sxid20034.txt",
            "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal",
            True,
        ),
        ("kernel/gpud_sxid_lines.txt", "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal", False),
        (
            "kernel/gpud_pstore_dmesg_mlx5.txt",
            "mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth (8.0",
            True,
        ),
        ("kernel/gpud_cpu_lockup_lines.txt", "watchdog: BUG: soft lockup - CPU#0 stuck for 27s!", True),
        ("kernel/gpud_fallen_off_bus_variants.txt", "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", False),
        ("kernel/gpud_mlx5_lines.txt", "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected", False),
        ("kernel/gpud_xid145_149_realnvl5.txt", "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::Worker", False),
        ("kernel/nvsentinel_docs_nic.txt", "mlx5_core 0000:12:00.0: mlx5_pcie_event:299: Detected insufficient", False),
        ("kernel/nvsentinel_mlx5_lines.txt", "mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health", True),
        ("kernel/nvsentinel_mlx5_lines.txt", "mlx5_core 0000:01:00.0: mlx5_pcie_event:326:(pid 165): Detected", True),
        ("kernel/nvsentinel_xid_sxid_lines.txt", "NVRM: Xid (PCI:0000:17:00): 94, pid=789012, name=process", False),
        ("kernel/stas_limited_by_pcie.txt", "pci 0000:8b:00.0: 252.048 Gb/s available PCIe bandwidth, limited", True),
        ("kernel/stas_xid63_row_remapper.txt", "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper", False),
        ("kernel/azhpc_journald_audit_noise.txt", "audit: PATH item=0 name=", True),
        ("rdma/gcm_link_flaps_syslog.txt", "systemd-networkd[2385]: ib1: Lost carrier", True),
    ],
)
def test_kernel_messages_lose_their_prefix(file, start, timed):
    found = [line for line in messages(file) if line.text.startswith(start)]
    assert found
    assert (not isinstance(found[0].epoch_s, Unknown)) == timed


def test_no_prefix_is_left_before_a_driver_message():
    for file, row in index().items():
        if row["kind"] == "kernel":
            for line in messages(file):
                assert not re.match(
                    r"<\d|\[ *\d+\.\d+\]|\d+,\d+,\d+|kern +:|\[(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ", line.text
                )


# Fabric manager


def test_the_log_of_a_real_fabric_manager():
    entries = fabric_manager.parse_log(corpus("fabricmanager/gpud_fabricmanager.log"))
    others = [entry for entry in entries if entry.level != "INFO"]
    assert [fabric_manager.switch_error(entry) for entry in others] == [
        fabric_manager.SwitchError(fatal=False, sxid=12028, address="0000:86:00.0", port=61)
    ]


def test_lines_of_fabric_managers():
    entries = fabric_manager.parse_log(corpus("fabricmanager/gpud_log_matcher_lines.txt"))
    errors = [error for entry in entries if (error := fabric_manager.switch_error(entry)) is not None]
    assert [(error.fatal, error.sxid) for error in errors] == [
        (True, 20034),
        (True, 98765),
        (False, 12028),
        (False, 54321),
    ]
