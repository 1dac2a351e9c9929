"""What the checks say of what boards report in ways of their own: the errors of NVLink 5, and the heat of HBM."""

from functools import partial

import pytest
from fleet.machine import EPOCH_S, Machine
from support.cases import ERROR, FAIL, FAILED, PASS, SKIP, WARN, asserting
from support.counting import CounterCase
from support.healthy_platforms import UNSUPPORTED, node_of
from support.judging import Case

from nodegate.probe.nvml import error_rate
from nodegate.unknown import Unknown, Why


def b200(_name="gpu01", epoch_s=EPOCH_S):
    return node_of("hgx-b200-8", partial(Machine.hgx_h100, epoch_s=epoch_s))


def gpu(**readings):
    """Readings of NVLink 5 of GPU 3."""
    return lambda machine: [machine.set_gpu(3, f"nvlink5.{name}", value) for name, value in readings.items()]


def silent(*indices, reading=UNSUPPORTED):
    return lambda machine: [machine.set_gpu(index, "nvlink5", reading) for index in indices]


def older_probe(machine):
    for entry in machine.sections["nvml"]["gpus"]:
        del entry["nvlink5"]


rates = partial(Case, check="nvlink.bit_errors", machine=b200)
since_load = partial(Case, check="nvlink.errors", machine=b200)
NVLINK5 = (
    rates("no bit error after correction", verdict=PASS),
    rates("an effective rate of 8e-13", verdict=PASS, change=gpu(effective_ber=0x80D)),
    rates("an effective rate of 4e-12", verdict=WARN, change=gpu(effective_ber=0x40C)),
    rates("an effective rate of 2e-9", verdict=FAIL, change=gpu(effective_ber=0x209)),
    rates("a symbol rate of 1e-26", verdict=PASS, change=gpu(symbol_ber=0x11A)),
    rates("a symbol rate of 2e-25", verdict=FAIL, change=gpu(symbol_ber=0x219)),
    rates("a rate that is no code", verdict=ERROR, change=gpu(effective_ber=0x1234)),
    rates("a rate that NVML failed to read", verdict=ERROR, change=gpu(symbol_ber=FAILED)),
    rates("a rate that one GPU does not report", verdict=ERROR, change=gpu(symbol_ber=UNSUPPORTED)),
    rates("a driver that reports none", verdict=SKIP, change=silent(*range(8))),
    rates("NVML failed on one GPU", verdict=ERROR, change=silent(3, reading=FAILED)),
    rates("a probe that did not ask", verdict=SKIP, change=older_probe),
    rates("healthy: links of H100 count replays", verdict=SKIP, machine=Machine.hgx_h100),
    since_load("no recovery", verdict=PASS),
    since_load("a link of NVLink 5 was recovered", verdict=WARN, change=gpu(recovered=2)),
    since_load("a recovery of NVLink 5 failed", verdict=WARN, change=gpu(failed_recoveries=1)),
    since_load("all bits of a counter are set", verdict=ERROR, change=gpu(recovered=(1 << 64) - 1)),
    since_load("failed recoveries that are not reported", verdict=ERROR, change=gpu(failed_recoveries=UNSUPPORTED)),
    since_load("a driver that reports no recoveries", verdict=SKIP, change=silent(*range(8))),
)

load = partial(CounterCase, check="counters.nvlink", machine=b200)
COUNTED = (
    load("NVLink 5 without an error", verdict=PASS),
    load("old recoveries of NVLink 5", verdict=PASS, before=gpu(failed_recoveries=2, recovered=9)),
    load("a link of NVLink 5 was recovered", verdict=WARN, during=gpu(recovered=1)),
    load("a recovery of NVLink 5 failed", verdict=FAIL, during=gpu(failed_recoveries=1)),
    load("bad packets of NVLink 5", verdict=WARN, during=gpu(link_integrity=7, discards=1)),
    load("NVLink 5 not told after", verdict=ERROR, during=silent(3, reading=FAILED)),
    load("NVLink 5 of which no driver tells", verdict=SKIP, before=silent(*range(8))),
)


def hbm(*indices, **readings):
    return lambda machine: [machine.set_gpu(at, name, said) for at in indices for name, said in readings.items()]


rest = partial(Case, check="power.memory_temperature")
NO_LIMIT_TOLD = hbm(3, memory_temperature_c=96, memory_temperature_limit_c=UNSUPPORTED)
HBM = (
    rest("cool", verdict=PASS),
    rest("110 degrees", verdict=FAIL, change=hbm(3, memory_temperature_c=110)),
    rest("the board allows 105", verdict=PASS, change=hbm(3, memory_temperature_c=99, memory_temperature_limit_c=105)),
    rest("a board that does not say its limit", verdict=FAIL, change=NO_LIMIT_TOLD),
    rest("255 degrees", verdict=ERROR, change=hbm(3, memory_temperature_c=255)),
    rest("one of eight does not report it", verdict=ERROR, change=hbm(3, memory_temperature_c=UNSUPPORTED)),
    rest("healthy: boards without HBM", verdict=SKIP, change=hbm(*range(8), memory_temperature_c=UNSUPPORTED)),
)


test_case = asserting(NVLINK5, COUNTED, HBM)


def test_a_bit_error_rate_is_a_mantissa_and_an_exponent():
    codes = {0x80D: 8e-13, 0xF01: 1.5, 0x100: 1.0, 0x000: 0.0, 0xFFF: 0.0, 0xFEE: 0.0, 0x1ED: 1e-237}
    assert {code: error_rate(code) for code in codes} == pytest.approx(codes, rel=1e-12, abs=0)
    for code in (0x1000, 1 << 32, -1):
        found = error_rate(code)
        assert isinstance(found, Unknown)
        assert found.why is Why.IMPLAUSIBLE
