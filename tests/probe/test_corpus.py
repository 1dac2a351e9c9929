"""Real outputs of other machines give the facts that their truth states; skipped where they are not at hand.

What the checks make of these and of the other recordings is judged in tests/checks/test_*_corpus.py.
"""

import csv
import re

import pytest
from support.corpus import corpus, corpus_folder

from nodegate.probe import kernel_log, rdma
from nodegate.tools import nvidia_smi
from nodegate.unknown import Unknown, Why

NOW_S = 1_795_248_900.0
PREFIX = r"<\d|\[ *\d+\.\d+\]|\d+,\d+,\d+|kern +:|\[(Mon|Tue|Wed|Thu|Fri|Sat|Sun) "


def index() -> dict[str, dict[str, str]]:
    corpus("index.csv")
    with (corpus_folder() / "index.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def why(reading: object) -> Why:
    assert isinstance(reading, Unknown), reading
    return reading.why


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
    gpus = nvidia_smi.parse_xml(corpus(f"smi/{name}.xml"))
    assert gpus.driver_version == driver
    gpu = gpus.devices[0]
    assert (gpu.link_gen_max, gpu.link_width, gpu.link_width_max) == (gen, width, width_max)
    if name == "netdata_tesla-p100":
        assert (gpu.gsp_enabled, why(gpu.remap)) == (False, Why.NOT_SUPPORTED)
        assert (gpu.retired_single_bit, gpu.retired_pending, gpu.ecc.aggregate_corrected) == (0, False, 3)
    if name == "telegraf_a100-sxm4-v12":
        assert (gpu.gsp_firmware, gpu.mig_enabled) == ("535.54.03", True)


def test_cut_down_xml():
    gpus = nvidia_smi.parse_xml(corpus("smi/telegraf_gtx-1070-ti.xml"))
    assert why(gpus.driver_version) is Why.MISSING
    (gpu,) = gpus.devices
    assert (gpu.name, gpu.link_width, why(gpu.link_width_max)) == ("GeForce GTX 1070 Ti", 16, Why.MISSING)


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


def test_no_prefix_is_left_before_a_driver_message_and_the_time_of_most_is_known():
    timed = 0
    for file in (file for file, row in index().items() if row["kind"] == "kernel"):
        lines = kernel_log.parse_lines(corpus(file).splitlines(), now_epoch_s=NOW_S, boot_epoch_s=NOW_S - 1e7)
        assert not [line.text for line in lines if re.match(PREFIX, line.text)], file
        timed += any(not isinstance(line.epoch_s, Unknown) for line in lines)
    assert timed > 10
