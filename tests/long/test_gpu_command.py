"""`make gpu`: every step on stand-ins for NVIDIA's libraries, and that each step notices what it is there for."""

import json
import subprocess

import pytest
from support import gpu_stand_in

from lab.gpu import pynvml_here
from lab.gpu.command import NO_GPU
from lab.gpu.machine import Seen
from lab.gpu.recording import parsed
from lab.nvml.scenario import healthy_h100

BOARD = "2 x NVIDIA H100 80GB HBM3"
ALL = ["probe", "own kernels", "cublas", "copies", "busy", "killed", "deserted", "physics"]


def board(gpus=2):
    """GPUs whose pairs are as fast as an HGX board of four allows; NVML lists who uses them."""
    return healthy_h100(gpus).set(None, "processes.own", 1).set(None, "cuda.peer", 140)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return gpu_stand_in.run(tmp_path_factory.mktemp("whole"), board(), "--keep")


def test_a_machine_without_a_gpu_says_so_and_is_no_failure(tmp_path):
    done = gpu_stand_in.run(tmp_path, None)
    assert done.code == 0
    assert NO_GPU in done.said
    assert not (tmp_path / "reports").exists()


def test_make_gpu_is_this_command():
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "gpu", "FULL=1", "KEEP=1"],
        cwd=gpu_stand_in.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-5:] == ["-m", "lab", "gpu", "--full", "--keep"]


def test_every_step_holds_on_good_boards(whole):
    assert (whole.code, whole.complained) == (0, "")
    assert {each["step"]: each["verdict"] for each in whole.report["steps"]} == dict.fromkeys(ALL, "held")
    assert all(each["claims"] for each in whole.report["steps"])
    assert f"gpu: {BOARD}: all that was run held" in whole.said


def test_the_report_says_what_was_found_and_what_is_expected(whole):
    report = whole.report
    assert (report["board"], report["machine"]["driver"]) == (BOARD, "550.163.01")
    rates = {(each["metric"], each["device"]): each for each in report["numbers"]}
    to_host = rates["memory.device_to_host_gb_per_s", "GPU 0"]
    assert (to_host["values"], to_host["unit"], to_host["remark"]) == ([pytest.approx(55, rel=1e-3)], "GB/s", "within")
    assert to_host["limit"] < 55 < to_host["peak"]
    assert to_host["source"]
    slow = rates["burn.bf16_tflops", "GPU 1"]
    assert (slow["remark"], slow["peak"]) == ("beyond the limit", 989)
    assert "burn.bf16_tflops" in whole.said


def test_the_recording_holds_what_was_printed_without_names(whole):
    (folder,) = (whole.folder / "recordings").iterdir()
    assert {each.stem for each in folder.iterdir()} == {"facts", "burn-own", "burn-cublas", "copies", "parsed"}
    text = "".join(each.read_text() for each in folder.iterdir())
    assert "GPU-00000000-0000-4000-8000" not in text
    assert "1650000123000001" not in text
    assert "NVIDIA H100 80GB HBM3" in text
    facts = json.loads((folder / "facts.json").read_text())
    assert not {"environment", "jobs", "system", "kernel_log", "mounts"} & set(facts["sections"])
    made = json.loads((folder / "parsed.json").read_text())
    assert made == parsed(folder)
    assert made["facts"]["gpus"] == "parsed: Gpus"
    assert {each["metric"] for each in made["numbers"]} >= {"burn.bf16_tflops", "memory.peer_gb_per_s"}


def test_the_standard_library_is_enough(tmp_path):
    done = gpu_stand_in.run(tmp_path, board(1), "--only", "own kernels", bare=True)
    assert (done.code, done.complained) == (0, "")
    assert done.step("own kernels")["verdict"] == "held"
    assert {each["limit"] for each in done.report["numbers"]} == {None}
    assert "no PyYAML" in done.said


def test_without_cublas_that_step_is_not_done_and_says_so(tmp_path):
    done = gpu_stand_in.run(tmp_path, board(1), "--only", "cublas", blas=False)
    assert done.step("cublas")["verdict"] == "not done"
    assert done.said.splitlines()[-1] == "gpu: NVIDIA H100 80GB HBM3: all that was run held; not done: cublas, physics"


@pytest.mark.parametrize(
    ("scenario", "step", "said"),
    [
        (board(1).set(0, "cuda.flip", 12), "own kernels", "no word of any product differs from the first"),
        (board(2).set(1, "cuda.wrong", 1), "own kernels", "all GPUs of a model gave the same bits"),
        (board(1).set(0, "cuda.corrupt.h2d", 7), "copies", "GPU 0: host_to_device alone arrived whole"),
        (board(1).set(0, "cuda.peer", 99).lose(0), "probe", "GPU 0 answers and has name, UUID and address"),
        (
            board(1).set(0, "processes.compute", "4242:1000").set(0, "processes.own", 0),
            "own kernels",
            "the burn was not refused: GPU 0 is in use by process 4242 (?)",
        ),
        (healthy_h100(1), "busy", "the burn refuses"),
    ],
)
def test_what_does_not_hold_is_said(scenario, step, said, tmp_path):
    done = gpu_stand_in.run(tmp_path, scenario, "--only", step)
    assert done.code == 1
    assert [each for each in done.broken(step) if said in each], done.said
    assert "did not hold" in done.said


def test_a_rate_above_the_peak_is_impossible(tmp_path):
    done = gpu_stand_in.run(tmp_path, board(1).set(0, "cuda.h2d", 99), "--only", "copies")
    assert done.code == 1
    assert done.broken("physics") == ["GPU 0 memory.host_to_device_gb_per_s: a value that hardware can have"]


def test_a_gpu_whose_driver_does_not_answer_is_no_machine_without_gpus():
    assert Seen(0, 0, "no driver", absent=True).none
    assert not Seen(1, 0, "no driver", absent=True).none
    assert not Seen(0, 0, "NVML starts with error 18", absent=False).none


def test_a_driver_that_does_not_start_is_said(tmp_path):
    """Neither 0 nor a report: nothing was shown."""
    done = gpu_stand_in.run(tmp_path, healthy_h100(1).error("nvmlInit", 18))
    assert (done.code, done.said) == (4, "")
    assert "NVML starts with error 18" in done.complained


def test_pynvml_is_found_beside_another_python(tmp_path, monkeypatch):
    monkeypatch.setattr(pynvml_here.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pynvml_here, "_PLACES", (f"{tmp_path}/*",))
    monkeypatch.setitem(pynvml_here.sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in pynvml_here.find()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pynvml.py").write_text("def nvmlInit(): ...\n")
    assert pynvml_here.find() == ""
    assert pynvml_here.sys.modules["pynvml"].__spec__.origin == str(tmp_path / "other" / "pynvml.py")
