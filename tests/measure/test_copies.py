"""Copies as they are run and read: our own program, nvbandwidth where it is there, documents from hostile nodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fleet.machine import Machine, facts_of
from support import bare, copies_node
from support.attempts import attempts, why_not
from support.copies import (
    PEER,
    copied,
    document,
    each_pair_of,
    of_gpu,
    pair,
    ran,
    ran_by_others,
    rate,
    together,
    wire,
)

from lab.nvml.scenario import healthy_h100
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure import measurement
from nodegate.measure.copies import document as copies_document
from nodegate.measure.copies import result as copies_result
from nodegate.measure.copies import run as copies
from nodegate.measure.copies.document import ALONE
from nodegate.measure.copies.result import TO_DEVICE, TO_HOST
from nodegate.measure.durations import OF_PROFILE, Durations
from nodegate.measure.measurement import Inapplicable, Target, no_gpus
from nodegate.measure.program_run import MAX_KEPT, not_begun
from nodegate.metric import Metric
from nodegate.node import Connection, Node
from nodegate.node_side.load.copies import Options
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun
from nodegate.toolbox.toolbox import Tool
from nodegate.tools.nvbandwidth import NvBandwidth
from nodegate.transport.local import LocalSession
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
    assert copied().ran_kernels
    assert not copied(lambda found: found.pop("kernel_bytes")).ran_kernels


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


def test_the_conditions_name_no_node_so_that_slots_of_all_nodes_are_compared():
    def keys(name: str):
        return [
            (each.device, each.key)
            for each in copies_result.parse(attempts([[ran(document(Machine.hgx_h100(name)))]])).metrics
        ]

    assert keys("gpu0001") == keys("gpu0002")


def test_host_memory_on_another_numa_node_is_another_condition():
    found = copied(of_gpu(3, place={"cpus": "0-7", "numa_node": "0", "error": "no CPU next to it may be used"}))
    assert metric(found, TO_DEVICE, "GPU 3").key != metric(found, TO_DEVICE, "GPU 2").key


def test_a_suspect_that_is_measured_again_has_a_value_for_each_attempt():
    slow, good = document(H100), document(H100)
    rate("host_to_device", 27.0, gpu=0)(slow)
    found = copies_result.parse(attempts([[ran(slow)], [ran(good)]]))
    assert metric(found, TO_DEVICE, "GPU 0").values == (27.0, 55.4)
    assert len(found.gpus[0]) == 2


def test_an_attempt_that_fails_is_kept_beside_one_that_worked():
    broke = not_begun(CannotMeasure("gpu01: the connection broke", next_step="look at the node"))
    found = copies_result.parse(attempts([[ran(document(H100))], broke]))
    assert len(found.runs) == 1
    assert [why.reason for why in found.failed] == ["gpu01: the connection broke"]


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


def test_copies_that_were_refused_say_why():
    found = document(H100)
    found["refused"] = "GPU 2 is in use by process 4711 (python)"
    assert (
        why_not(copies_result.parse, [[ran(found)]]).reason
        == "copies not run: GPU 2 is in use by process 4711 (python)"
    )


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (
            ProgramRun("copies", exit_code=1, stderr="Traceback\nImportError: no pynvml\n"),
            "code 1: ImportError: no pynvml",
        ),
        (ProgramRun("copies", timed_out=True, duration_s=390.0), "did not end within 390 s"),
        (
            ProgramRun("copies", timed_out=True, duration_s=390.0, stuck=("711 python3 D",)),
            "still there: 711 python3 D",
        ),
        (ProgramRun("copies", exit_code=0), "sent nothing"),
        (ProgramRun("copies", exit_code=0, stdout="bash: warning"), "not send a JSON document: bash: warning"),
        (ProgramRun("copies", exit_code=0, stdout='{"schema": "nodegate.copies/9"}'), "is nodegate.copies/9, expected"),
        (ProgramRun("copies", exit_code=0, stdout='{"schema": "nodegate.copies/1", "gpus": []}'), "no GPU in it"),
        (ProgramRun("copies", exit_code=0, stdout=copies_document.WIRE), "truncated"),
        (ProgramRun("copies", exit_code=0, stdout=copies_document.WIRE + "AAAA\n"), "damaged"),
        (ProgramRun("copies", exit_code=0, stdout=wire(document(H100))[:1200]), "damaged|truncated"),
        (ProgramRun("copies", exit_code=0, stdout="[" * 200_000), "not send a JSON document"),
    ],
)
def test_evidence_without_a_document_says_why(left, reason):
    with pytest.raises(CannotMeasure, match=reason):
        copies_result.parse(attempts([[left]]))


def test_no_attempt_is_no_measurement():
    assert why_not(copies_result.parse, []).reason == "copies not run"


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


# How it is run


class Tools:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def has(self, names):
        return frozenset(names) if self.folder else frozenset()

    def find(self, *names):
        return Tool("nvbandwidth", (str(self.folder / "nvbandwidth"),), "a folder of the test")


def target(folder: Path | None, durations: Durations, session=None) -> Target:
    node = Node("gpu01", Connection(transport="local"))
    return Target(node, session or LocalSession(node), facts_of(H100), Tools(folder), durations)


@pytest.fixture
def own_program(monkeypatch):
    """In place of our program, which needs a GPU, one that prints what it would."""
    text = wire(document(H100))
    monkeypatch.setattr(copies, "_program", lambda options: f"print({text!r})".encode())


@pytest.fixture
def tool(tmp_path):
    shutil.copy(FAKE, tmp_path)
    return tmp_path


def test_the_real_program_over_a_session_gives_metrics_of_every_gpu(monkeypatch, tmp_path):
    for name, value in copies_node.environment(healthy_h100(2).write(tmp_path / "scenario.conf")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(copies, "options_for", lambda durations: Options(seconds=1.0, size=1 << 18, peers="ring"))
    where = target(None, BOOTCHECK)
    rans = copies.copies_of(where)
    where.session.close()
    found = copies_result.parse(attempts([rans]))
    assert metric(found, TO_DEVICE, "GPU 1").best == pytest.approx(55, rel=1e-3)
    assert metric(found, copies_result.DEVICE, "GPU 1").best == pytest.approx(2500, rel=1e-3)
    assert metric(found, copies_result.PEER, "GPU 0").best == pytest.approx(380, rel=1e-3)
    assert rans[0].exit_code == 0


def test_on_a_node_without_driver_the_next_step_names_the_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bare.libraries(tmp_path / "libraries")))
    where = target(None, BOOTCHECK)
    rans = copies.copies_of(where)
    where.session.close()
    assert rans[0].exit_code == 0, rans[0].stderr
    said = why_not(copies_result.parse, [rans])
    assert said.reason.startswith("copies not run: NVML")
    assert "no driver" in said.next_step


def test_at_a_delivery_nvbandwidth_runs_after_our_own_program(own_program, tool):
    (tool / "nvbandwidth.json").write_text(json.dumps({"slow": {"3": 0.5}}))
    where = target(tool, DELIVERY)
    rans = copies.copies_of(where)
    where.session.close()
    assert [each.what for each in rans] == ["copies", "nvbandwidth"]
    assert rans[1].argv[:2] == ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
    found = copies_result.parse(attempts([rans]))
    assert isinstance(found.others[0], NvBandwidth)
    assert metric(found, TO_DEVICE, "GPU 3", "nvbandwidth").best == pytest.approx(27.8)
    assert metric(found, copies_result.PEER, "GPU 0", "nvbandwidth").best == pytest.approx(198.05)


@pytest.mark.parametrize(("durations", "installed"), [(BOOTCHECK, True), (DELIVERY, False)])
def test_a_short_run_and_a_node_without_nvbandwidth_are_measured_by_us_alone(own_program, tool, durations, installed):
    where = target(tool if installed else None, durations)
    rans = copies.copies_of(where)
    where.session.close()
    assert [each.what for each in rans] == ["copies"]
    assert copies_result.parse(attempts([rans])).others == ()


def test_a_node_that_breaks_away_within_nvbandwidth_keeps_the_copies_before_it(own_program, tool):
    real = LocalSession(Node("gpu01", Connection(transport="local")))

    def run(argv, **limits):
        if "env" in argv:
            raise Unreachable("dropped", "gpu01: the connection broke", next_step="look at the node")
        return real.run(argv, **limits)

    rans = copies.copies_of(target(tool, DELIVERY, SimpleNamespace(run=run)))
    real.close()
    found = copies_result.parse(attempts([rans]))
    assert len(found.runs) == 1
    assert [str(other.reason) for other in found.others] == ["gpu01: the connection broke"]


def test_every_pair_is_copied_at_a_delivery_a_ring_at_night_and_none_at_boot():
    assert [copies.options_for(OF_PROFILE[each]).peers for each in Profile] == [
        {Profile.DELIVERY: "all", Profile.BOOTCHECK: "none"}.get(each, "ring") for each in Profile
    ]


def test_the_program_that_is_sent_says_what_it_does_and_carries_its_options():
    program = copies._program(copies.options_for(DELIVERY)._asdict()).decode()
    assert program.startswith("# nodegate: copies to, from and between the GPUs")
    assert '"peers": "all"' in program
    assert '"seconds": 30.0' in program


def test_a_node_without_gpus_copies_nothing():
    none = Machine.hgx_h100()
    none.set("nvml", "gpus", [])
    assert no_gpus(facts_of(none)) == Inapplicable("no NVIDIA GPU")
    assert no_gpus(facts_of(H100)) is None
    silent = Machine.hgx_h100()
    silent.section_fails("nvml", "timeout", "10 s")
    silent.section_fails("nvidia_smi", "timeout", "10 s")
    assert no_gpus(facts_of(silent)) is None, "the copies themselves say what is wrong"


def test_the_measurement_reads_its_own_evidence():
    evidence = measurement.document("gpu_copies", attempts([[ran(document(H100))]]))
    assert len(copies.COPIES.of_document(evidence).metrics) == 80
    assert (copies.COPIES.name, copies.COPIES.stage) == ("gpu_copies", "gpu")


def test_it_takes_less_than_two_minutes_at_a_delivery():
    assert 60 < copies.takes_s(DELIVERY) < 120
    assert copies.takes_s(BOOTCHECK) < 30
