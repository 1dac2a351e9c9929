"""What fails again beyond chance, and what must not be named: see the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.lemon_fleet import DAY_S, START_S, Site

from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.past import database
from nodegate.past.event import REPAIR, Event
from nodegate.past.keys import Keys, Placed
from nodegate.past.lemon import Told, lines, to_do
from nodegate.past.lemons import at_least, beyond, of_record
from nodegate.past.record import FleetRecord
from nodegate.profile import Profile
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    from pathlib import Path

# Faults of good nodes: what the others have in a month.
USUAL = tuple((f"gpu{at:02}", "GPU 1", (at,)) for at in range(6, 10))
BOARD = "S/N gpu03-0"
FOUR, SIX = (2, 9, 16, 23), (2, 6, 10, 14, 18, 22)
LENIENT = frozenset(range(28)) - {*FOUR}


@dataclass(frozen=True)
class Case:
    """A fleet, and what is named of it: (what, part, advice)."""

    name: str
    site: dict[str, Any]
    named: tuple[tuple[str, str, str], ...] = ()
    events: tuple[Event, ...] = field(default=())

    def __str__(self) -> str:
        return self.name


def on(node: str, *nights: int, slot: str = "GPU 0") -> tuple[str, str, tuple[int, ...]]:
    return node, slot, nights


def repaired(part: str, night: float) -> Event:
    return Event(START_S + DAY_S * night, REPAIR, "", part, "me", "reseated")


ANY_PART = (on("gpu03", 2, 14), on("gpu03", 6, 18, slot="GPU 1"), on("gpu03", 10, 22, slot=""))
TWO_BY_TWO = (on("gpu03", 2, 6), on("gpu03", 12, 17), on("gpu03", 22, slot="GPU 1"), on("gpu03", 25, slot=""))
FIRMWARE = {f"gpu{at:02}": {"firmware": "bad" if at < 8 else "good"} for at in range(40)}
RACKS = {f"gpu{at:02}": {"rack": f"r{at // 8}"} for at in range(40)}
ONCE_OR_TWICE = tuple(on(f"gpu{at:02}", at, 12 + at, slot=f"GPU {at % 2}") for at in range(8))
CASES = (
    Case("one fault each", {"faults": USUAL}),
    Case("a board", {"faults": (*USUAL, on("gpu03", *FOUR))}, (("board", BOARD, "swap"),)),
    Case("quiet since two weeks", {"faults": (on("gpu03", 1, 4, 8, 12),)}, (("board", BOARD, "watch"),)),
    Case("an Xid, and quiet since two weeks", {"xids": (("gpu03", 79, (1, 4, 8, 12)),)}, (("board", BOARD, "watch"),)),
    Case("it lasts since two weeks", {"faults": (on("gpu03", 1, 4, 8, *range(12, 28)),)}, (("board", BOARD, "swap"),)),
    Case(
        "not looked at since two weeks",
        {"faults": (on("gpu03", 1, 4, 8, 11),), "left_out": {"gpu03": range(13, 28)}},
        (("board", BOARD, "swap"),),
    ),
    Case(
        "its node does not run since two weeks",
        {"faults": (on("gpu03", 1, 4, 8, slot=""), on("gpu03", 10)), "left_out": {"gpu03": range(13, 28)}},
        (("node", "S/N chassis-gpu03", "soak"),),
    ),
    Case("one fault for ten nights", {"faults": (*USUAL, on("gpu03", *range(4, 14)))}),
    Case(
        "not judged between is not gone",
        {"faults": (*USUAL, on("gpu03", 2, 9, 16)), "unjudged": (("gpu03", range(28)),)},
    ),
    Case(
        "the fault follows the board",
        {"faults": (*USUAL, on("gpu03", 2, 9), on("gpu05", 18, 24)), "swapped": {13: ("gpu03", "gpu05")}},
        (("board", BOARD, "rma"),),
    ),
    Case(
        "several links of a board that never moved",
        {"faults": (*USUAL, *(("gpu03", "GPU 0", (night,), f"nvlink{night % 3}") for night in FOUR))},
        (("board", BOARD, "swap"),),
    ),
    Case(
        "a board that is lost in the newest run, and its neighbour has its number",
        {"faults": (*USUAL, on("gpu03", *FOUR)), "lost": {"gpu03": (25, 26, 27)}},
        (("board", BOARD, "swap"),),
    ),
    Case(
        "a neighbour that fails under the number of a lost board",
        {"faults": (*USUAL, on("gpu03", 2, 9, 16, 20, 23, 26)), "lost": {"gpu03": range(25, 28)}},
        (("board", BOARD, "swap"),),
    ),
    Case(
        "a lost board that was replaced",
        {"faults": (*USUAL, on("gpu03", *FOUR)), "lost": {"gpu03": (24,)}, "replaced": {25: "gpu03"}},
    ),
    Case(
        "the fault stays in the slot",
        {"faults": (*USUAL, *TWO_BY_TWO), "swapped": {9: ("gpu03", "gpu05")}},
        (("node", "S/N chassis-gpu03", "service"),),
    ),
    Case(
        "the board was replaced and the new one fails too",
        {"faults": (*USUAL, on("gpu03", 2, 5, 8, 14, 18, 22)), "replaced": {11: "gpu03"}},
        (("board", "S/N brand-new", "service"),),
    ),
    Case("a node", {"faults": (*USUAL, *ANY_PART)}, (("node", "S/N chassis-gpu03", "soak"),)),
    Case(
        "a node that is renamed",
        {"faults": (*USUAL, *ANY_PART), "renamed": {12: ("gpu03", "newname")}},
        (("node", "S/N chassis-gpu03", "soak"),),
    ),
    Case("a node that is looked at ten times a day", {"faults": (*USUAL, *ANY_PART), "often": {"gpu03": 10}}),
    Case("a repaired board", {"faults": (*USUAL, on("gpu03", 2, 7, 12))}, events=(repaired(BOARD, 13.5),)),
    Case(
        "a board that fails on after its repair",
        {"faults": (*USUAL, on("gpu03", 2, 7, 12, 16, 20, 24))},
        (("board", BOARD, "swap"),),
        (repaired(BOARD, 13.5),),
    ),
    Case("a repaired node", {"faults": (*USUAL, *ANY_PART)}, events=(repaired("S/N chassis-gpu03", 15.5),)),
    Case("a board that was replaced", {"faults": (*USUAL, on("gpu03", *FOUR)), "replaced": {25: "gpu03"}}),
    Case(
        "a batch of one firmware",
        {"nodes": 40, "faults": ONCE_OR_TWICE, "traits": FIRMWARE},
        (("batch", "firmware bad", "service"),),
    ),
    Case(
        "a rack",
        {"nodes": 40, "faults": ONCE_OR_TWICE, "traits": RACKS},
        (("rack", "rack r0", "service"),),
    ),
    Case(
        "outages of a rack",
        {
            "nodes": 40,
            "faults": tuple(on(f"gpu{at:02}", 3, 9, 15, 21) for at in range(8)),
            "traits": RACKS,
        },
    ),
    Case("four nodes", {"nodes": 4, "faults": (on("gpu03", 2, 9, 16),)}),
    Case("Xids of programs", {"faults": USUAL, "xids": (("gpu03", 31, FOUR), ("gpu03", 13, SIX))}),
    Case("Xids of hardware", {"faults": USUAL, "xids": (("gpu03", 79, FOUR),)}, (("board", BOARD, "swap"),)),
    Case("an Xid of a fault that lasts", {"faults": (on("gpu03", *range(28)),), "xids": (("gpu03", 79, FOUR),)}),
    Case(
        "an Xid of what is waived", {"faults": (on("gpu03", *FOUR),), "xids": (("gpu03", 79, FOUR),), "waiver": "W-1"}
    ),
    Case(
        "an Xid while the run that found the fault went on",
        {"faults": (on("gpu03", 9, 20),), "xids": (("gpu03", 79, (9, 20)),), "xids_after_s": 600.0},
    ),
    Case("it does not answer", {"unreachable": {"gpu03": SIX}}, (("node", "S/N chassis-gpu03", "soak"),)),
    Case("warnings", {"faults": (on("gpu03", *FOUR),), "verdict": "warn"}),
    Case("what is waived", {"faults": (on("gpu03", *FOUR),), "waiver": "W-1"}),
    *(
        Case(f"one fault, at times {each}", {"faults": (on("gpu03", *range(2, 28)),), "lenient": LENIENT, **each})
        for each in ({"verdict": "warn"}, {"waiver": "W-1"})
    ),
    Case("settings", {"faults": (on("gpu03", *FOUR),), "sort": "configuration"}),
    Case(
        "rare and again in twelve weeks",
        {"nights": 84, "faults": (on("gpu03", 5, 40, 75),)},
        (("board", BOARD, "swap"),),
    ),
)


def told(site: Site, until_night: float | None = None) -> Told:
    until = None if until_night is None else START_S + DAY_S * until_night
    with database.reading(site.record.file) as base:
        found = of_record(base, until)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_named(case: Case, tmp_path: Path) -> None:
    site = Site(tmp_path / "fleet.sqlite", **case.site)
    site.keep(case.events)
    found = told(site)
    assert tuple((each.unit.what, each.unit.key, each.advice) for each in found.named) == case.named


def test_the_past_of_a_board_is_asked_by_its_serial_number_and_as_it_was_then(tmp_path: Path) -> None:
    site = Site(tmp_path / "fleet.sqlite", faults=(*USUAL, on("gpu03", *FOUR)))
    site.keep()
    here = Keys("gpu05", (Placed("GPU 1", "gpu03-0"), Placed("chassis", "chassis-gpu05")))
    assert [(slot, each.unit.node) for slot, each in told(site).of(here)] == [("GPU 1", "gpu03")]
    assert told(site, 16.0).of(here) == []
    assert told(site, 16.0).days["S/N chassis-gpu05"] == 16


def test_a_run_asks_for_its_own_parts_before_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path / "fleet.sqlite", faults=(*USUAL, on("gpu03", *FOUR)))
    site.keep()
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


def test_a_reset_does_not_help_what_comes_again(tmp_path: Path) -> None:
    site = Site(tmp_path / "fleet.sqlite", faults=(on("gpu03", 15, 20, 25), on("gpu04", 5, 20, 25)))
    site.keep()
    assert told(site).recurring == {(BOARD, "gpu03", "GPU 0"): "gpu_lost"}
    site = Site(tmp_path / "replaced.sqlite", faults=(on("gpu03", 15, 20, 23),), replaced={25: "gpu03"})
    site.keep()
    assert told(site).recurring == {}
    kinds = tuple(("gpu03", "GPU 0", (night,), f"kind{night}") for night in (21, 23, 25, 26))
    site = Site(tmp_path / "other.sqlite", faults=kinds)
    site.keep()
    assert told(site).recurring == {(BOARD, "gpu03", "GPU 0"): "any"}


def test_a_batch_on_two_platforms_with_its_own_dates(tmp_path: Path) -> None:
    names = [f"gpu{at:02}" for at in range(80)]
    bad = [*names[:8], *names[40:48]]
    faults = [on(name, 20 - 2 * (at % 8), 26 - 2 * (at % 8)) for at, name in enumerate(bad)]
    traits = {name: {"firmware": "bad" if name in bad else "good"} for name in names}
    site = Site(tmp_path / "fleet.sqlite", nodes=80, faults=faults, traits=traits, others=names[40:])
    site.keep()
    found = told(site).named
    assert [(each.unit.key, len(each.unit.members), each.recurs) for each in found] == [("firmware bad", 8, "")] * 2
    assert {line.split(":")[0].strip() for line in lines(told(site)) if "firmware" in line} == {
        "firmware bad (hgx-h100-8)",
        "firmware bad (hgx-b200-8)",
    }
    for each in found:
        days = [round((fault.at_s - START_S) / DAY_S) for fault in each.unit.faults]
        assert (days[0], days[-1]) == (6, 26)


@pytest.mark.parametrize(
    ("site", "en", "zh"),
    [
        ({"faults": ANY_PART}, "it is not one board alone", "并非单一板卡"),
        ({"faults": (on("gpu03", *FOUR, slot="GPU 5"),)}, "more than one part fails is not shown", "不能证明多个部件"),
        ({"faults": (on("gpu03", *FOUR, slot=""),)}, "more than one part fails is not shown", "不能证明多个部件"),
        (
            {"faults": (on("gpu03", 2, 9, slot="GPU 5"), on("gpu03", 16, 23))},
            "more than one part fails is not shown",
            "不能证明多个部件",
        ),
        (
            {"faults": (on("gpu03", 2, 9, slot="GPU 5"), on("gpu03", 16, 23, slot="GPU 6"))},
            "it is not one board alone",
            "并非单一板卡",
        ),
        ({"unreachable": {"gpu03": SIX}}, "it did not answer", "节点无应答"),
    ],
    ids=["boards", "no number", "the node", "one with and one without a number", "two without", "no answer"],
)
def test_a_node_has_several_parts_only_where_the_record_shows_it(
    tmp_path: Path, site: dict[str, Any], en: str, zh: str
) -> None:
    fleet = Site(tmp_path / "fleet.sqlite", **site)
    fleet.keep()
    (lemon,) = told(fleet).named
    assert lemon.advice == "soak"
    said = to_do(lemon)
    assert en in said.en
    assert zh in said.zh


def test_the_fleet_as_a_whole(tmp_path: Path) -> None:
    site = Site(tmp_path / "fleet.sqlite", nodes=10, faults=(on("gpu03", 2, 3), on("gpu04", 9)))
    site.keep()
    figures = told(site).figures
    assert (figures.machines, figures.node_days, figures.faults) == (10, 280, 2)
    assert (figures.mtbf_days, figures.repair_hours) == (140.0, 48.0)
    assert figures.healthy_share == pytest.approx(277 / 280)


def test_a_platform_of_two_nodes_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path / "fleet.sqlite", nodes=2, faults=(on("gpu01", *SIX),))
    site.keep()
    few = {"S/N chassis-gpu00": "gpu00", "S/N chassis-gpu01": "gpu01"}
    assert (told(site).named, told(site).not_compared) == ((), few)
    judging = Judging({"new": Node("new")}, Profile.NIGHTLY, Baselines.read(), Waivers(), past=site.record)
    monkeypatch.setattr(judging.view, "keys", lambda _: Keys("new", (Placed("chassis", "chassis-gpu01"),)))
    past = judging.view.past("new")
    assert past is not None
    assert not past.compared


def test_the_chance_is_exact() -> None:
    assert at_least(3, 0, 0.25) == pytest.approx(0.25**3)
    assert at_least(2, 1, 0.5) == pytest.approx(0.5)
    assert beyond({"a": 0.001, "b": 0.019, "c": 0.2}, 5, 0.05) == {"a", "b"}
    assert beyond({"a": 0.02}, 5, 0.05) == set()
