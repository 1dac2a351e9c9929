"""The program of the copies, as it goes to a node, on stand-ins for NVIDIA's libraries."""

import os

import pytest
from support import copies_node
from support.payload import nothing_is_left

from lab.nvml.scenario import healthy_h100
from nodegate.node_side.load import copies, copying
from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.turns import Turns


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return copies_node.run(healthy_h100(3), tmp_path_factory.mktemp("healthy"), peers="all", seconds=3.0)


def rates(gpu):
    return {(each["what"], each["when"]): each["gb_per_s"] for each in gpu["copies"]}


def pair(document, source, target):
    (found,) = [each for each in document["peers"]["copies"] if (each["from"], each["to"]) == (source, target)]
    return found


def test_each_gpu_copies_in_both_directions_alone_and_at_once_and_inside(healthy):
    assert (healthy["schema"], healthy["refused"], healthy["bytes"]) == ("nodegate.copies/1", "", 1 << 16)
    for gpu in healthy["gpus"]:
        assert gpu["error"] == ""
        with_host = {(way, when): 55 for way in ("device_to_host", "host_to_device") for when in ("alone", "at once")}
        own = {"device": 1250, "read": 3050, "copy": 2950, "triad": 2950}
        assert rates(gpu) == pytest.approx(with_host | {(what, "alone"): each for what, each in own.items()}, rel=1e-3)
        assert [each["wrong_words"] for each in gpu["data"]] == [0] * 6


def test_every_ordered_pair_of_gpus_has_its_rate(healthy):
    assert {(each["from"], each["to"]) for each in healthy["peers"]["copies"]} == {
        (one, other) for one in range(3) for other in range(3) if one != other
    }
    assert pair(healthy, 2, 0)["gb_per_s"] == pytest.approx(380, rel=1e-3)
    assert pair(healthy, 2, 0)["direct"] is True
    assert [each["wrong_words"] for each in healthy["peers"]["copies"]] == [0] * 6


def test_nvml_is_asked_for_the_link_while_the_gpu_copies(healthy):
    for gpu in healthy["gpus"]:
        for when in ("alone", "at once"):
            assert gpu["link"][when]["count"] > 0
            assert (gpu["link"][when]["link_gen"], gpu["link"][when]["link_width"]) == ([5, 5, 5], [16, 16, 16])
        assert gpu["link"]["replays"] == 0


def test_a_single_gpu_has_nobody_to_copy_with(tmp_path):
    found = copies_node.run(healthy_h100(1), tmp_path, peers="all")
    assert {when for _, when in rates(found["gpus"][0])} == {"alone"}
    assert found["peers"]["copies"] == []


def test_gpus_in_exclusive_process_mode_are_measured_too(tmp_path):
    """A GPU's own process has ended before the one of the pairs begins."""
    found = copies_node.run(healthy_h100(2).set(None, "compute_mode", 3), tmp_path, peers="all")
    assert [gpu["error"] for gpu in found["gpus"]] == ["", ""]
    assert [each["error"] for each in found["peers"]["copies"]] == ["", ""]


def test_a_ring_has_one_pair_for_each_gpu():
    assert copies.pairs_of("ring", [0, 1, 3]) == [(0, 1), (1, 3), (3, 0)]
    assert len(copies.pairs_of("all", range(8))) == 56
    assert copies.pairs_of("none", range(8)) == []


def test_a_slow_link_and_a_slow_pair_are_slow_in_the_document(tmp_path):
    scenario = healthy_h100(2).set(1, "cuda.h2d", 27).set(0, "cuda.peer.1", 190).set(1, "link_width", 8)
    found = copies_node.run(scenario, tmp_path, peers="all", seconds=3.0)
    assert rates(found["gpus"][1])["host_to_device", "alone"] == pytest.approx(27, rel=1e-3)
    assert rates(found["gpus"][0])["host_to_device", "alone"] == pytest.approx(55, rel=1e-3)
    assert found["gpus"][1]["link"]["alone"]["link_width"] == [8, 8, 8]
    assert pair(found, 0, 1)["gb_per_s"] == pytest.approx(190, rel=1e-3)
    assert pair(found, 1, 0)["gb_per_s"] == pytest.approx(380, rel=1e-3)


@pytest.mark.parametrize(
    ("planted", "value", "what", "first"),
    [
        ("corrupt.h2d", 7, "host_to_device", 7),
        ("corrupt.d2h", 7, "device_to_host", 7),
        *((f"corrupt.{kind}", 7, kind, 7) for kind in ("device", "copy", "triad")),
        ("skip.read", 1, "read", None),  # what a kernel did not read as it is shows in its sum
    ],
)
def test_a_word_that_arrives_wrong_is_found_with_its_way(tmp_path, planted, value, what, first):
    found = copies_node.run(healthy_h100(1).set(0, f"cuda.{planted}", value), tmp_path)["gpus"][0]
    (wrong,) = [each for each in found["data"] if each["wrong_words"]]
    assert (wrong["what"], wrong["wrong_words"], wrong["first_word"]) == (what, 1, first)


def pattern_test(folder, fault, value):
    scenario = healthy_h100(1).set(0, "cuda.memory", 4 << 20).set(0, fault, value)
    return copies_node.run(scenario, folder, pattern_s=30.0, kernel_size=1 << 16)["gpus"][0]["memory"]


def test_the_whole_memory_is_written_and_checked_with_every_pattern(tmp_path):
    found = pattern_test(tmp_path, "cuda.wrong", 0)
    assert found["bytes"] > 0.95 * found["total_bytes"] - 3 * (1 << 16) - (1 << 20)
    assert (found["passes"], found["wrong_words"], found["bits"], found["wrong"]) == (found["planned"], 0, 0, [])


def test_a_bit_that_is_stuck_is_found_with_its_place(tmp_path):
    found = pattern_test(tmp_path, "cuda.stuck", 9)
    assert (found["bits"], found["wrong_words"]) == (0x40, found["planned"] // 2)
    assert found["wrong"][0] == ["addresses", 36, 0, 0x40], "an odd word holds the upper half of its address"
    assert {tuple(each[1:2]) for each in found["wrong"]} == {(36,)}


def test_two_addresses_for_one_cell_are_found(tmp_path):
    found = pattern_test(tmp_path, "cuda.alias", 512)
    assert ["addresses", 2048, 2048, 0] in found["wrong"]


def test_patterns_end_with_their_time(tmp_path):
    found = copies_node.run(healthy_h100(1), tmp_path, pattern_s=0.001)["gpus"][0]["memory"]
    assert 0 <= found["passes"] < found["planned"]


def test_a_word_that_arrives_wrong_at_another_gpu_is_found(tmp_path):
    found = copies_node.run(healthy_h100(2).set(0, "cuda.corrupt.peer", 9), tmp_path, peers="all")
    assert (pair(found, 0, 1)["wrong_words"], pair(found, 0, 1)["first_word"]) == (1, 9)
    assert pair(found, 1, 0)["wrong_words"] == 0


@pytest.mark.parametrize("kind", ["h2d", "d2h", "device"])
def test_a_copy_that_does_nothing_is_no_copy(tmp_path, kind):
    found = copies_node.run(healthy_h100(1).set(0, f"cuda.idle.{kind}", 1), tmp_path)["gpus"][0]
    assert max(each["wrong_words"] for each in found["data"]) > 0


def test_gpus_in_use_are_left_alone(tmp_path):
    scenario = healthy_h100(2).set(1, "memory_used", 40 << 30)
    found = copies_node.run(scenario, tmp_path)
    assert "GPU 1 has 40.0 GiB of its memory in use" in found["refused"]
    assert [each["copies"] for each in found["gpus"]] == [[], []]


def test_gpus_that_cannot_copy_say_why_keep_what_they_had_and_stop_no_other(tmp_path):
    scenario = healthy_h100(5).set(1, "cuda.absent", 1).lose(3).set(4, "cuda.error.cuMemcpyDtoDAsync_v2", 214)
    found = copies_node.run(scenario, tmp_path, peers="all")
    assert [each["error"].partition(" (")[0] for each in found["gpus"]] == [
        "",
        "cuInit: 100 CUDA_ERROR_NO_DEVICE",
        "",
        "NVML 15: GPU is lost",
        "cuMemcpyDtoDAsync_v2: 214 CUDA_ERROR_ECC_UNCORRECTABLE",
    ]
    assert [len(each.get("copies", ())) for each in found["gpus"]] == [8, 0, 8, 0, 2]
    assert {(each["from"], each["to"]) for each in found["peers"]["copies"]} == {(0, 2), (2, 0)}


@pytest.mark.long
def test_a_gpu_that_hangs_in_its_turn_is_named_and_the_next_one_has_its_own(tmp_path):
    scenario = healthy_h100(2).set(0, "cuda.hang.cuMemcpyHtoDAsync_v2", 1)
    found = copies_node.run(scenario, tmp_path, answer_limit_s=12.0)
    assert found["gpus"][0]["error"] == "no answer within 12 s, at cuMemcpyHtoDAsync_v2"
    assert [each["what"] for each in found["gpus"][0]["copies"]] == ["device_to_host"]
    assert found["gpus"][1]["error"] == ""
    assert len(found["gpus"][1]["copies"]) == 8


def test_a_gpu_copies_both_ways_at_once_where_that_is_asked_for(tmp_path):
    found = copies_node.run(healthy_h100(1), tmp_path, both_ways=True)["gpus"][0]
    assert found["error"] == ""
    assert rates(found)["both_ways", "alone"] == pytest.approx(55, rel=1e-3), "the stand-in does one after the other"
    assert [each["wrong_words"] for each in found["data"]] == [0] * 5


def test_confidential_computing_and_virtual_machines_are_read(tmp_path):
    scenario = healthy_h100(1).system("confidential", 1).set(0, "virtualization", 1)
    link = copies_node.run(scenario, tmp_path)["gpus"][0]["link"]
    assert (link["confidential"], link["virtualization"]) == (1, 1)


def test_what_nvml_does_not_say_is_told_and_the_copies_stay(tmp_path):
    scenario = healthy_h100(1).error("nvmlSystemGetConfComputeState", 13).error("nvmlDeviceGetVirtualizationMode", 3)
    scenario = scenario.error("nvmlDeviceGetCurrPcieLinkWidth", 3)
    gpu = copies_node.run(scenario, tmp_path, seconds=3.0)["gpus"][0]
    link = gpu["link"]
    assert (link["confidential"]["why"], link["virtualization"]["why"]) == ("missing", "not supported")
    assert link["unread"]["link_width"]["why"] == "not supported"
    assert "link_width" not in link["alone"]
    assert link["alone"]["link_gen"] == [5, 5, 5]
    assert len(gpu["copies"]) == 6


def test_gpus_that_cannot_reach_each_other_say_so(tmp_path):
    found = copies_node.run(healthy_h100(2).set(1, "cuda.no_peer", 1), tmp_path, peers="all")
    assert [each["direct"] for each in found["peers"]["copies"]] == [False, False]
    assert [each["wrong_words"] for each in found["peers"]["copies"]] == [0, 0]


def test_a_pair_that_fails_leaves_the_others(tmp_path):
    scenario = healthy_h100(3).set(1, "cuda.error.cuMemcpyPeerAsync", 719)
    found = copies_node.run(scenario, tmp_path, peers="ring")
    assert pair(found, 1, 2)["error"] == "cuMemcpyPeerAsync: 719 CUDA_ERROR_LAUNCH_FAILED"
    assert pair(found, 1, 2)["begun"] is True
    assert pair(found, 0, 1)["error"] == pair(found, 2, 0)["error"] == ""


@pytest.mark.long
def test_a_pair_that_hangs_is_named_and_the_rest_is_done_by_a_new_process(tmp_path):
    scenario = healthy_h100(3).set(0, "cuda.hang.cuMemcpyPeerAsync", 1)
    found = copies_node.run(scenario, tmp_path, peers="ring", answer_limit_s=12.0)
    assert pair(found, 0, 1)["error"] == "no answer in time, at cuMemcpyPeerAsync"
    assert pair(found, 1, 2)["error"] == pair(found, 2, 0)["error"] == ""


def test_after_three_failures_no_pair_is_tried_any_more(tmp_path):
    scenario = healthy_h100(3).set(None, "cuda.error.cuMemcpyPeerAsync", 719)
    found = copies_node.run(scenario, tmp_path, peers="all")["peers"]["copies"]
    assert [each["begun"] for each in found] == [True] * 3 + [False] * 3
    assert found[-1]["error"] == "3 pairs before it failed"


def test_the_process_of_a_gpu_runs_beside_it_and_the_links_above_are_read(tmp_path):
    cpu = min(os.sched_getaffinity(0))
    devices = tmp_path / "root/sys/bus/pci/devices"
    port = tmp_path / "root/sys/devices/pci0000:18/0000:18:01.0"
    (port / "0000:1a:00.0").mkdir(parents=True)
    devices.mkdir(parents=True)
    for folder in (port, port / "0000:1a:00.0"):
        (devices / folder.name).symlink_to(folder)
    for name, value in (("current_link_speed", "8.0 GT/s PCIe"), ("max_link_speed", "8.0 GT/s PCIe")):
        (port / name).write_text(value + "\n")
    (port / "current_link_width").write_text("16\n")
    (port / "0000:1a:00.0/local_cpulist").write_text(f"{cpu}\n")
    (port / "0000:1a:00.0/numa_node").write_text("1\n")
    gpu = copies_node.run(healthy_h100(1), tmp_path, root=tmp_path / "root")["gpus"][0]
    above = [["0000:18:01.0", "8.0 GT/s PCIe", "8.0 GT/s PCIe", "16", ""]]
    assert gpu["place"] == {"cpus": str(cpu), "numa_node": "1", "above": above, "error": ""}


def test_cpus_that_may_not_be_used_are_told(tmp_path):
    folder = tmp_path / "root/sys/bus/pci/devices/0000:1a:00.0"
    folder.mkdir(parents=True)
    (folder / "local_cpulist").write_text("8190-8191\n")
    gpu = copies_node.run(healthy_h100(1), tmp_path, root=tmp_path / "root")["gpus"][0]
    assert gpu["place"]["error"].startswith("no CPU next to it may be used")
    assert len(gpu["copies"]) == 6


def test_nothing_is_left_behind_when_the_program_is_ended(tmp_path):
    scenario = healthy_h100(2).set(None, "cuda.hang.cuMemcpyHtoDAsync_v2", 1)
    variables = copies_node.environment(scenario.write(tmp_path / "scenario.conf"))
    assert nothing_is_left(copies_node.program(**copies_node.SMALL), variables, children=4)


def test_a_gpu_that_is_gone_or_stays_too_long_holds_up_nobody():
    turns = Turns(2, {steps.PREPARING: 0.05, steps.ALONE: 0.05})
    turns.wait([0, 1], steps.READY_OUT)
    turns.say(0, steps.ALONE)
    turns.wait([0], steps.READY_OUT)
    turns.say(0, steps.WAITING)
    assert turns.step(0) == steps.WAITING
    assert turns.step(1) == steps.ENDED


def test_the_whole_ends_within_its_limit_even_where_every_gpu_hangs():
    options = copying.Options(seconds=30.0)
    assert copies.limit_s(options, 8) > 8 * (2 * 3.0 + 20.0)
    assert copies.limit_s(options, 8) < 900
    assert copies.limit_s(copying.Options(seconds=5.0, peers="none"), 1) < 250
