"""The burn's program, as it goes to a node, on stand-ins for NVIDIA's libraries: healthy GPUs and ways of failing."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from support import cuda
from support.payload import nothing_is_left

from lab.nvml.scenario import healthy_h100
from lab.processes import children_of, name_of, wait_until
from nodegate.node_side.load import burn, load, place, sampler
from nodegate.node_side.probe import system

TFLOP = 2e-12 * 256**3  # of one product; the stand-in says that it takes 0.05 s
BLAS = str(cuda.library().with_name("libcublas.so.12"))
NAMED = [["the caller", BLAS]]
THREE = {"bf16": 0.4, "fp32": 0.3, "fp64": 0.3}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return cuda.burn(healthy_h100(2), tmp_path_factory.mktemp("healthy"), seconds=3.0, phases=[*THREE.items()])


def test_healthy_gpus_compute_the_same_bits_as_fast_as_each_other(healthy):
    assert (healthy["refused"], [gpu["error"] for gpu in healthy["gpus"]]) == ("", ["", ""])
    for number, dtype in enumerate(THREE):
        phases = [gpu["phases"][number] for gpu in healthy["gpus"]]
        assert {(phase["dtype"], phase["mismatches"], phase["reference_errors"]) for phase in phases} == {(dtype, 0, 0)}
        assert len({phase["checksum"] for phase in phases}) == 1
        assert phases[0]["iterations"] > 0
        assert phases[0]["tflops"] == pytest.approx(TFLOP / 0.05, rel=1e-3)


def test_it_says_what_ran_where(healthy):
    head = {"schema": "nodegate.burn/1", "driver": "550.163.01", "cuda_driver_version": 12040}
    head |= {"path": "ptx", "library": "", "library_refused": ""}
    assert {name: healthy[name] for name in head} == head
    gpu = healthy["gpus"][1]
    own = {"pci": "00000000:3B:00.0", "compute_capability": "9.0", "multiprocessors": 132, "path": "ptx"}
    assert {name: gpu[name] for name in own} == own
    assert gpu["memory_used_by_burn_bytes"] >= 0.8 * (8 << 20)


def test_the_gpus_are_sampled_while_they_work(healthy):
    samples = healthy["gpus"][0]["samples"]
    assert samples["error"] == ""
    loaded = [window for window in samples["windows"] if window["start_s"] >= 0]
    assert sum(window["load"] for window in loaded) > 3
    alike = {"sm_clock_mhz": 1980, "power_w": 71.5, "link_gen": 5, "link_width": 16}
    assert {name: loaded[0][name] for name in alike} == {name: [value] * 3 for name, value in alike.items()}
    assert samples["violations_ns"] == {"thermal": 0, "board_limit": 0, "reliability": 0}


def test_event_reasons_are_counted_bit_by_bit(tmp_path):
    scenario = healthy_h100(1).set(0, "event_reasons", 0x84).missing("nvmlDeviceGetTotalEccErrors")
    samples = cuda.burn(scenario, tmp_path, seconds=3.0)["gpus"][0]["samples"]
    window = samples["windows"][-1]
    assert window["event_reasons"] == 0x84
    assert window["reason_samples"] == {"4": window["count"], "128": window["count"]}
    assert samples["unread"]["ecc_corrected"]["why"] == "missing"
    assert "ecc_corrected" not in window


def test_each_fault_shows_on_its_own_gpu_with_its_place(tmp_path):
    faults = {1: ("cuda.flip", 12), 2: ("cuda.wrong", 1), 3: ("cuda.product_s", 0.1)}
    scenario = healthy_h100(4)
    for gpu, fault in faults.items():
        scenario.set(gpu, *fault)
    gpus = cuda.burn(scenario, tmp_path, phases=[["fp32", 1]])["gpus"]
    assert [gpu["error"] for gpu in gpus] == [""] * 4
    good, flipped, wrong, slow = (gpu["phases"][0] for gpu in gpus)
    assert [each["mismatches"] for each in (good, flipped, wrong, slow)] == [0, 1, 0, 0]
    first = flipped["first_mismatch"]
    assert {name: first[name] for name in ("row", "column", "words")} == {"row": 3, "column": 5, "words": 1}
    assert first["iteration"] == 9  # the first result and one to learn the speed come before the load
    assert good["checksum"] == slow["checksum"] != wrong["checksum"]
    assert slow["tflops"] == pytest.approx(good["tflops"] / 2, rel=1e-3)


NO_COMPILER = (
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (libnvidia-ptxjitcompiler.so.1 is missing: install it with the driver; some "
    "distributions package it apart)"
)


@pytest.mark.parametrize(
    ("planted", "value", "error"),
    [
        ("cuda.error.cuInit", 802, "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_READY"),
        ("cuda.error.cuModuleLoadDataEx", 221, f"cuModuleLoadDataEx: 221 {NO_COMPILER}"),
        ("compute_capability", "7.0", "no kernel: -1 bf16 needs compute capability 8.0, this GPU has 7.0"),
    ],
)
def test_gpus_that_cannot_start_say_why(planted, value, error, tmp_path):
    gpus = cuda.burn(healthy_h100(2).set(None, planted, value), tmp_path)["gpus"]
    assert [(gpu["error"], gpu["phases"], gpu["started_s"]) for gpu in gpus] == [(error, [], None)] * 2


def test_settings_of_a_login_that_would_change_the_burn_are_removed():
    foreign = (*place._FOREIGN, "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLASLT_LOG_LEVEL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CU")}
    with mock.patch.dict(os.environ, {**kept, **dict.fromkeys(foreign, "1")}, clear=True):
        place.see_only(["GPU-1"])
        own = {name: value for name, value in os.environ.items() if name not in kept}
    assert own == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_CACHE_DISABLE": "1"}


def test_gpus_that_cannot_be_loaded_say_why_and_the_others_burn(tmp_path):
    scenario = healthy_h100(5).lose(0).set(1, "cuda.absent", 1).set(2, "cuda.crash.cuMemAlloc_v2", 1)
    scenario.set(3, "cuda.error.cuStreamSynchronize", 214).set(3, "cuda.after.cuStreamSynchronize", 10)
    gpus = cuda.burn(scenario, tmp_path, seconds=4.0)["gpus"]
    assert gpus[0] == {"index": 0, "path": "ptx", "error": "NVML 15: GPU is lost"}
    assert [gpu["error"] for gpu in gpus[1:]] == [
        "cuInit: 100 CUDA_ERROR_NO_DEVICE",
        "ended by SIGSEGV, at cuMemAlloc_v2",
        "cuStreamSynchronize: 214 CUDA_ERROR_ECC_UNCORRECTABLE",
        "",
    ]
    assert gpus[3]["phases"][0]["dtype"] == "bf16"  # what it did before it failed
    assert gpus[4]["phases"][0]["iterations"] > 0
    assert gpus[4]["started_s"] < 60  # the start's own limit is 120 s


@pytest.mark.long
def test_a_hang_is_named_by_its_call_and_costs_only_its_gpu(tmp_path):
    hangs = {1: ("cuStreamSynchronize", 5), 2: ("cuMemcpyDtoH_v2", 40)}
    scenario = healthy_h100(3)
    for gpu, (function, after) in hangs.items():
        scenario.set(gpu, f"cuda.hang.{function}", 1).set(gpu, f"cuda.after.{function}", after)
    gpus = cuda.burn(scenario, tmp_path, seconds=10.0, answer_limit_s=12.0)["gpus"]
    for gpu, (function, _) in hangs.items():
        assert gpus[gpu]["error"] == f"no answer within 12 s, at {function}"
    assert gpus[0]["error"] == ""
    assert gpus[0]["phases"][0]["iterations"] > 0


@pytest.mark.long
def test_a_hang_at_the_start_is_given_the_time_of_the_start(tmp_path):
    gpus = cuda.burn(healthy_h100(2).set(0, "cuda.hang.cuInit", 1), tmp_path, start_limit_s=20.0)["gpus"]
    assert gpus[0]["error"] == "no answer within 20 s, at cuInit"
    assert gpus[1]["phases"][0]["iterations"] > 0


HIDDEN = "of its memory in use, without a visible process"
UNREADABLE = "the processes that use it cannot be read (NVML 4: Insufficient Permissions)"


@pytest.mark.parametrize(
    ("scenario", "refused"),
    [
        (healthy_h100(2).set(1, "memory_used", 40 << 30), f"GPU 1 has 40.0 GiB {HIDDEN}"),
        (healthy_h100(2).set(0, "mig", 1), "GPU 0 is split by MIG"),
        (healthy_h100(1).error("nvmlDeviceGetComputeRunningProcesses", 4), f"GPU 0: {UNREADABLE}"),
        (healthy_h100(1).error("nvmlInit", 18), "NVML 18: RM has detected an NVML/RM version mismatch."),
        (healthy_h100(0), "NVML does not list GPU"),
    ],
)
def test_gpus_that_must_not_be_touched_are_not(scenario, refused, tmp_path):
    document = cuda.burn(scenario, tmp_path)
    assert document["refused"] == refused
    assert [gpu.get("phases", []) for gpu in document["gpus"]] == [[]] * len(document["gpus"])
    assert document["path"] == ""


def test_a_gpu_that_is_lost_under_load_ends_its_samples_with_the_reason(tmp_path):
    scenario = healthy_h100(1).error("nvmlDeviceGetPowerUsage", 15, gpu=0)
    assert cuda.burn(scenario, tmp_path)["gpus"][0]["samples"]["error"] == "NVML 15: GPU is lost"


def test_cublas_gives_the_same_product(tmp_path, healthy):
    document = cuda.burn(healthy_h100(1), tmp_path, path="auto", places=NAMED, phases=[*THREE.items()])
    assert (document["path"], document["library"], document["library_version"]) == ("cublas", BLAS, 120401)
    for number in range(len(THREE)):
        checksums = {each["gpus"][0]["phases"][number]["checksum"] for each in (document, healthy)}
        assert len(checksums) == 1


@pytest.mark.parametrize(("dtype", "capability"), [("fp8", "9.0"), ("fp4", "12.0")])
def test_fp8_and_fp4_are_multiplied_by_cublaslt_and_their_results_are_checked(dtype, capability, tmp_path):
    scenario = healthy_h100(2).set(1, "cuda.flip", 12)
    for gpu in (0, 1):
        scenario = scenario.set(gpu, "compute_capability", capability)
    gpus = cuda.burn(scenario, tmp_path, path="auto", places=NAMED, phases=[["bf16", 0.5], [dtype, 0.5]])["gpus"]
    assert [gpu["error"] for gpu in gpus] == [""] * 2
    assert [gpu["left_out"] for gpu in gpus] == [{}] * 2
    found = [gpu["phases"][1] for gpu in gpus]
    assert [(each["dtype"], each["matrix"], each["reference_errors"]) for each in found] == [(dtype, 256, 0)] * 2
    assert len({each["checksum"] for each in found}) == 1
    assert sum(phase["mismatches"] for phase in gpus[1]["phases"]) == 1


ALL = {"bf16": 0.4, "fp8": 0.2, "fp4": 0.2, "fp64": 0.2}


@pytest.mark.parametrize(
    ("name", "capability", "own_kernels", "left_out"),
    [
        ("NVIDIA H100 80GB HBM3", (9, 0), False, ["fp4"]),
        ("NVIDIA H20", (9, 0), False, ["fp4", "fp64"]),
        ("NVIDIA L40S", (8, 9), False, ["fp4", "fp64"]),
        ("NVIDIA A100-SXM4-80GB", (8, 0), False, ["fp4", "fp8"]),
        ("NVIDIA B200", (10, 0), False, []),
        ("NVIDIA B300 SXM6 AC", (10, 3), False, ["fp64"]),
        ("NVIDIA B200", (10, 0), True, ["fp4", "fp8"]),
    ],
)
def test_what_a_board_has_no_units_for_is_left_out_and_its_time_is_burned_in_bf16(
    name, capability, own_kernels, left_out
):
    plan = [load.Phase(dtype, share, 256) for dtype, share in ALL.items()]
    found, why = load.chosen(plan, capability, name, own_kernels)
    assert sorted(why) == left_out
    assert [each.dtype for each in found] == [dtype for dtype in ALL if dtype not in left_out]
    assert found[0].seconds == pytest.approx(0.4 + 0.2 * len(left_out))


@pytest.mark.parametrize(
    ("planted", "left_out"),
    [("cuda.error.cublasLtMatmulAlgoGetHeuristic", ["fp8", "fp4"]), ("cuda.error.fp4", ["fp4"])],
)
def test_what_a_library_has_no_algorithm_for_is_left_out(planted, left_out, tmp_path):
    scenario = healthy_h100(1).set(0, "compute_capability", "10.0").set(0, planted, 15)
    gpu = cuda.burn(scenario, tmp_path, path="auto", places=NAMED, phases=[*ALL.items()])["gpus"][0]
    why = "cublasLtMatmulAlgoGetHeuristic: 15 CUBLAS_STATUS_NOT_SUPPORTED"
    assert gpu["left_out"] == dict.fromkeys(left_out, why)
    assert [each["dtype"] for each in gpu["phases"]] == [dtype for dtype in ALL if dtype not in left_out]


@pytest.mark.long
def test_gpus_that_differ_with_cublas_are_burned_again_with_our_own_kernels(tmp_path):
    scenario = healthy_h100(3).set(1, "cuda.wrong.cublas", 1)
    document = cuda.burn(scenario, tmp_path, path="auto", places=NAMED, phases=[*THREE.items()])
    first = {gpu["phases"][0]["checksum"] for gpu in document["gpus"]}
    assert len(first) == 2
    assert document["path"] == "cublas"
    assert [each["error"] for each in document["again"]] == ["", "", ""]
    for number, dtype in enumerate(THREE):
        phases = [each["phases"][number] for each in document["again"]]
        assert {(each["dtype"], each["mismatches"], each["reference_errors"]) for each in phases} == {(dtype, 0, 0)}
        assert len({each["checksum"] for each in phases}) == 1


def test_one_gpu_that_cannot_use_cublas_is_an_error_of_that_gpu(tmp_path):
    scenario = healthy_h100(2).set(1, "cuda.error.cublasCreate_v2", 1)
    gpus = cuda.burn(scenario, tmp_path, path="auto", places=NAMED)["gpus"]
    assert [gpu["error"] for gpu in gpus] == ["", "cublasCreate_v2: 1 CUBLAS_STATUS_NOT_INITIALIZED"]


def test_the_matrix_is_smaller_where_the_memory_is_small(tmp_path):
    phase = cuda.burn(healthy_h100(1), tmp_path, matrix=1024, phases=[["fp32", 1]])["gpus"][0]["phases"][0]
    assert (phase["matrix"], phase["reference_errors"]) == (512, 0)


def test_nothing_is_left_when_the_program_is_killed(tmp_path):
    scenario = healthy_h100(2).set(None, "cuda.hang.cuInit", 1).write(tmp_path / "scenario.conf")
    variables = cuda.environment(scenario)
    assert nothing_is_left(cuda.program(seconds=60.0, path="ptx"), variables, children=4)  # load and samples of each


def windowed(start, reasons):
    bits = {"event_reasons": reasons, "reason_samples": {str(reasons): 5}}
    return {"start_s": start, "count": 5, "load": 5, **bits}


def test_the_answer_of_a_long_burn_keeps_the_limit():
    chance = random.Random(1)  # noqa: S311 - numbers that hardly compress
    length = int(24 * 3600 / sampler.window_s(24 * 3600, 8)) + 1
    assert length * 8 <= sampler.MOST_IN_ALL
    names = [name for name in sampler.QUANTITIES if name != "event_reasons"]

    def window(number):
        spread = {name: sorted(chance.randint(0, 9999) / 10 for _ in range(3)) for name in names}
        return windowed(723.0 * number, 4) | spread

    gpus = [{"index": gpu, "samples": {"windows": [window(each) for each in range(length)]}} for gpu in range(8)]
    document = {"gpus": gpus}
    most = burn.MOST_CHARACTERS - len(burn.WIRE)
    wire = burn.fitted(document, most)
    assert len(wire) <= most
    windows = cuda.decoded(burn.WIRE + wire)["gpus"][7]["samples"]["windows"]
    assert sum(each["count"] for each in windows) == 5 * length
    assert sum(each["reason_samples"]["4"] for each in windows) == 5 * length


def test_merged_windows_keep_the_extremes_and_never_mix_idle_and_load():
    def window(start, clocks, reasons):
        return windowed(start, reasons) | {"load": 0, "sm_clock_mhz": clocks}

    idle, first = window(-3.0, [210, 210, 210], 1), window(0.0, [500, 1900, 1980], 8)
    both = {"count": 10, "sm_clock_mhz": [500, 1900.0, 1980], "event_reasons": 12, "reason_samples": {"8": 5, "4": 5}}
    assert sampler.merged([idle, first, window(1.0, [1800, 1900, 1950], 4)]) == [idle, first | both]


STOP_MPS = "stop MPS (echo quit | nvidia-cuda-mps-control)"


@pytest.mark.parametrize(
    ("kind", "name", "refused"),
    [
        ("compute", "/usr/bin/nv-hostengine -n", ""),
        ("compute", "python train.py", "GPU 0 is in use by process 4242 (python train.py)"),
        ("mps", "nvidia-imex", ""),
        ("mps", "dcgmproftester12", "GPU 0 is in use by process 4242 (dcgmproftester12)"),
        ("compute", "nvidia-cuda-mps-server", f"GPU 0 is shared by an MPS server (process 4242): {STOP_MPS}"),
    ],
)
def test_the_daemons_of_a_node_are_at_home_and_a_client_of_mps_is_not(kind, name, refused, tmp_path):
    scenario = healthy_h100(1).set(0, f"processes.{kind}", "4242:1000").system("process.4242", name)
    assert cuda.burn(scenario, tmp_path, phases=[["fp32", 1]])["refused"] == refused


def test_a_control_daemon_of_mps_is_asked_to_be_stopped(monkeypatch):
    monkeypatch.setattr(system, "mps_daemons", lambda: [77])
    idle = {"index": 0, "error": "", "mig_mode": [0, 0], "processes": [], "memory_used_bytes": 0}
    assert burn.refusal([dict(idle, memory_total_bytes=1)]) == f"MPS runs on this node (process 77): {STOP_MPS}"


def test_mps_is_seen_by_its_name(tmp_path):
    daemon = tmp_path / "nvidia-cuda-mps-control"
    daemon.symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([daemon, "60"]) as running:
        assert wait_until(lambda: running.pid in system.mps_daemons(), limit_s=10)
        running.kill()
    assert running.pid not in system.mps_daemons()


def test_gpus_in_exclusive_process_mode_burn(tmp_path):
    """The stand-in refuses a second process with a context, as a driver does in that mode."""
    scenario = healthy_h100(2).set(None, "compute_mode", 3)
    assert [gpu["error"] for gpu in cuda.burn(scenario, tmp_path)["gpus"]] == ["", ""]
    notes = tmp_path / "scenario.conf.users"
    (notes / f"1.{os.getpid()}").touch()
    second = cuda.burn(scenario, tmp_path)["gpus"]
    assert [gpu["error"] for gpu in second] == ["", "cuDevicePrimaryCtxRetain: 46 CUDA_ERROR_DEVICE_UNAVAILABLE"]


def test_every_gpu_is_held_open_until_the_end(tmp_path):
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / "dev" / name).touch()
    script = "from nodegate.node_side.probe import children, driver; driver.hold_open(); input(); children.end_all()"
    variables = dict(os.environ, NODEGATE_PROBE_ROOT=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env=variables) as running:
        assert wait_until(lambda: open_below(tmp_path, running.pid) == ["nvidia0", "nvidia1"], limit_s=20)
        held = children_of(running.pid)
        running.communicate(b"\n")
    assert running.returncode == 0
    assert wait_until(lambda: not any(name_of(pid) for pid in held))


def open_below(folder, parent):
    links = [each for pid in children_of(parent) for each in Path(f"/proc/{pid}/fd").glob("*")]
    return sorted(each.resolve().name for each in links if each.resolve().is_relative_to(folder))
