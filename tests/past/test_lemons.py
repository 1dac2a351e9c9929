"""What fails again beyond chance, and what must not be named: see the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.lemon_fleet import DAY_S, START_S, Site

from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.past import database
from nodegate.past.event import REPAIR, Event
from nodegate.past.keys import Keys, Placed
from nodegate.past.lemon import lines, to_do
from nodegate.past.lemons import at_least, beyond, of_record
from nodegate.past.record import FleetRecord
from nodegate.profile import Profile
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    pass

# Faults of good nodes: what the others have in a month.
USUAL = tuple((f"gpu{at:02}", "GPU 1", (at,)) for at in range(6, 10))
BOARD = "S/N gpu03-0"
FOUR, SIX = (2, 9, 16, 23), (2, 6, 10, 14, 18, 22)
Named = tuple[tuple[str, str, str], ...]
LENIENT = frozenset(range(28)) - {*FOUR}


def case(name, named=(), events=(), **site):
    """A fleet, and what is named of it: (what, part, advice)."""
    return pytest.param(site, named, events, id=name)


def on(*nights, node="gpu03", slot="GPU 0"):
    return node, slot, nights


def repaired(part, night):
    return Event(START_S + DAY_S * night, REPAIR, "", part, "me", "reseated")


ANY_PART = (on(2, 14), on(6, 18, slot="GPU 1"), on(10, 22, slot=""))
TWO_BY_TWO = (on(2, 6), on(12, 17), on(22, slot="GPU 1"), on(25, slot=""))
FIRMWARE = {f"gpu{at:02}": {"firmware": "bad" if at < 8 else "good"} for at in range(40)}
RACKS = {f"gpu{at:02}": {"rack": f"r{at // 8}"} for at in range(40)}
ONCE_OR_TWICE = tuple(on(at, 12 + at, node=f"gpu{at:02}", slot=f"GPU {at % 2}") for at in range(8))
OUTAGES = tuple(on(3, 9, 15, 21, node=f"gpu{at:02}") for at in range(8))
FLEET_OF_40 = {"nodes": 40, "faults": ONCE_OR_TWICE}
AGAIN = on(*FOUR)
SWAP, WATCH = (("board", BOARD, "swap"),), (("board", BOARD, "watch"),)
RMA, NEW = (("board", BOARD, "rma"),), (("board", "S/N brand-new", "service"),)
SOAK, SERVICE = (("node", "S/N chassis-gpu03", "soak"),), (("node", "S/N chassis-gpu03", "service"),)
SWAPPED = {13: ("gpu03", "gpu05")}
LINKS = tuple(("gpu03", "GPU 0", (night,), f"nvlink{night % 3}") for night in FOUR)
NEIGHBOUR = (*USUAL, on(2, 9, 16, 20, 23, 26))
CASES = (
    case("one fault each", faults=USUAL),
    case("a board", SWAP, faults=(*USUAL, AGAIN)),
    case("quiet since two weeks", WATCH, faults=[on(1, 4, 8, 12)]),
    case("an Xid, and quiet since two weeks", WATCH, xids=[("gpu03", 79, (1, 4, 8, 12))]),
    case("it lasts since two weeks", SWAP, faults=[on(1, 4, 8, *range(12, 28))]),
    case("not looked at since two weeks", SWAP, faults=[on(1, 4, 8, 11)], left_out={"gpu03": range(13, 28)}),
    case("its node runs no more", SOAK, faults=[on(1, 4, 8, slot=""), on(10)], left_out={"gpu03": range(13, 28)}),
    case("one fault for ten nights", faults=(*USUAL, on(*range(4, 14)))),
    case("not judged between is not gone", faults=(*USUAL, on(2, 9, 16)), unjudged=[("gpu03", range(28))]),
    case("the fault follows the board", RMA, faults=(*USUAL, on(2, 9), on(18, 24, node="gpu05")), swapped=SWAPPED),
    case("several links of a board that never moved", SWAP, faults=(*USUAL, *LINKS)),
    case("a lost board, whose neighbour has its number", SWAP, faults=(*USUAL, AGAIN), lost={"gpu03": (25, 26, 27)}),
    case("a neighbour fails under a lost board's number", SWAP, faults=NEIGHBOUR, lost={"gpu03": range(25, 28)}),
    case("a lost board was replaced", faults=(*USUAL, AGAIN), lost={"gpu03": (24,)}, replaced={25: "gpu03"}),
    case("the fault stays in the slot", SERVICE, faults=(*USUAL, *TWO_BY_TWO), swapped={9: ("gpu03", "gpu05")}),
    case("the new board fails too", NEW, faults=(*USUAL, on(2, 5, 8, 14, 18, 22)), replaced={11: "gpu03"}),
    case("a node", SOAK, faults=(*USUAL, *ANY_PART)),
    case("a node that is renamed", SOAK, faults=(*USUAL, *ANY_PART), renamed={12: ("gpu03", "newname")}),
    case("a node that is looked at ten times a day", faults=(*USUAL, *ANY_PART), often={"gpu03": 10}),
    case("a repaired board", (), (repaired(BOARD, 13.5),), faults=(*USUAL, on(2, 7, 12))),
    case("it fails on after its repair", SWAP, (repaired(BOARD, 13.5),), faults=(*USUAL, on(2, 7, 12, 16, 20, 24))),
    case("a repaired node", (), (repaired("S/N chassis-gpu03", 15.5),), faults=(*USUAL, *ANY_PART)),
    case("a board that was replaced", faults=(*USUAL, AGAIN), replaced={25: "gpu03"}),
    case("a batch of one firmware", (("batch", "firmware bad", "service"),), **FLEET_OF_40, traits=FIRMWARE),
    case("a rack", (("rack", "rack r0", "service"),), **FLEET_OF_40, traits=RACKS),
    case("outages of a rack", nodes=40, faults=OUTAGES, traits=RACKS),
    case("four nodes", nodes=4, faults=[on(2, 9, 16)]),
    case("Xids of programs", faults=USUAL, xids=[("gpu03", 31, FOUR), ("gpu03", 13, SIX)]),
    case("Xids of hardware", SWAP, faults=USUAL, xids=[("gpu03", 79, FOUR)]),
    case("an Xid of a fault that lasts", faults=[on(*range(28))], xids=[("gpu03", 79, FOUR)]),
    case("an Xid of what is waived", faults=[AGAIN], xids=[("gpu03", 79, FOUR)], waiver="W-1"),
    case("an Xid while that run went on", faults=[on(9, 20)], xids=[("gpu03", 79, (9, 20))], xids_after_s=600.0),
    case("it does not answer", SOAK, unreachable={"gpu03": SIX}),
    case("warnings", faults=[AGAIN], verdict="warn"),
    case("what is waived", faults=[AGAIN], waiver="W-1"),
    case("one fault, at times a warning", faults=[on(*range(2, 28))], lenient=LENIENT, verdict="warn"),
    case("one fault, at times waived", faults=[on(*range(2, 28))], lenient=LENIENT, waiver="W-1"),
    case("settings", faults=[AGAIN], sort="configuration"),
    case("rare and again in twelve weeks", SWAP, nights=84, faults=[on(5, 40, 75)]),
)


def kept(file, **of):
    site = Site(file, **of)
    site.keep()
    return site


def told(site, until_night=None):
    until = None if until_night is None else START_S + DAY_S * until_night
    with database.reading(site.record.file) as base:
        found = of_record(base, until)
    assert found is not None
    return found


@pytest.mark.parametrize(("site", "named", "events"), CASES)
def test_what_is_named(site, named, events, tmp_path):
    fleet = Site(tmp_path / "fleet.sqlite", **site)
    fleet.keep(events)
    assert tuple((each.unit.what, each.unit.key, each.advice) for each in told(fleet).named) == named


def test_the_past_of_a_board_is_asked_by_its_serial_number_and_as_it_was_then(tmp_path):
    site = kept(tmp_path / "fleet.sqlite", faults=(*USUAL, on(*FOUR)))
    here = Keys("gpu05", (Placed("GPU 1", "gpu03-0"), Placed("chassis", "chassis-gpu05")))
    assert [(slot, each.unit.node) for slot, each in told(site).of(here)] == [("GPU 1", "gpu03")]
    assert told(site, 16.0).of(here) == []
    assert told(site, 16.0).days["S/N chassis-gpu05"] == 16


def test_a_run_asks_for_its_own_parts_before_its_own_time(tmp_path, monkeypatch):
    site = kept(tmp_path / "fleet.sqlite", faults=(*USUAL, on(*FOUR)))
    parts = {"gpu03": ("gpu05-0", "chassis-gpu03"), "gpu05": ("gpu03-0", "chassis-gpu05"), "new": ("x", "y")}
    keys = {
        name: Keys(name, (Placed("GPU 0", gpu), Placed("chassis", chassis))) for name, (gpu, chassis) in parts.items()
    }
    for night, named in ((28, [("GPU 0", BOARD)]), (16, [])):
        nodes = {name: Node(name) for name in parts}
        baselines, waivers = Baselines.read(), Waivers()
        before = START_S + DAY_S * night
        judging = Judging(nodes, Profile.NIGHTLY, baselines, waivers, past=site.record, before_epoch_s=before)
        monkeypatch.setattr(judging.view, "keys", keys.__getitem__)
        of_moved, of_other = judging.view.fleet().past("gpu05"), judging.view.fleet().past("gpu03")
        assert of_moved is not None
        assert [(slot, each.unit.key) for slot, each in of_moved.again] == named
        assert of_other is not None
        assert (of_other.days, of_other.again) == (night, [])
        assert judging.view.fleet().past("new") is None
    site.file.write_bytes(b"damaged")
    lost = Judging(nodes, Profile.NIGHTLY, baselines, waivers, past=FleetRecord(site.file))
    assert lost.view.fleet().past("gpu05") is None


def test_a_reset_does_not_help_what_comes_again(tmp_path):
    site = kept(tmp_path / "fleet.sqlite", faults=(on(15, 20, 25), on(5, 20, 25, node="gpu04")))
    assert told(site).recurring == {(BOARD, "gpu03", "GPU 0"): "gpu_lost"}
    site = kept(tmp_path / "replaced.sqlite", faults=(on(15, 20, 23),), replaced={25: "gpu03"})
    assert told(site).recurring == {}
    kinds = tuple(("gpu03", "GPU 0", (night,), f"kind{night}") for night in (21, 23, 25, 26))
    site = kept(tmp_path / "other.sqlite", faults=kinds)
    assert told(site).recurring == {(BOARD, "gpu03", "GPU 0"): "any"}


def test_a_batch_on_two_platforms_with_its_own_dates(tmp_path):
    names = [f"gpu{at:02}" for at in range(80)]
    bad = [*names[:8], *names[40:48]]
    faults = [on(20 - 2 * (at % 8), 26 - 2 * (at % 8), node=name) for at, name in enumerate(bad)]
    traits = {name: {"firmware": "bad" if name in bad else "good"} for name in names}
    site = kept(tmp_path / "fleet.sqlite", nodes=80, faults=faults, traits=traits, others=names[40:])
    found = told(site).named
    assert [(each.unit.key, len(each.unit.members), each.recurs) for each in found] == [("firmware bad", 8, "")] * 2
    batches = {line.split(":")[0].strip() for line in lines(told(site)) if "firmware" in line}
    assert batches == {"firmware bad (hgx-h100-8)", "firmware bad (hgx-b200-8)"}
    for each in found:
        days = [round((fault.at_s - START_S) / DAY_S) for fault in each.unit.faults]
        assert (days[0], days[-1]) == (6, 26)


@pytest.mark.parametrize(
    ("site", "en", "zh"),
    [
        ({"faults": ANY_PART}, "it is not one board alone", "并非单一板卡"),
        ({"faults": (on(*FOUR, slot="GPU 5"),)}, "more than one part fails is not shown", "不能证明多个部件"),
        ({"faults": (on(*FOUR, slot=""),)}, "more than one part fails is not shown", "不能证明多个部件"),
        ({"faults": (on(2, 9, slot="GPU 5"), on(16, 23))}, "more than one part fails is not shown", "不能证明多个部件"),
        ({"faults": (on(2, 9, slot="GPU 5"), on(16, 23, slot="GPU 6"))}, "it is not one board alone", "并非单一板卡"),
        ({"unreachable": {"gpu03": SIX}}, "it did not answer", "节点无应答"),
    ],
    ids=["boards", "no number", "the node", "one with and one without a number", "two without", "no answer"],
)
def test_several_parts_only_where_shown(tmp_path, site, en, zh):
    fleet = kept(tmp_path / "fleet.sqlite", **site)
    (lemon,) = told(fleet).named
    assert lemon.advice == "soak"
    said = to_do(lemon)
    assert en in said.en
    assert zh in said.zh


def test_the_fleet_as_a_whole(tmp_path):
    site = kept(tmp_path / "fleet.sqlite", nodes=10, faults=(on(2, 3), on(9, node="gpu04")))
    figures = told(site).figures
    assert (figures.machines, figures.node_days, figures.faults) == (10, 280, 2)
    assert (figures.mtbf_days, figures.repair_hours) == (140.0, 48.0)
    assert figures.healthy_share == pytest.approx(277 / 280)


def test_a_platform_of_two_nodes_is_not_compared(tmp_path, monkeypatch):
    site = kept(tmp_path / "fleet.sqlite", nodes=2, faults=(on(*SIX, node="gpu01"),))
    few = {"S/N chassis-gpu00": "gpu00", "S/N chassis-gpu01": "gpu01"}
    assert (told(site).named, told(site).not_compared) == ((), few)
    judging = Judging({"new": Node("new")}, Profile.NIGHTLY, Baselines.read(), Waivers(), past=site.record)
    monkeypatch.setattr(judging.view, "keys", lambda _: Keys("new", (Placed("chassis", "chassis-gpu01"),)))
    past = judging.view.past("new")
    assert past is not None
    assert not past.compared


def test_the_chance_is_exact():
    assert at_least(3, 0, 0.25) == pytest.approx(0.25**3)
    assert at_least(2, 1, 0.5) == pytest.approx(0.5)
    assert beyond({"a": 0.001, "b": 0.019, "c": 0.2}, 5, 0.05) == {"a", "b"}
    assert beyond({"a": 0.02}, 5, 0.05) == set()
