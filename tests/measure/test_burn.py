"""The burn as it is run and read: our own program, gpu_burn where it is there, documents from hostile nodes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fleet.machine import Machine
from support.attempts import attempts
from support.burning import burnt, document, every_window, ran, window

from nodegate.measure.burn import run as burn
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.unknown import Unknown

H100 = Machine.hgx_h100()


# What a document says


def test_the_warm_up_and_the_time_before_the_load_do_not_count():
    def cold_start(found):
        for each in found["gpus"][0]["samples"]["windows"]:
            if each["start_s"] < 12:
                each.update(sm_clock_mhz=[345, 345, 345], temperature_c=[30, 30, 30])

    load = burnt(H100, cold_start).runs[0].gpus[0]
    assert load.middle("sm_clock_mhz") == 1755
    assert load.highest("temperature_c") == 64
    assert load.reasons == {"sw_power_cap": 1.0}


# What cannot be read


def test_a_document_that_came_before_the_program_hung_is_read_and_the_hang_is_kept():
    hung = replace(ran(document(H100)), exit_code=None, timed_out=True, stuck=("711 python3 D",), duration_s=390.0)
    found = burn.parse(attempts([[hung]]))
    assert len(found.runs[0].gpus) == 8
    assert [why.reason for why in found.failed] == ["the burn did not end within 390 s; still there: 711 python3 D"]


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


def test_gpu_burn_runs_long_enough_for_its_reports_and_never_for_hours():
    assert [burn.other_seconds(each) for each in (60.0, 300.0, 600.0, 86400.0)] == [0.0, 120.0, 120.0, 300.0]
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
    assert burn._cublas(SimpleNamespace(tools=SimpleNamespace(cublas=lambda: found))) == options


def test_windows_of_a_gpu_that_was_not_computing_do_not_count():
    def late(found):
        every_window(found, 0, load=0)

    assert burnt(H100, late).runs[0].gpus[0].settled == ()
