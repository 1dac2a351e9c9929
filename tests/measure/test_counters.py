"""Counters as they grow: what was added, what cannot be known, and which devices are the same."""

import pytest
from support.counting import CounterCase, counted
from support.judging import plant

from nodegate.errors import CannotMeasure
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.subjects.counters import FULL_32_BITS, Growth, allowed, port_growth, replays_allowed
from nodegate.unknown import Unknown, Why

MISSING, DENIED = Unknown(Why.MISSING), Unknown(Why.DENIED)


def counters(during=lambda machine: None, before=lambda machine: None, **more):
    return counted(CounterCase("", Verdict.PASS, during, before, **more))


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        (14, 14, 0),
        (14, 20, 6),
        (7, 2, "from 7 to 2"),  # it went back
        (MISSING, 3, ""),
        (3, DENIED, ""),
        (MISSING, DENIED, ""),
        (MISSING, Unknown(Why.NOT_SUPPORTED), None),  # absent both times: it is not there at all
    ],
)
def test_a_counter_is_what_was_added_and_unknown_where_a_reading_is(before, after, by):
    grown = Growth("GPU 0", "replays", before, after)
    assert grown.is_reported is (by is not None)
    if isinstance(by, int):
        assert grown.by == by
    else:
        assert isinstance(grown.by, Unknown)
        assert (by or "") in grown.by.detail


def test_a_counter_whose_width_nobody_names_is_full_at_32_bits():
    (pair, *_) = counters(before=plant.set_port("mlx5_0", 1, "counters.port_xmit_wait", str(FULL_32_BITS))).ports
    assert port_growth(pair, "port_xmit_wait").full


def test_a_gpu_that_is_gone_renumbers_the_others_and_they_are_paired_all_the_same():
    found = counters(lambda machine: machine.remove_gpu(3))
    assert [(pair.before.index, pair.after.index) for pair in found.gpus][3:] == [(4, 3), (5, 4), (6, 5), (7, 6)]
    assert "0000:3d:00.0" in [part.pci for part in found.devices["vanished"]]


def test_the_window_is_the_time_between_both_readings():
    assert counters(seconds=600.0).seconds == 600.0
    with pytest.raises(CannotMeasure, match="was set back"):
        _ = counters(seconds=-5.0).seconds


def test_a_limit_per_hour_is_scaled_and_rounded_up():
    per_hour = Limit(120, "per hour", "IBTA")
    assert [allowed(per_hour, seconds).value for seconds in (15.0, 600.0, 3600.0, 7200.0)] == [1, 20, 120, 240]
    assert allowed(Limit(0, "per hour", "none"), 86_400.0).value == 0


def test_replays_are_allowed_by_generation_and_lanes():
    table = Limit((0.15, 0.3, 0.48, 0.96, 1.92, 3.84), "per minute", "DCGM")
    assert replays_allowed(table, 16, 4, 60.0).value == 16
    assert replays_allowed(table, 16, 5, 60.0).value == 31
    assert replays_allowed(table, 16, 9, 60.0).value == 62, "a generation that nobody knows yet: the highest known"
    assert isinstance(replays_allowed(table, MISSING, 5, 60.0), Unknown)
    assert isinstance(replays_allowed(table, 16, DENIED, 60.0), Unknown)
