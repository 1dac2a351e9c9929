"""Copies as they are run and read: our own program, nvbandwidth where it is there, documents from hostile nodes."""

from pathlib import Path

import pytest
from fleet.machine import Machine
from support.attempts import attempts
from support.copies import PEER, copied, document, each_pair_of, of_gpu, pair, ran, ran_by_others, rate, together, wire

from nodegate.errors import CannotMeasure
from nodegate.measure.copies import result as copies_result
from nodegate.measure.copies import run as copies
from nodegate.measure.copies.document import ALONE
from nodegate.measure.copies.result import TO_DEVICE, TO_HOST
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.program_run import MAX_KEPT
from nodegate.metric import Metric
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun
from nodegate.unknown import Unknown, Why

FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_tools" / "nvbandwidth"
H100 = Machine.hgx_h100()
DELIVERY, BOOTCHECK = OF_PROFILE[Profile.DELIVERY], OF_PROFILE[Profile.BOOTCHECK]


def metric(found: copies_result.Copies, name: str, device: str, tool: str = copies_result.TOOL) -> Metric:
    (one,) = [each for each in found.named(name, tool) if each.device == device]
    return one


# What a document says


def test_every_gpu_gives_its_host_copies_its_memory_and_its_lowest_peer():
    found = copied()
    assert {each.name for each in found.metrics} == {
        "memory.device_gb_per_s",
        "memory.read_gb_per_s",
        "memory.host_both_ways_gb_per_s",
        "memory.copy_gb_per_s",
        "memory.triad_gb_per_s",
        "memory.host_to_device_gb_per_s",
        "memory.device_to_host_gb_per_s",
        "memory.host_to_device_at_once_gb_per_s",
        "memory.device_to_host_at_once_gb_per_s",
        "memory.peer_gb_per_s",
    }
    assert len(found.metrics) == 8 * 10
    host = metric(found, TO_DEVICE, "GPU 3")
    assert (host.values, host.unit, host.better) == ((55.4,), "GB/s", "higher")
    assert (host.conditions["path"], host.conditions["size_bytes"]) == ("ce", str(512 << 20))


def test_a_copy_inside_a_gpu_counts_bytes_read_and_bytes_written():
    found = metric(copied(), copies_result.DEVICE, "GPU 0")
    assert found.values == (pytest.approx(2 * 1245.0),)
    assert (found.conditions["path"], found.conditions["counted"]) == ("ce", "both")


def test_a_kernel_counts_every_byte_that_it_moves():
    found = metric(copied(), copies_result.BY_TRIAD, "GPU 0")
    assert found.values == (2990.0,)
    assert (found.conditions["path"], found.conditions["size_bytes"]) == ("kernel", str(4 << 30))


def test_a_document_of_a_release_without_kernels_for_memory_says_so():
    assert copied().runs[0].kernels
    assert not copied(lambda found: found.pop("kernel_bytes")).runs[0].kernels


def test_the_lowest_partner_of_a_gpu_counts_in_either_direction():
    found = copied(pair(5, 3, gb_per_s=190.0))
    lowest = {index: metric(found, copies_result.PEER, f"GPU {index}").best for index in range(8)}
    assert [index for index, value in lowest.items() if value == 190.0] == [3, 5]
    assert lowest[0] == PEER
    assert len(found.pairs) == 56


def test_pairs_through_the_host_and_pairs_that_failed_give_no_peer_rate():
    change = together(each_pair_of(3, direct=False, gb_per_s=22.0), pair(0, 1, error="cuMemcpyPeerAsync: 719"))
    found = copied(change)
    assert "GPU 3" not in {each.device for each in found.named(copies_result.PEER)}
    assert metric(found, copies_result.PEER, "GPU 0").best == PEER
    assert found.best((0, 3)) is None


def test_host_memory_on_another_numa_node_is_another_condition():
    found = copied(of_gpu(3, place={"cpus": "0-7", "numa_node": "0", "error": "no CPU next to it may be used"}))
    assert metric(found, TO_DEVICE, "GPU 3").key != metric(found, TO_DEVICE, "GPU 2").key


def test_a_suspect_that_is_measured_again_has_a_value_for_each_attempt():
    slow, good = document(H100), document(H100)
    rate("host_to_device", 27.0, gpu=0)(slow)
    found = copies_result.parse(attempts([[ran(slow)], [ran(good)]]))
    assert metric(found, TO_DEVICE, "GPU 0").values == (27.0, 55.4)
    assert len(found.gpus[0]) == 2


def test_the_link_during_the_copies_is_read():
    link = copied().gpus[3][0].links[ALONE]
    assert (link.gen, link.width) == ((5, 5, 5), (16, 16, 16))


def test_a_link_that_nvml_does_not_tell_says_why():
    unread = {ALONE: {"count": 3}, "unread": {"link_gen": {"why": "not supported", "detail": "NVML 3"}}}
    link = copied(of_gpu(3, link=unread)).gpus[3][0].links[ALONE]
    assert link.gen == Unknown(Why.NOT_SUPPORTED, "NVML 3")
    assert isinstance(link.width, Unknown)


# nvbandwidth beside it


def test_rates_of_nvbandwidth_have_its_name_and_version_as_conditions():
    found = copied(lambda _: None, ran_by_others("slow-gpu.json"))
    other = metric(found, TO_HOST, "GPU 1", "nvbandwidth")
    assert (other.values, other.conditions["tool_version"], other.conditions["path"]) == ((55.2,), "v0.8", "ce")
    assert metric(found, TO_DEVICE, "GPU 2", "nvbandwidth").best == pytest.approx(27.8)
    assert metric(found, copies_result.PEER, "GPU 2", "nvbandwidth").best == pytest.approx(198.05)
    assert metric(found, TO_DEVICE, "GPU 2").best == 55.4


def test_nvbandwidths_order_of_gpus_is_made_ours_by_the_pci_address():
    def swapped(found):
        found["gpus"][0]["pci"], found["gpus"][1]["pci"] = "00000000:1B:00.0", "00000000:19:00.0"

    found = copied(swapped, ran_by_others("slow-gpu.json"))
    assert [each.device for each in found.named(TO_DEVICE, "nvbandwidth")] == ["GPU 1", "GPU 0", "GPU 2", "GPU 3"]


def test_where_the_addresses_are_not_ours_the_order_of_the_pci_bus_is_taken():
    found = copied(of_gpu(2, pci={"why": "failed"}), ran_by_others("slow-gpu.json"))
    assert [each.device for each in found.named(TO_DEVICE, "nvbandwidth")] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]


def test_a_case_of_nvbandwidth_that_failed_gives_no_rate():
    found = copied(lambda _: None, ran_by_others("case-fails.json"))
    assert found.named(copies_result.PEER, "nvbandwidth") == ()
    assert len(found.named(TO_HOST, "nvbandwidth")) == 4


def test_nvbandwidth_that_does_not_end_or_start_says_so():
    left = ProgramRun("nvbandwidth", timed_out=True, duration_s=300.0)
    found = copied(lambda _: None, left, ran_by_others("no-cuda.json"))
    reasons = [other.reason for other in found.others if isinstance(other, CannotMeasure)]
    assert reasons[0] == "nvbandwidth did not end within 300 s"
    assert "SYSTEM_NOT_READY" in reasons[1]


# What cannot be read


def test_hostile_values_become_unknown_and_never_zero():
    def nonsense(found):
        found["gpus"][0]["copies"][0].update(gb_per_s=-4, lowest="x", what=[], when={})
        found["gpus"][0]["copies"][1].update(gb_per_s=1e300)
        found["gpus"][0]["memory"].update(bytes=-1, passes="x", wrong=[7, ["a", 1, 2], ["a", -1, 2, 3], ["b", 1, 2, 3]])
        found["gpus"][1]["memory"] = "all"
        found["gpus"][0]["data"][0].update(wrong_words=-1, bytes="many", first_word="x")
        found["gpus"][1].update(pci="somewhere", index=-1, copies="none", data=7, link=[], place=3)
        found["gpus"][2]["link"][ALONE]["link_gen"] = [5, "x", 5]
        found["peers"]["copies"][0].update({"from": "x"})
        found["peers"]["copies"][1].update(gb_per_s="fast", direct="yes")

    found = copied(nonsense)
    first, second, third, *_ = found.runs[0].gpus
    assert isinstance(first.copies[0].gb_per_s, Unknown)
    assert isinstance(first.copies[1].gb_per_s, Unknown)
    assert isinstance(first.data[0].wrong_words, Unknown)
    assert isinstance(first.memory.bytes, Unknown)
    assert isinstance(first.memory.passes, Unknown)
    assert [str(each) for each in first.memory.wrong] == ["byte 0x1 held 0x00000003 for 0x00000002"]
    assert second.memory is None
    assert (second.index, second.copies, second.data) == (1, (), ())
    assert isinstance(third.links[ALONE].gen, Unknown)
    assert (0, 1) not in found.pairs
    assert found.best((0, 2)) is None


def test_the_document_of_the_largest_node_is_kept_whole():
    found = document(H100)
    found["gpus"] *= 8
    pairs = found["peers"]["copies"]
    found["peers"]["copies"] = [dict(pairs[at % 56], gb_per_s=300 + at * 0.0377) for at in range(64 * 63)]
    assert len(wire(found)) < MAX_KEPT


def test_it_takes_less_than_two_minutes_at_a_delivery():
    assert 60 < copies.takes_s(DELIVERY) < 120
    assert copies.takes_s(BOOTCHECK) < 30
