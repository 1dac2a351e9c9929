"""The burn as it is run and read: our own program, gpu_burn where it is there, documents from hostile nodes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fleet.machine import Machine, facts_of
from support import bare, burning
from support.attempts import attempts, why_not
from support.burning import burnt, document, every_window, ran, ran_by_others, window, wire

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure import measurement
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn import run as burn
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import Inapplicable, Target, no_gpus
from nodegate.measure.program_run import not_begun
from nodegate.node import Connection, Node
from nodegate.records.program_run import ProgramRun
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.toolbox.toolbox import Tool
from nodegate.transport.local import LocalSession
from nodegate.unknown import Unknown, Why

FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_tools" / "gpu_burn"
H100 = Machine.hgx_h100()


def metric(found: burn.Burn, name: str, device: str):
    (one,) = [each for each in found.metrics if (each.name, each.device) == (name, device)]
    return one


# What a document says


def test_every_gpu_gives_its_rates_and_its_clock_power_and_temperature_under_load():
    found = burnt(H100)
    assert {each.name for each in found.metrics} == {
        "burn.bf16_tflops",
        "burn.fp32_tflops",
        "burn.fp64_tflops",
        "burn.sm_clock_mhz",
        "burn.power_w",
        "burn.temperature_c",
    }
    rate = metric(found, "burn.bf16_tflops", "GPU 3")
    assert (rate.values, rate.unit, rate.better) == ((pytest.approx(702.1),), "TFLOPS", "higher")
    assert rate.conditions["path"] == "cublas"
    assert rate.conditions["matrix"] == "8192"
    assert rate.conditions["cublas"] == "120401"
    assert metric(found, "burn.sm_clock_mhz", "GPU 3").values == (1755,)
    assert metric(found, "burn.temperature_c", "GPU 3").better == "lower"
    assert len(found.metrics) == 8 * 6


def test_the_conditions_name_no_node_so_that_slots_of_all_nodes_are_compared():
    def conditions(name: str):
        return [(each.device, each.key) for each in burnt(Machine.hgx_h100(name)).metrics]

    assert conditions("gpu0001") == conditions("gpu0002")


def test_the_warm_up_and_the_time_before_the_load_do_not_count():
    def cold_start(found):
        for each in found["gpus"][0]["samples"]["windows"]:
            if each["start_s"] < 12:
                each.update(sm_clock_mhz=[345, 345, 345], temperature_c=[30, 30, 30])

    load = burnt(H100, cold_start).runs[0].gpus[0]
    assert (load.lowest("sm_clock_mhz"), load.middle("sm_clock_mhz")) == (1700, 1755)
    assert load.highest("temperature_c") == 64
    assert load.reasons == {"sw_power_cap": 1.0}


def test_reasons_have_their_share_of_the_time():
    def brake(found):
        found["gpus"][2]["samples"]["windows"][30].update(reason_samples={"128": 3, "4": 2})

    assert burnt(H100, brake).runs[0].gpus[2].reasons["hw_power_brake_slowdown"] == pytest.approx(3 / 300)


def test_a_counter_that_goes_back_is_unknown():
    def reset(found):
        windows = found["gpus"][0]["samples"]["windows"]
        windows[10]["ecc_corrected"] = [7, 7, 7]

    assert isinstance(burnt(H100, reset).runs[0].gpus[0].growth("ecc_corrected"), Unknown)


def test_a_quantity_that_nvml_does_not_give_says_why():
    def no_memory_sensor(found):
        samples = found["gpus"][0]["samples"]
        samples["unread"] = {"memory_temperature_c": {"why": "not supported", "detail": "NVML 3"}}
        for each in samples["windows"]:
            del each["memory_temperature_c"]

    load = burnt(H100, no_memory_sensor).runs[0].gpus[0]
    assert load.middle("memory_temperature_c") == Unknown(Why.NOT_SUPPORTED, "NVML 3")


def test_a_suspect_that_is_burnt_again_has_a_value_for_each_attempt():
    slow, good = document(H100), document(H100)
    slow["gpus"][0]["phases"][0]["tflops"] = 600.0
    found = burn.parse(attempts([[ran(slow)], [ran(good)]]))
    rate = metric(found, "burn.bf16_tflops", "GPU 0")
    assert (rate.values, rate.best) == ((600.0, 700.0), 700.0)


def test_an_attempt_that_fails_is_kept_beside_one_that_worked():
    broke = not_begun(CannotMeasure("gpu01: the connection broke", next_step="look at the node"))
    found = burn.parse(attempts([[ran(document(H100))], broke]))
    assert len(found.runs) == 1
    assert [why.reason for why in found.failed] == ["gpu01: the connection broke"]


def test_rates_of_gpu_burn_have_names_of_their_own():
    found = burn.parse(
        attempts([[ran(document(H100)), ran_by_others("healthy.txt"), ran_by_others("one-device.txt", "tensor cores")]])
    )
    assert metric(found, "burn.gpu_burn_fp32_tflops", "GPU 1").values == (pytest.approx(50.816),)
    assert metric(found, "burn.gpu_burn_tensor_tflops", "GPU 3").values == (pytest.approx(611.673),)
    assert all("gpu_burn" not in each.name for each in found.rates())


# What cannot be read


def test_a_burn_that_was_refused_says_why():
    found = document(H100)
    burning.refused(found)
    assert why_not(burn.parse, [[ran(found)]]).reason == "burn not run: GPU 2 is in use by pid 4711 (python)"


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (
            ProgramRun("burn", exit_code=1, stderr="Traceback\nImportError: no pynvml\n"),
            "exit code 1: ImportError: no pynvml",
        ),
        (ProgramRun("burn", timed_out=True, duration_s=390.0), "did not end within 390 s"),
        (ProgramRun("burn", timed_out=True, duration_s=390.0, stuck=("711 python3 D",)), "still there: 711 python3 D"),
        (ProgramRun("burn", exit_code=0), "the burn sent nothing"),
        (ProgramRun("burn", exit_code=0, stdout="bash: warning"), "not send a JSON document: bash: warning"),
        (ProgramRun("burn", exit_code=0, stdout='{"schema": "nodegate.burn/9"}'), "is nodegate.burn/9, expected"),
        (ProgramRun("burn", exit_code=0, stdout=burn_document.WIRE + "AAAA\n"), "damaged"),
        (ProgramRun("burn", exit_code=0, stdout=wire(document(H100))[:2000]), "damaged|truncated"),
        (ProgramRun("burn", exit_code=0, stdout="[" * 200_000), "not send a JSON document"),
    ],
)
def test_evidence_without_a_document_says_why(left, reason):
    with pytest.raises(CannotMeasure, match=reason):
        burn.parse(attempts([[left]]))


def test_a_document_that_came_before_the_program_hung_is_read_and_the_hang_is_kept():
    hung = replace(ran(document(H100)), exit_code=None, timed_out=True, stuck=("711 python3 D",), duration_s=390.0)
    found = burn.parse(attempts([[hung]]))
    assert len(found.runs[0].gpus) == 8
    assert [why.reason for why in found.failed] == ["the burn did not end within 390 s; still there: 711 python3 D"]


def test_no_attempt_is_no_burn():
    assert why_not(burn.parse, []).reason == "no burn was run"


def test_hostile_values_become_unknown_and_never_zero():
    def nonsense(found):
        found["gpus"][0]["phases"][0].update(tflops=-4, mismatches="none", iterations=True, checksum=7)
        found["gpus"][1].update(pci="somewhere", index=-1, samples="none", phases={"bf16": 1})
        found["gpus"][2]["samples"]["windows"] = [{"start_s": "x"}, {"count": -3, "load": 99}, 7, window(5.0)]

    first, second, third, *_ = burnt(H100, nonsense).runs[0].gpus
    assert isinstance(first.phases[0].tflops, Unknown)
    assert isinstance(first.phases[0].mismatches, Unknown)
    assert (second.index, second.phases, second.settled) == (1, (), ())
    assert isinstance(second.middle("power_w"), Unknown)
    assert third.middle("power_w") == 698


# How it is run


class Tools:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def has(self, names):
        return frozenset(names) if self.folder else frozenset()

    def cublas(self):
        return CublasPlaces()

    def find(self, *names):
        return Tool("gpu_burn", (str(self.folder / "gpu_burn"),), "a folder of the test")


def target(folder: Path | None, seconds: float, session=None) -> Target:
    node = Node("gpu01", Connection(transport="local"))
    durations = Durations(burn_s=seconds, copies_s=1.0, link_s=1.0, collective_s=1.0, group_s=1.0)
    return Target(node, session or LocalSession(node), facts_of(H100), Tools(folder), durations)


@pytest.fixture
def own_program(monkeypatch):
    """In place of our program, which needs a GPU, one that prints what it would."""
    text = wire(document(H100))
    monkeypatch.setattr(burn, "_program", lambda seconds, **_: f"print({text!r})".encode())


@pytest.fixture
def tool(tmp_path):
    folder = tmp_path / "gpu burn's folder"
    folder.mkdir()
    shutil.copy(FAKE, folder)
    (folder / "compare.fatbin").touch()
    return folder


def test_a_long_burn_is_followed_by_gpu_burn_in_both_precisions_in_its_own_folder(own_program, tool):
    (tool / "gpu_burn.json").write_text(json.dumps({"wrong": {"3": 5}}))
    where = target(tool, 600.0)
    rans = burn.burn_of(where)
    where.session.close()
    assert [(each.what, each.plan.mode) for each in rans] == [
        ("burn", ""),
        ("gpu_burn", "tensor cores"),
        ("gpu_burn", "fp32"),
    ]
    assert "Burning for 120 seconds" in rans[1].stdout
    assert "CUDA_DEVICE_ORDER is PCI_BUS_ID" in rans[1].stdout
    assert [each.exit_code for each in rans] == [0, 0, 0], "gpu_burn says 0 with a faulty GPU too"
    found = burn.parse(attempts([rans]))
    tensor, plain = (other.found for other in found.others)
    assert (tensor.tensor_cores, plain.tensor_cores) == (True, False)
    assert [gpu.errors for gpu in plain.gpus] == [0, 0, 0, 5, 0, 0, 0, 0]
    assert metric(found, "burn.gpu_burn_fp32_tflops", "GPU 1").values == (pytest.approx(51.001),)


def test_a_link_to_gpu_burn_is_followed_to_the_folder_of_its_kernel(own_program, tool, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gpu_burn").symlink_to(tool / "gpu_burn")
    where = target(tmp_path / "bin", 600.0)
    found = burn.parse(attempts([burn.burn_of(where)]))
    where.session.close()
    assert [len(other.found.gpus) for other in found.others] == [8, 8]


@pytest.mark.parametrize(("seconds", "installed"), [(60.0, True), (600.0, False)])
def test_a_short_burn_and_a_node_without_gpu_burn_are_burnt_by_us_alone(own_program, tool, seconds, installed):
    where = target(tool if installed else None, seconds)
    rans = burn.burn_of(where)
    where.session.close()
    assert [each.what for each in rans] == ["burn"]
    assert burn.parse(attempts([rans])).others == ()


def test_gpu_burn_runs_long_enough_for_its_reports_and_never_for_hours():
    assert [burn.other_seconds(each) for each in (60.0, 300.0, 600.0, 86400.0)] == [0.0, 120.0, 120.0, 300.0]


def test_a_node_that_breaks_away_within_gpu_burn_keeps_the_burn_before_it(own_program, tool):
    real = LocalSession(Node("gpu01", Connection(transport="local")))

    def run(argv, **limits):
        if "sh" in argv:
            raise Unreachable("dropped", "gpu01: the connection broke", next_step="look at the node")
        return real.run(argv, **limits)

    rans = burn.burn_of(target(tool, 600.0, SimpleNamespace(run=run)))
    real.close()
    found = burn.parse(attempts([rans]))
    assert len(found.runs) == 1
    assert [str(other.found.reason) for other in found.others] == ["gpu01: the connection broke"]


def test_the_program_that_is_sent_says_what_it_does_and_carries_its_options():
    program = burn._program(600.0).decode()
    assert program.startswith("# nodegate: burns every GPU for 600 s")
    assert '"seconds": 600.0' in program
    assert sum(share for _, share in burn.PHASES) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("found", "options"),
    [
        (CublasPlaces(), {"places": [], "not_brought": ""}),
        (CublasPlaces(own_kernels=True), {"path": "ptx"}),
        (
            CublasPlaces((("nodegate_cublas", "/sw/cuda"),), not_brought="no room"),
            {"places": [["nodegate_cublas", "/sw/cuda"]], "not_brought": "no room"},
        ),
    ],
)
def test_the_program_is_told_where_cublas_is(found, options):
    tools = SimpleNamespace(cublas=lambda: found)
    assert burn._cublas(replace(target(None, 1.0, object()), tools=tools)) == options


def test_the_real_program_on_a_machine_without_driver_says_that_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bare.libraries(tmp_path / "libraries")))
    where = target(None, 1.0)
    rans = burn.burn_of(where)
    where.session.close()
    assert rans[0].exit_code == 0, rans[0].stderr
    assert why_not(burn.parse, [rans]).reason.startswith("burn not run: NVML")


def test_a_node_without_gpus_is_not_burnt():
    none = Machine.hgx_h100()
    none.set("nvml", "gpus", [])
    assert no_gpus(facts_of(none)) == Inapplicable("no NVIDIA GPU")
    assert no_gpus(facts_of(H100)) is None
    silent = Machine.hgx_h100()
    silent.section_fails("nvml", "timeout", "10 s")
    silent.section_fails("nvidia_smi", "timeout", "10 s")
    assert no_gpus(facts_of(silent)) is None, "the burn itself says what is wrong"


def test_the_measurement_reads_its_own_evidence():
    evidence = measurement.document("burn", attempts([[ran(document(H100))]]))
    assert len(burn.BURN.of_document(evidence).metrics) == 48


def test_windows_of_a_gpu_that_was_not_computing_do_not_count():
    def late(found):
        every_window(found, 0, load=0)

    assert burnt(H100, late).runs[0].gpus[0].settled == ()
