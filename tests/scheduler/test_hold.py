"""Whose a hold is, and what becomes of nodes where it cannot be had; lab/tests/slurm/test_hold.py has Slurm itself."""

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.groups.settings import launch_settings
from nodegate.measure.registry import MEASURED, wanted
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.holding import Holding, holders
from nodegate.run.load import Plan
from nodegate.scheduler.hold import Held, has_ended, owner
from nodegate.scheduler.slurm import SlurmHold, reservation_name

HELD = {"hold": "slurm"}


def test_an_owner_has_ended_when_its_process_is_gone():
    host, _, started = owner().split(" ")
    with subprocess.Popen(["sleep", "60"]) as other:
        theirs = f"{host} {other.pid} {started}"  # the same number, begun at another time
        assert has_ended(theirs)
        other.kill()
    assert not has_ended(owner())
    assert has_ended(f"{host} {other.pid} {started}")
    assert not has_ended(f"elsewhere {other.pid} {started}")


@pytest.mark.parametrize("written", ["", "gpu", "a b c", "host 1", "host -1 5", "a comment of another program"])
def test_what_is_no_owner_is_left_alone(written):
    assert not has_ended(written)


def test_without_slurm_nothing_is_held_and_the_reason_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    holder = SlurmHold({"gpu01.site": "gpu01"})
    assert holder.hold(["gpu01.site"], time.time() + 60) == Held((), {"gpu01.site": "sinfo is not installed here"})
    assert (holder.left_behind(), holder.give_back()) == ((), "")  # nothing was asked for, so nothing is held


def test_nodes_that_slurm_could_not_tell_apart_are_refused():
    nodes = [Node(name, expected=HELD) for name in ("10.0.0.1", "10.0.0.2", "gpu1.a", "gpu1.b")]
    (holder,) = holders(nodes)
    found = holder.hold([node.name for node in nodes], time.time() + 60.0)
    assert (found.nodes, found.refused.keys()) == ((), {node.name for node in nodes})
    assert all("set nodegate_slurm_name" in why for why in found.refused.values())


def test_what_was_asked_for_without_an_answer_may_be_held_and_is_told(tmp_path, monkeypatch):
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'gpu01|gpu*|up|idle'\n")
    sinfo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    holder = SlurmHold({"gpu01.site": "gpu01"})
    assert holder.hold(["gpu01.site"], time.time() + 60) == Held((), {"gpu01.site": "squeue is not installed here"})
    assert (holder.left_behind(), holder.give_back()) == ((), "squeue is not installed here")


def test_nodes_are_held_together_by_reservation_and_only_where_it_is_asked_for():
    nodes = [
        Node("a.site", expected=HELD),
        Node("b", expected=HELD | {"slurm_name": "node-b", "srun": {"partition": "gpu"}}),
        Node("c", expected=HELD | {"slurm_reservation": "accept"}),
        Node("d", expected={"slurm_reservation": "accept"}),
    ]
    one, other = holders(nodes)
    assert isinstance(one, SlurmHold)
    assert (one.names, one.options["b"]) == ({"a.site": "a", "b": "node-b"}, {"partition": "gpu"})
    assert other.names == {"c": "c"}


def test_launches_on_held_nodes_are_of_mpirun_or_inside_the_reservation():
    assert launch_settings(Node("a", expected=HELD)).launcher == "mpirun"
    inside = launch_settings(Node("a", expected=HELD | {"launcher": "srun", "slurm_reservation": "accept"}))
    assert inside.srun == {"reservation": reservation_name("accept")}


@dataclass
class Scheduler:
    """A scheduler that holds all but `refuses`, and fails to take back what it holds for the first `fails` times."""

    names: dict[str, str] = field(default_factory=lambda: {"a": "a", "b": "b"})
    refuses: str = ""
    fails: int = 0
    until: float = 0.0
    holds: list[str] = field(default_factory=list)
    left: tuple[str, ...] = ()
    asks: Callable[[], None] = lambda: None

    def hold(self, nodes, until, *, ended):
        self.until = until
        self.asks()
        self.holds = [each for each in nodes if each != self.refuses and not ended()]
        return Held(tuple(self.holds), {self.refuses: "its state in Slurm is mixed"} if self.refuses in nodes else {})

    def lost(self):
        return tuple({"a", "b"} - set(self.holds))

    def give_back(self):
        self.fails -= 1
        if self.fails >= 0:
            return "scancel did not answer within 30 s"
        self.holds = []
        return ""

    def left_behind(self):
        return self.left


def holding(scheduler, durations=OF_PROFILE[Profile.NIGHTLY]):
    return Holding(Plan([], durations, measurements=wanted(MEASURED), holders=[scheduler]))


def test_a_run_says_what_it_could_not_hold_and_what_was_left():
    ours = holding(Scheduler(refuses="b", left=("12",)))
    refused = {name: said.reason for name, said in ours.begin(["a", "b", "c"]).items()}
    assert refused == {"b": "the node cannot be held: its state in Slurm is mixed"}
    assert ours.notes == ("given back what a run that was killed had held: 12",)


@pytest.mark.parametrize(("fails", "notes"), [(0, 0), (2, 0), (3, 1)])
def test_what_is_not_given_back_is_tried_again_and_then_told(monkeypatch, fails, notes):
    monkeypatch.setattr("nodegate.run.holding.PAUSES_S", (0.0, 0.0, 0.0))
    scheduler = Scheduler(fails=fails)
    ours = holding(scheduler)
    ours.begin(["a"])
    ours.give_back()
    assert (len(ours.notes), len(scheduler.holds)) == (notes, notes)
    assert all(note.endswith("or until they are given back: scancel did not answer within 30 s") for note in ours.notes)
    ours.give_back()
    assert (ours.notes, scheduler.holds) == ((), [])


def test_a_run_that_is_ended_while_nodes_are_held_gives_back_what_comes_meanwhile():
    asked, goes_on = threading.Event(), threading.Event()

    def asks():
        asked.set()
        goes_on.wait(10)

    scheduler = Scheduler(asks=asks)
    ours = holding(scheduler)
    begins = threading.Thread(target=ours.begin, args=(["a", "b"],))
    begins.start()
    assert asked.wait(10)
    ends = threading.Thread(target=ours.give_back)
    ends.start()
    time.sleep(0.2)
    goes_on.set()
    begins.join(10)
    ends.join(10)
    assert (scheduler.fails, scheduler.holds) == (-1, [])


@pytest.mark.parametrize("hours", [0.0, 1.0, 24.0])
def test_a_hold_is_as_long_as_the_load_with_some_to_spare(hours):
    """Later looks burn for a short time: a partition's limit has room for the burn and half as much again."""
    scheduler, durations = Scheduler(), OF_PROFILE[Profile.DELIVERY]
    holding(scheduler, replace(durations, burn_s=hours * 3600 or durations.burn_s)).begin(["a"])
    needed_h = (scheduler.until - time.time()) / 3600
    assert 1.5 * hours < needed_h < 1.5 * hours + 4.5


def test_a_run_without_load_holds_nothing():
    assert Holding(Plan([], OF_PROFILE[Profile.NIGHTLY], holders=[Scheduler()])).begin(["b"]) == {}
