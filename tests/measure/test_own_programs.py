"""The burn and the copies as they are run: our own program, another's beside it, and what cannot be read of ours."""

import json
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fleet.machine import Machine, facts_of
from support import bare, burning, copies_node
from support import copies as copying
from support.attempts import attempts, why_not
from support.tool_folder import ToolFolder

from lab.nvml.scenario import healthy_h100
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure import own_program
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn import run as burn
from nodegate.measure.copies import document as copies_document
from nodegate.measure.copies import result as copies_result
from nodegate.measure.copies import run as copies_run
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.measurement import Inapplicable, Measurement, Target, no_gpus
from nodegate.measure.program_run import MAX_KEPT, not_begun
from nodegate.node import Connection, Node
from nodegate.node_side.load.copying import Options
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.tools.nvbandwidth import NvBandwidth
from nodegate.transport.command import CommandSession
from nodegate.unknown import Unknown

TOOLS = Path(__file__).resolve().parents[1] / "support" / "fake_tools"
H100 = Machine.hgx_h100()
DELIVERY, NIGHTLY = OF_PROFILE[Profile.DELIVERY], OF_PROFILE[Profile.NIGHTLY]
BOOTCHECK = OF_PROFILE[Profile.BOOTCHECK]


@dataclass(frozen=True)
class Own:
    """One of our programs: what is made for tests, the measurement, and the program by others beside it."""

    name: str
    made: Any
    measurement: Measurement
    mark: str
    beside: str
    numbers: int

    def good(self):
        return self.made.ran(self.made.document(H100))

    def runs(self, where):
        (attempt,) = self.measurement.measure([where], SimpleNamespace(at_once=done)).values()
        where.session.close()
        return attempt.runs


def done(jobs):
    return {name: job() for name, job in jobs.items()}


OWN = (
    Own("burn", burning, burn.BURN, burn_document.WIRE, "gpu_burn", 48),
    Own("copies", copying, copies_run.COPIES, copies_document.WIRE, "nvbandwidth", 80),
)
EACH = pytest.mark.parametrize("own", OWN, ids=lambda own: own.name)


def target(folder, durations=DELIVERY, session=None):
    node = Node("gpu01", Connection(transport="local"))
    return Target(node, session or CommandSession(node), facts_of(H100), ToolFolder(folder), durations)


@pytest.fixture
def own_programs(monkeypatch):
    """In place of our programs, which need a GPU, some that print what they would."""
    texts = {own.name: own.good().stdout for own in OWN}
    monkeypatch.setattr(own_program, "program", lambda name, **_: f"print({texts[name]!r})".encode())


@pytest.fixture
def folder(tmp_path):
    """Where the programs by others are, each with what it needs beside it."""
    made = tmp_path / "a folder's name"
    made.mkdir()
    for own in OWN:
        shutil.copy(TOOLS / own.beside, made)
    (made / "compare.fatbin").touch()
    return made


@pytest.mark.usefixtures("own_programs")
def test_a_long_burn_is_followed_by_gpu_burn_in_both_precisions_in_its_own_folder(folder):
    (folder / "gpu_burn.json").write_text(json.dumps({"wrong": {"3": 5}}))
    rans = OWN[0].runs(target(folder))
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
    assert found.named("burn.gpu_burn_fp32_tflops")[1].values == (pytest.approx(51.001),)


@pytest.mark.usefixtures("own_programs")
def test_a_link_to_gpu_burn_is_followed_to_the_folder_of_its_kernel(folder, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gpu_burn").symlink_to(folder / "gpu_burn")
    found = burn.parse(attempts([OWN[0].runs(target(tmp_path / "bin"))]))
    assert [len(other.found.gpus) for other in found.others] == [8, 8]


@pytest.mark.usefixtures("own_programs")
def test_at_a_delivery_nvbandwidth_runs_after_our_own_program(folder):
    (folder / "nvbandwidth.json").write_text(json.dumps({"slow": {"3": 0.5}}))
    rans = OWN[1].runs(target(folder))
    assert [each.what for each in rans] == ["copies", "nvbandwidth"]
    assert rans[1].argv[:2] == ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
    found = copies_result.parse(attempts([rans]))
    assert isinstance(found.others[0], NvBandwidth)
    assert found.named(copies_result.TO_DEVICE, "nvbandwidth")[3].best == pytest.approx(27.8)
    assert found.named(copies_result.PEER, "nvbandwidth")[0].best == pytest.approx(198.05)


@EACH
@pytest.mark.parametrize(("durations", "installed"), [(NIGHTLY, True), (DELIVERY, False)])
@pytest.mark.usefixtures("own_programs")
def test_in_a_short_run_and_on_a_node_without_the_other_program_ours_runs_alone(own, folder, durations, installed):
    rans = own.runs(target(folder if installed else None, durations))
    assert [each.what for each in rans] == [own.name]
    assert own.measurement.parse(attempts([rans])).others == ()


@EACH
@pytest.mark.usefixtures("own_programs")
def test_a_node_that_breaks_away_within_the_other_program_keeps_what_ours_gave(own, folder):
    real = CommandSession(Node("gpu01", Connection(transport="local")))

    def run(argv, **limits):
        if {"sh", "env"} & set(argv):
            raise Unreachable("dropped", "gpu01: the connection broke", next_step="look at the node")
        return real.run(argv, **limits)

    rans = own.runs(target(folder, session=SimpleNamespace(run=run, close=real.close)))
    found = own.measurement.parse(attempts([rans]))
    assert len(found.runs) == 1
    (why,) = (getattr(other, "found", other) for other in found.others)
    assert str(why.reason) == "gpu01: the connection broke"


@pytest.mark.parametrize(
    ("own", "durations", "begin", "options"),
    [
        (OWN[0], DELIVERY, "burns every GPU for 600 s", {"seconds": 600.0, "places": [], "not_brought": ""}),
        (OWN[1], DELIVERY, "copies to, from and between the GPUs", {"seconds": 30.0, "peers": "all"}),
        (OWN[1], NIGHTLY, "copies to", {"peers": "ring"}),
        (OWN[1], BOOTCHECK, "copies to", {"peers": "none"}),
    ],
)
def test_the_program_that_is_sent_says_what_it_does_and_carries_its_options(own, durations, begin, options):
    sent = []

    def run(argv, **limits):
        sent.append(limits["stdin"].decode())
        raise Unreachable("dropped", "enough", next_step="go on")

    with pytest.raises(Unreachable):
        own.runs(target(None, durations, SimpleNamespace(run=run)))
    assert sent[0].startswith(f"# nodegate: {begin}")
    assert all(f"{json.dumps(name)}: {json.dumps(value)}" in sent[0] for name, value in options.items())


@EACH
def test_the_real_program_on_a_machine_without_driver_says_that_there_is_none(own, monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bare.libraries(tmp_path / "libraries")))
    rans = own.runs(target(None, BOOTCHECK))
    assert rans[0].exit_code == 0, rans[0].stderr
    said = why_not(own.measurement.parse, [rans])
    assert said.reason.startswith(f"{own.name} not run: NVML")
    assert "no driver" in said.next_step


@pytest.mark.long
def test_the_real_copies_over_a_session_give_metrics_of_every_gpu(monkeypatch, tmp_path):
    for name, value in copies_node.environment(healthy_h100(2).write(tmp_path / "scenario.conf")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(copies_run, "options_for", lambda _: Options(seconds=1.0, size=1 << 18, peers="ring"))
    rans = OWN[1].runs(target(None, BOOTCHECK))
    assert rans[0].exit_code == 0
    found = copies_result.parse(attempts([rans]))
    assert found.named(copies_result.TO_DEVICE)[1].best == pytest.approx(55, rel=1e-3)
    assert found.named(copies_result.DEVICE)[1].best == pytest.approx(2500, rel=1e-3)
    assert found.named(copies_result.PEER)[0].best == pytest.approx(380, rel=1e-3)


def test_gpu_burn_runs_long_enough_for_its_reports_and_never_for_hours():
    assert [burn.other_seconds(each) for each in (60.0, 300.0, 600.0, 86400.0)] == [0.0, 120.0, 120.0, 300.0]
    assert sum(share for _, share in burn.PHASES) == pytest.approx(1.0)


def test_the_copies_take_less_than_two_minutes_at_a_delivery():
    assert 60 < copies_run.takes_s(DELIVERY) < 120
    assert copies_run.takes_s(BOOTCHECK) < 30


NAMED = {"places": [["nodegate_cublas", "/sw/cuda"]], "not_brought": "no room"}


@pytest.mark.parametrize(
    ("found", "options"),
    [
        (CublasPlaces(own_kernels=True), {"path": "ptx"}),
        (CublasPlaces((("nodegate_cublas", "/sw/cuda"),), not_brought="no room"), NAMED),
    ],
)
def test_the_burn_is_told_where_cublas_is(found, options):
    assert burn._cublas(SimpleNamespace(tools=SimpleNamespace(cublas=lambda: found))) == options


def test_a_node_without_gpus_is_not_measured():
    none, silent = Machine.hgx_h100(), Machine.hgx_h100()
    none.set("nvml", "gpus", [])
    assert no_gpus(facts_of(none)) == Inapplicable("no NVIDIA GPU")
    assert no_gpus(facts_of(H100)) is None
    for section in ("nvml", "nvidia_smi"):
        silent.section_fails(section, "timeout", "10 s")
    assert no_gpus(facts_of(silent)) is None, "the measurement itself says what is wrong"


@EACH
def test_an_attempt_that_fails_is_kept_beside_one_that_worked(own):
    broke = not_begun(CannotMeasure("gpu01: the connection broke", next_step="look at the node"))
    found = own.measurement.parse(attempts([[own.good()], broke]))
    assert len(found.runs) == 1
    assert [why.reason for why in found.failed] == ["gpu01: the connection broke"]


@EACH
def test_what_was_refused_says_why(own):
    found = own.made.document(H100) | {"refused": "GPU 2 is in use by pid 4711 (python)"}
    said = why_not(own.measurement.parse, [[own.made.ran(found)]])
    assert said.reason == f"{own.name} not run: GPU 2 is in use by pid 4711 (python)"


FAILED, HUNG = partial(ProgramRun, exit_code=1), partial(ProgramRun, timed_out=True, duration_s=390.0)
SENT = partial(ProgramRun, exit_code=0)


@EACH
@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (partial(FAILED, stderr="Traceback\nImportError: no pynvml\n"), "exit code 1: ImportError: no pynvml"),
        (HUNG, "did not end within 390 s"),
        (partial(HUNG, stuck=("711 python3 D",)), "still there: 711 python3 D"),
        (SENT, "sent nothing"),
        (partial(SENT, stdout="bash: warning"), "not send a JSON document: bash: warning"),
        (partial(SENT, stdout='{"schema": "nodegate.NAME/9"}'), "is nodegate.NAME/9, expected nodegate.NAME/1"),
        (partial(SENT, stdout='{"schema": "nodegate.NAME/1", "gpus": [], "phases": []}'), "has no GPU"),
        (partial(SENT, stdout="MARK"), "truncated"),
        (partial(SENT, stdout="MARKAAAA\n"), "damaged"),
        (partial(SENT, stdout="CUT"), "damaged|truncated"),
        (partial(SENT, stdout="[" * 200_000), "not send a JSON document"),
    ],
)
def test_evidence_without_a_document_says_why(own, left, reason):
    words = {"CUT": own.good().stdout[:1200], "MARK": own.mark, "NAME": own.name}
    stdout = left(own.name).stdout
    for word, text in words.items():
        stdout, reason = stdout.replace(word, text), reason.replace(word, text)
    with pytest.raises(CannotMeasure, match=reason):
        own.measurement.parse(attempts([[left(own.name, stdout=stdout)]]))


@pytest.mark.parametrize(("own", "said"), [(OWN[0], "no burn was run"), (OWN[1], "copies not run")])
def test_no_attempt_is_no_measurement(own, said):
    assert why_not(own.measurement.parse, []).reason == said


def test_the_warm_up_and_windows_of_a_gpu_that_was_not_computing_do_not_count():
    def cold_start(found):
        for each in found["gpus"][0]["samples"]["windows"]:
            if each["start_s"] < 12:
                each.update(sm_clock_mhz=[345, 345, 345], temperature_c=[30, 30, 30])
        burning.every_window(found, 1, load=0)

    warm, idle, *_ = burning.burnt(H100, cold_start).runs[0].gpus
    assert (warm.middle("sm_clock_mhz"), warm.highest("temperature_c")) == (1755, 64)
    assert warm.reasons == {"sw_power_cap": 1.0}
    assert idle.settled == ()


def test_a_burn_that_came_before_the_program_hung_is_read_and_the_hang_is_kept():
    good = OWN[0].good()
    hung = replace(good, exit_code=None, timed_out=True, stuck=("711 python3 D",), duration_s=390.0)
    found = burn.parse(attempts([[hung]]))
    assert len(found.runs[0].gpus) == 8
    assert [why.reason for why in found.failed] == ["the burn did not end within 390 s; still there: 711 python3 D"]


def test_hostile_values_of_a_burn_become_unknown_and_never_zero():
    def nonsense(found):
        found["gpus"][0]["phases"][0].update(tflops=-4, mismatches="none", iterations=True, checksum=7)
        found["gpus"][1].update(pci="somewhere", index=-1, samples="none", phases={"bf16": 1})
        windows = [{"start_s": "x"}, {"count": -3, "load": 99}, 7, burning.window(5.0)]
        found["gpus"][2]["samples"]["windows"] = windows

    first, second, third, *_ = burning.burnt(H100, nonsense).runs[0].gpus
    assert are_unknown(first.phases[0].tflops, first.phases[0].mismatches, second.middle("power_w"))
    assert (second.index, second.phases, second.settled) == (1, (), ())
    assert third.middle("power_w") == 698


def test_hostile_values_of_copies_become_unknown_and_never_zero():
    def nonsense(found):
        found["gpus"][0]["copies"][0].update(gb_per_s=-4, lowest="x", what=[], when={})
        found["gpus"][0]["copies"][1].update(gb_per_s=1e300)
        found["gpus"][0]["memory"].update(bytes=-1, passes="x", wrong=[7, ["a", 1, 2], ["a", -1, 2, 3], ["b", 1, 2, 3]])
        found["gpus"][1]["memory"] = "all"
        found["gpus"][0]["data"][0].update(wrong_words=-1, bytes="many", first_word="x")
        found["gpus"][1].update(pci="somewhere", index=-1, copies="none", data=7, link=[], place=3)
        found["gpus"][2]["link"][copying.ALONE]["link_gen"] = [5, "x", 5]
        found["peers"]["copies"][0].update({"from": "x"})
        found["peers"]["copies"][1].update(gb_per_s="fast", direct="yes")

    found = copying.copied(nonsense)
    first, second, third, *_ = found.runs[0].gpus
    assert are_unknown(*(each.gb_per_s for each in first.copies[:2]), first.data[0].wrong_words)
    assert are_unknown(first.memory.bytes, first.memory.passes, third.links[copying.ALONE].gen)
    assert [str(each) for each in first.memory.wrong] == ["byte 0x1 held 0x00000003 for 0x00000002"]
    assert (second.memory, second.index, second.copies, second.data) == (None, 1, (), ())
    assert (0, 1) not in found.pairs
    assert found.best((0, 2)) is None


def are_unknown(*values):
    return all(isinstance(value, Unknown) for value in values)


def test_nvbandwidth_that_does_not_end_or_start_says_so():
    left = ProgramRun("nvbandwidth", timed_out=True, duration_s=300.0)
    found = copying.copied(lambda _: None, left, copying.ran_by_others("no-cuda.json"))
    reasons = [other.reason for other in found.others if isinstance(other, CannotMeasure)]
    assert reasons[0] == "nvbandwidth did not end within 300 s"
    assert "SYSTEM_NOT_READY" in reasons[1]


def test_the_copies_of_the_largest_node_are_kept_whole():
    found = copying.document(H100)
    found["gpus"] *= 8
    pairs = found["peers"]["copies"]
    found["peers"]["copies"] = [dict(pairs[at % 56], gb_per_s=300 + at * 0.0377) for at in range(64 * 63)]
    assert len(copying.wire(found)) < MAX_KEPT
