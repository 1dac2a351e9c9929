"""What the burn checks say of one burn with one fault, word for word, and of the burns that only look faulty."""

import copy
import json

from fleet.changes import changes
from fleet.machine import Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.burning import BurnCase, document, every_window, judged, ran_by_others, refused
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.documents import json_values, places, replaced
from support.judging import both, plant
from support.judging import every_gpu as all_gpus

from nodegate import suite
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn.run import Burn
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

FIRST = {"iteration": 4711, "at_s": 31.2, "row": 17, "column": 4096, "words": 12}
STALLED_S = [*map(float, (*range(1, 10), *range(30, 37)))]
NOT_TOLD = unread("missing", "NVML 13")
UNEVEN_S = [1.1, 2.4, 3.5, 6.0, 7.1, 15.2, 16.4, 17.5, 27.0, 28.1, 30.2, 33.0, 36.2]


def gpu(index, **values):
    return lambda found: found["gpus"][index].update(values)


def phase(index, number, **values):
    return lambda found: found["gpus"][index]["phases"][number].update(values)


def load(index, **values):
    return lambda found: every_window(found, index, **values)


def moment(index, second, **values):
    return lambda found: found["gpus"][index]["samples"]["windows"][second + 1].update(values)


@changes
def idle_from(found, index, second):
    for each in found["gpus"][index]["samples"]["windows"][second + 1 :]:
        each["load"] = 0


@changes
def odd_with_cublas(found, *, stopped=False, **own):
    """GPU 3's result in fp32 is odd; then the same with own kernels, with something changed on it."""
    phase(3, 1, checksum="deadbeef")(found)
    clean = {"dtype": "fp32", "matrix": 8192, "iterations": 9, "seconds": 4.0, "checksum": "0000aaaa"}
    clean |= {"mismatches": 0, "reference_errors": 0}
    names = ("index", "name", "multiprocessors")
    found["again"] = [
        {name: gpu[name] for name in names} | {"error": "", "phases": [dict(clean)]} for gpu in found["gpus"]
    ]
    found["again"][3]["phases"][0].update(own)
    found["again"][3]["error"] = "no answer within 60 s" if stopped else ""


def slowed(**nanoseconds):
    return lambda found: found["gpus"][3]["samples"]["violations_ns"].update(nanoseconds)


def without_fp64(found):
    """As on a board that has no units for it."""
    for each in found["gpus"]:
        each["left_out"] = {"fp64": "this board has hardly any units for it"}
        each["phases"] = each["phases"][:2]
        each["phases"][0]["seconds"] += 12.0


@changes
def every_gpu(found, **values):
    for index in range(8):
        every_window(found, index, **values)


def stopped(found):
    gpu(3, error="no answer within 60 s, at cuStreamSynchronize")(found)
    found["gpus"][3]["phases"] = found["gpus"][3]["phases"][:1]


def never_started(found):
    error = "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_YET_INITIALIZED"
    gpu(3, error=error, started_s=None, phases=[], samples={"windows": [], "error": error})(found)


@changes
def without(found, index):
    found["gpus"] = [each for each in found["gpus"] if each["index"] != index]


@changes
def without_quantity(found, index, quantity, why):
    for gpu in found["gpus"] if index is None else [found["gpus"][index]]:
        gpu["samples"]["unread"] = {quantity: {"why": why, "detail": "NVML"}}
        for window in gpu["samples"]["windows"]:
            window.pop(quantity, None)


@changes
def slow(found, part):
    for each in found["gpus"][3]["phases"]:
        each["tflops"] *= part


@changes
def growing(found, counter, by):
    windows = found["gpus"][3]["samples"]["windows"]
    for number, window in enumerate(windows):
        count = by if number > 40 else 0
        window[counter] = [count, count, count]


def two_models(found):
    for index in range(6):
        gpu(index, name="NVIDIA A100-SXM4-80GB", multiprocessors=108)(found)
        phase(index, 0, checksum="aaaaaaaa")(found)


def disagreeing_pair(found):
    two_models(found)
    phase(7, 0, checksum="bbbbbbbb")(found)


def no_slowdown(machine):
    for key in ("temperature_margin_c", "temperature_slowdown_c"):
        machine.set_gpu(3, key, unread("not supported", "NVML 3"))


@changes
def own_kernels(found, watts):
    every_gpu(power_w=[watts - 5, watts, watts + 5])(found)
    for index in range(8):
        gpu(index, path="ptx")(found)


@changes
def all_without(found, quantity):
    for index in range(8):
        without_quantity(index, quantity, "not supported")(found)


@changes
def lighter_after(found, seconds):
    for each in found["gpus"]:
        for window in each["samples"]["windows"]:
            if window["start_s"] >= seconds:
                window["power_w"] = [400.0, 410.0, 430.0]


RIGHT_AGAIN = [lambda found: None]
SHORT_OF_POWER = every_gpu(sm_clock_mhz=[1100, 1200, 1300])
OLD_ERRORS = {"ecc_uncorrected": [3, 3, 3]}
CAPPED = all_gpus("power_limit_enforced_mw", 500_000)
ONLY_SET = all_gpus("power_limit_enforced_mw", NOT_TOLD)
NO_CUDA = ran_by_others("empty.txt", stderr="cuInit returned 802 (system not yet initialized)\nNo CUDA devices")
CASES = of("burn.complete")(
    BurnCase("a type of numbers that the board does not have", PASS, without_fp64),
    BurnCase(
        "bf16 cannot be left out",
        ERROR,
        lambda found: found["gpus"][3].update(left_out={"bf16": "no"}, phases=found["gpus"][3]["phases"][1:]),
    ),
    BurnCase("healthy", PASS),
    BurnCase("a GPU that hangs under load", FAIL, stopped),
    BurnCase("a GPU that never starts", ERROR, never_started),
    BurnCase("a GPU that is left out", ERROR, without(3)),
    BurnCase("a phase that was not reached", ERROR, phase(3, 2, tflops=None)),
    BurnCase("a GPU that worked for half of the time", ERROR, phase(3, 0, seconds=18.0)),
    BurnCase("a GPU that stood still", ERROR, idle_from(3, 24)),
    BurnCase("a GPU that stalled for twenty seconds, in no sample", ERROR, phase(3, 0, windows_s=STALLED_S)),
    BurnCase("pieces of uneven length", PASS, phase(3, 0, windows_s=UNEVEN_S)),
    BurnCase("a GPU that nobody watched", ERROR, gpu(3, samples={"error": "NVML 999"})),
    BurnCase("GPUs in use", ERROR, refused),
)
CASES += of("burn.results")(
    BurnCase("healthy", PASS),
    BurnCase("a word that changes", FAIL, phase(3, 0, mismatches=12, first_mismatch=FIRST)),
    BurnCase("a GPU that is always wrong", FAIL, phase(3, 1, checksum="deadbeef")),
    BurnCase("a result that is odd with cuBLAS alone", ERROR, odd_with_cublas()),
    *(
        BurnCase(f"a result that is odd with cuBLAS, and {what}", FAIL, change)
        for what, change in (
            ("with own kernels too", odd_with_cublas(checksum="deadbeef")),
            ("wrong later with own kernels", odd_with_cublas(mismatches=1)),
            ("wrong on the host with own kernels", odd_with_cublas(reference_errors=2)),
            ("stopped with own kernels", odd_with_cublas(stopped=True)),
        )
    ),
    BurnCase("a first result that is wrong", FAIL, phase(3, 1, reference_errors=3)),
    BurnCase("two models compared with their own kind", PASS, two_models),
    BurnCase("two GPUs that differ", FAIL, disagreeing_pair),
    BurnCase("wrong in the first burn, right in the second", FAIL, phase(3, 0, mismatches=1), again=RIGHT_AGAIN),
    BurnCase("a GPU without a result", ERROR, never_started),
    BurnCase("a count that is not told", ERROR, phase(3, 0, mismatches={"why": "failed"})),
)
CASES += of("burn.throughput")(
    BurnCase("healthy, in a fleet", PASS, nodes=9),
    BurnCase("a slow GPU in a fleet", FAIL, slow(0.9), nodes=9),
    BurnCase("slow only once", NOT_JUDGED, slow(0.9), again=[slow(1.0), slow(1.0)]),
    BurnCase("no rate from one GPU", ERROR, never_started, nodes=9),
)
CASES += of("burn.node_spread")(
    BurnCase("healthy", PASS),
    BurnCase("a GPU 6 % below its node", WARN, slow(0.94)),
    BurnCase("a GPU 4 % below its node", PASS, slow(0.96)),
    BurnCase("nothing measured", ERROR, refused),
    BurnCase("no limit", NOT_JUDGED, limits={"burn.node_spread_percent": None}),
)
CASES += of("burn.clock_reasons")(
    BurnCase("the power cap is normal", PASS),
    BurnCase("a power brake in one sample", FAIL, moment(3, 30, reason_samples={"4": 5, "8": 1, "128": 1})),
    BurnCase("heat", FAIL, load(3, reason_samples={"64": 2, "8": 2})),
    BurnCase("heat by the driver, at delivery", FAIL, load(3, reason_samples={"32": 5})),
    BurnCase("heat by the driver in one sample", WARN, moment(3, 30, reason_samples={"4": 5, "32": 1})),
    BurnCase("idle in its own burn", ERROR, load(3, reason_samples={"1": 5})),
    BurnCase("heat by the driver, at night", WARN, load(3, reason_samples={"32": 5}), profile=Profile.NIGHTLY),
    BurnCase("a bit without a name", WARN, moment(3, 30, reason_samples={"2048": 5})),
    BurnCase("the board's own limit", WARN, moment(3, 30, reason_samples={"512": 5})),
    BurnCase("the voltage limit is normal", PASS, load(3, reason_samples={"4": 5, "1024": 5})),
    BurnCase("heat in two samples of 300", WARN, moment(3, 30, reason_samples={"4": 5, "8": 2, "64": 2})),
    BurnCase("heat in three samples of 300", FAIL, moment(3, 30, reason_samples={"4": 5, "8": 3, "64": 3})),
    BurnCase("slowed between two samples, at delivery", FAIL, slowed(thermal=2_400_000_000)),
    BurnCase("slowed between two samples, at night", WARN, slowed(thermal=2_400_000_000), profile=Profile.NIGHTLY),
    BurnCase("slowed by the board for longer than it may", WARN, slowed(board_limit=2_400_000_000)),
    BurnCase("slowed for a moment", PASS, slowed(thermal=400_000_000, board_limit=1)),
    BurnCase("a fault before the load", PASS, moment(3, -1, reason_samples={"8": 5})),
    BurnCase("not watched", ERROR, gpu(3, samples={"error": "NVML 999"})),
)
CASES += of("burn.clock")(
    BurnCase("healthy, alone", PASS),
    BurnCase("a GPU at 500 MHz", FAIL, load(3, sm_clock_mhz=[480, 500, 510], reason_samples={"128": 5, "8": 5})),
    BurnCase("a GPU 9 % below its node", PASS, load(3, sm_clock_mhz=[1500, 1600, 1700])),
    BurnCase("a whole node that is short of power, in a fleet", FAIL, SHORT_OF_POWER, nodes=9),
    BurnCase("no clock", ERROR, without_quantity(3, "sm_clock_mhz", "failed")),
    BurnCase("a clock that the other GPUs report", ERROR, without_quantity(3, "sm_clock_mhz", "not supported")),
    BurnCase("no clock by design", SKIP, without_quantity(None, "sm_clock_mhz", "not supported")),
)
CASES += of("burn.memory_temperature")(
    BurnCase("healthy", PASS),
    BurnCase("96 °C", FAIL, load(3, memory_temperature_c=[80, 90, 96])),
    BurnCase("92 °C", WARN, load(3, memory_temperature_c=[80, 90, 92])),
    BurnCase("96 °C at night", WARN, load(3, memory_temperature_c=[80, 90, 96]), profile=Profile.NIGHTLY),
    BurnCase("NVML failed", ERROR, without_quantity(3, "memory_temperature_c", "failed")),
    BurnCase("healthy: boards without HBM", SKIP, without_quantity(None, "memory_temperature_c", "not supported")),
)
CASES += of("burn.temperature")(
    BurnCase("healthy", PASS),
    BurnCase("2 °C from its slowdown", FAIL, load(3, temperature_c=[80, 83, 84])),
    BurnCase("the same at night", WARN, load(3, temperature_c=[80, 83, 84]), profile=Profile.NIGHTLY),
    BurnCase("a GPU without threshold", PASS, machine=no_slowdown),
    BurnCase("no temperature", ERROR, without_quantity(3, "temperature_c", "failed")),
)
CASES += of("burn.power")(
    BurnCase("healthy, at the power cap", PASS),
    BurnCase("fp32 and fp64 draw less: the heaviest part counts", PASS, lighter_after(36)),
    BurnCase("a GPU at half of its power", WARN, load(3, power_w=[340, 350, 360])),
    BurnCase("capped at 500 W: at its limit", PASS, every_gpu(power_w=[490, 496, 505]), machine=CAPPED),
    BurnCase("own kernels, a little less", PASS, own_kernels(550)),
    BurnCase("own kernels that do not heat the board", WARN, own_kernels(350)),
    BurnCase("once hot, once disturbed", PASS, load(3, power_w=[340, 350, 360]), again=(load(3),)),
    BurnCase("no power of one GPU", ERROR, without_quantity(3, "power_w", "failed")),
    BurnCase("one GPU has no sensor, the others have", ERROR, without_quantity(3, "power_w", "not supported")),
    BurnCase("no GPU has a sensor: nothing is proven", NOT_JUDGED, all_without("power_w")),
    BurnCase("twice its limit", ERROR, load(3, power_w=[1300, 1400, 1500])),
    BurnCase("no limit in force", ERROR, machine=plant.set_gpu(3, "power_limit_enforced_mw", FAILED)),
    BurnCase("a driver that tells only the limit that is set", PASS, machine=ONLY_SET),
    BurnCase("a GPU that stopped", PASS, stopped),
    BurnCase("the watcher broke off", ERROR, gpu(3, samples={"windows": [], "error": "the sampler died"})),
    BurnCase("no limit in the baselines", NOT_JUDGED, limits={"burn.power_percent": None}),
)
CASES += of("burn.ecc")(
    BurnCase("healthy", PASS),
    BurnCase("uncorrected", FAIL, growing("ecc_uncorrected", 1)),
    BurnCase("very many corrected", WARN, growing("ecc_corrected", 400)),
    BurnCase("a few corrected", PASS, growing("ecc_corrected", 9)),
    BurnCase("errors from before", PASS, both(moment(3, -1, **OLD_ERRORS), load(3, **OLD_ERRORS))),
    BurnCase("counter reset", ERROR, moment(3, 30, ecc_uncorrected=[5, 5, 5])),
    BurnCase("one GPU without ECC", ERROR, without_quantity(3, "ecc_corrected", "not supported")),
    BurnCase("no GPU with ECC", PASS, without_quantity(None, "ecc_corrected", "not supported")),
)
CASES += of("burn.link")(
    BurnCase("healthy", PASS),
    BurnCase("Gen1 under load", FAIL, load(3, link_gen=[1, 1, 5])),
    BurnCase("lanes lost under load", FAIL, load(3, link_width=[8, 8, 16])),
    BurnCase("a slot of Gen4", PASS, every_gpu(link_gen=[4, 4, 4]), machine=all_gpus("link_gen_max", 4)),
    BurnCase("Gen1 before the load", PASS, moment(3, -1, link_gen=[1, 1, 1])),
    BurnCase("not told", ERROR, without_quantity(3, "link_gen", "failed")),
)
CASES += of("burn.gpu_burn")(
    BurnCase("not installed", SKIP),
    BurnCase("healthy", PASS, others=(ran_by_others("healthy.txt"),)),
    BurnCase("wrong results, and a dead GPU", FAIL, others=(ran_by_others("faulty.txt"),)),
    BurnCase("GPUs that never ran", ERROR, others=(ran_by_others("no-report.txt"),)),
    BurnCase("ended before its list", ERROR, others=(ran_by_others("truncated.txt"),)),
    BurnCase("no CUDA", ERROR, others=(NO_CUDA,)),
    BurnCase("an older list, one device", PASS, others=(ran_by_others("one-device.txt"),)),
)


# What only some contracts ask for
def longer(found):
    for phase in found["phases"]:
        phase["seconds"] *= 2


CASES += of("contract.event_reasons")(
    BurnCase("the power cap, which is allowed", PASS),
    BurnCase("the power cap, where nothing is allowed", FAIL, limits={"contract.event_reasons_allowed": None}),
    BurnCase("heat for a fifth of the time", FAIL, load(3, reason_samples={"4": 5, "32": 1})),
    BurnCase("healthy: idle between two batches", PASS, load(3, reason_samples={"4": 3, "1": 2})),
    BurnCase("no burn", ERROR, refused),
    BurnCase("a GPU that does not report them", ERROR, without_quantity(3, "event_reasons", "not supported")),
    BurnCase("no limit", NOT_JUDGED, limits={"contract.event_reasons_percent": None}),
)
CASES += of("contract.temperature_spread")(
    BurnCase("equally warm", PASS),
    BurnCase("healthy: five degrees", PASS, load(3, temperature_c=[60, 67, 68])),
    BurnCase("eight degrees", FAIL, load(3, temperature_c=[66, 70, 71])),
    BurnCase("one GPU that was not read", ERROR, without_quantity(3, "temperature_c", "not supported")),
)
CASES += of("contract.temperature")(
    BurnCase("cool", PASS),
    BurnCase("hot", FAIL, load(3, temperature_c=[80, 84, 86])),
    BurnCase("no burn", ERROR, refused),
)
CASES += of("contract.burn_time")(
    BurnCase("a minute, where half of one is asked for", PASS),
    BurnCase("too short", SKIP, lambda found: [each.update(seconds=each["seconds"] / 2) for each in found["phases"]]),
    BurnCase("healthy: the second burn was long enough", PASS, again=(longer,)),
    BurnCase("no burn", ERROR, refused),
)

# The kernel wgmma that nodegate once had: its burns are read, and a wrong result by it blames no GPU.
PROVEN = {"used": True, "reason": "equal to mma.sync in 200 products of 8192 x 8192", "faster": 1.5}
GAVE_UP = "nodegate_wgmma: -1 gave up waiting for operands"


@changes
def by(found, kernel, *, gpu3=None, **of_phase):
    """A burn by own kernels; something is changed of GPU 3 and of its results in bf16."""
    found.update(path="ptx", library="")
    for gpu in found["gpus"]:
        gpu.update(path="ptx", wgmma=PROVEN)
        for phase in gpu["phases"]:
            phase["kernel"] = kernel if phase["dtype"] == "bf16" else "fma"
    found["gpus"][3].update(gpu3 or {})
    found["gpus"][3]["phases"][0].update(of_phase)


CASES += of("burn.complete")(
    BurnCase("all is right", PASS, by("wgmma")),
    BurnCase("it gave up waiting", ERROR, by("wgmma", gpu3={"error": GAVE_UP})),
)
CASES += of("burn.results")(
    BurnCase("wrong results", ERROR, by("wgmma", mismatches=12, first_mismatch=None)),
    BurnCase("wrong elements in the first result", ERROR, by("wgmma", reference_errors=3)),
    BurnCase("another first result than the others", ERROR, by("wgmma", checksum="0badf00d")),
    BurnCase("wrong with mma.sync: the GPU", FAIL, by("mma.sync", mismatches=12, first_mismatch=None)),
)


test_case = asserting(CASES)


def test_what_it_reached_is_compared_with_nothing_else():
    def burn_of(kernel):
        found = document(Machine.hgx_h100("gpu01"))
        by(kernel)(found)
        return Burn((burn_document.decode(json.dumps(found)),), (), ())

    by_it, by_ours = burn_of("wgmma"), burn_of("mma.sync")
    for name in ("burn.bf16_tflops", "burn.sm_clock_mhz", "burn.power_w"):
        one, other = by_it.named(name)[0], by_ours.named(name)[0]
        assert one.conditions == {**other.conditions, "kernel": "wgmma"}
        assert one.key != other.key
    assert by_it.named("burn.fp32_tflops")[0].key == by_ours.named("burn.fp32_tflops")[0].key


# Whatever a node sends as its burn: each check judges it or says that it cannot, and never breaks.


def small():
    """A burn with few windows, so that a change seldom falls on one of many alike."""
    found = document(Machine.hgx_h100(), count=3)
    for gpu in found["gpus"]:
        gpu["samples"]["windows"] = gpu["samples"]["windows"][:3]
    return found


SMALL = small()
OF_THE_BURN = [check.id for check in suite.checks() if check.id.startswith("burn.")]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(places(SMALL)), value=json_values, check=st.sampled_from(OF_THE_BURN))
def test_no_value_in_the_document_breaks_a_check(place, value, check):
    def change(found):
        changed = replaced(copy.deepcopy(SMALL), place, value)
        found.clear()
        found.update(changed)

    record = judged(BurnCase("hostile", Verdict.PASS, change, check=check))
    assert "itself failed" not in record.message, record.message
    assert all("itself failed" not in finding.message for finding in record.findings)
    assert all(len(finding.message) < 4000 for finding in record.findings)
