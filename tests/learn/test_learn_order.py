"""nodegate_expect from a run: what all accepted nodes agree on, lists where several, and what is left out."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.learn.order import learn_order, seen
from nodegate.node import Node
from nodegate.subjects.order import check_orders


def learned(*machines):
    return learn_order(nodes_of(*machines), platform="hgx-h100-8", run="r1", date="2026-11-21")


def nodes_of(*machines):
    return {machine.name: seen(facts_of(machine)) for machine in machines}


def order_in(found):
    order = strict_yaml.load(found.text, "learned").value["nodegate_expect"]  # type: ignore[index]
    assert isinstance(order, dict)
    check_orders([Node("gpu01", expected={"expect": order})])
    return order


def test_what_all_nodes_agree_on_and_lists_where_several():
    other = Machine.hgx_h100("gpu02", 2)
    other.set_gpu(0, "vbios", "96.00.74.00.11")
    order = order_in(learned(Machine.hgx_h100("gpu01", 1), other))
    assert order["driver"] == "550.163.01"
    assert order["vbios"] == ["96.00.74.00.11", "96.00.89.00.01"]
    assert (order["gpus"], order["memory_gib"], order["ecc"]) == (8, 2048, "on")
    assert order["nic_firmware.MT4129"] == "28.41.1000"
    assert len(order["gpu_serial"]) == 16  # type: ignore[arg-type]


def test_it_says_what_it_left_out():
    other = Machine.hgx_h100("gpu02", 2)
    other.set("system", "dmi.bios_version", {"why": "denied", "detail": "bios_version"})
    other.set_gpu(3, "inforom_image", {"why": "failed", "detail": "NVML 999"})
    found = learned(Machine.hgx_h100("gpu01", 1), other)
    assert "bios left out: gpu02: denied: bios_version" in found.left_out
    assert "inforom left out: gpu02: failed: NVML 999" in found.left_out
    assert not {"bios", "inforom"} & order_in(found).keys()
    assert "# bios left out: gpu02: denied: bios_version\n" in found.text


def test_an_item_that_differs_from_node_to_node_is_no_order():
    machines = [Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, 7)]
    for number, machine in enumerate(machines):
        machine.set("system", "kernel_release", f"5.15.0-{number}-generic")
    assert "kernel left out: 6 different values" in learned(*machines).left_out


def test_without_an_accepted_node_nothing_is_learned():
    with pytest.raises(UsageError, match="no node of this run was accepted"):
        learned()
