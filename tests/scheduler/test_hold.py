"""Whose a hold is, and what becomes of nodes where it cannot be had; lab/tests/slurm/test_hold.py has Slurm itself."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field

import pytest

from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.groups.settings import launch_settings
from nodegate.measure.registry import MEASURED, wanted
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.holding import SPARE_S, Holding, holders
from nodegate.run.plan import Plan
from nodegate.scheduler.hold import Held, has_ended, owner
from nodegate.scheduler.slurm import SlurmHold, reservation_name

HELD = {"hold": "slurm"}


def test_an_owner_has_ended_when_its_process_is_gone() -> None:
    host, _, started = owner().split(" ")
    with subprocess.Popen(["sleep", "60"]) as other:
        theirs = f"{host} {other.pid} {started}"  # the same number, begun at another time
        assert has_ended(theirs)
        other.kill()
    assert not has_ended(owner())
    assert has_ended(f"{host} {other.pid} {started}")
    assert not has_ended(f"elsewhere {other.pid} {started}")


@pytest.mark.parametrize("written", ["", "gpu", "a b c", "host 1", "host -1 5", "a comment of another program"])
def test_what_is_no_owner_is_left_alone(written: str) -> None:
    assert not has_ended(written)


def test_without_slurm_nothing_is_held_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    holder = SlurmHold({"gpu01.site": "gpu01"})
    assert holder.hold(["gpu01.site"], time.time() + 60) == Held((), {"gpu01.site": "sinfo is not installed here"})
    assert (holder.left_behind(), holder.give_back()) == ((), "squeue is not installed here")


def test_nodes_are_held_together_by_reservation_and_only_where_it_is_asked_for() -> None:
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


def test_launches_on_held_nodes_are_of_mpirun_or_inside_the_reservation() -> None:
    assert launch_settings(Node("a", expected=HELD)).launcher == "mpirun"
    inside = launch_settings(Node("a", expected=HELD | {"launcher": "srun", "slurm_reservation": "accept"}))
    assert inside.srun == {"reservation": reservation_name("accept")}


@dataclass
class Refusing:
    """A scheduler that holds all but one node, and does not take them back."""

    names: dict[str, str] = field(default_factory=lambda: {"a": "a", "b": "b"})
    until: float = 0.0

    def hold(self, nodes: list[str], until: float) -> Held:
        self.until = until
        return Held(("a",), {"b": "its state in Slurm is mixed"} if "b" in nodes else {})

    def give_back(self) -> str:
        return "scancel did not answer within 30 s"

    def left_behind(self) -> tuple[str, ...]:
        return ("12",)


def test_a_run_says_what_it_could_not_hold_or_give_back() -> None:
    holder = Refusing()
    durations = OF_PROFILE[Profile.NIGHTLY]
    holding = Holding(Plan([], durations, measurements=wanted(MEASURED), holders=[holder]))
    refused = holding.begin(["a", "b", "c"])
    assert {name: said.reason for name, said in refused.items()} == {
        "b": "the node cannot be held: its state in Slurm is mixed"
    }
    assert holder.until - time.time() > SPARE_S + durations.burn_s
    holding.give_back()
    holding.give_back()
    first, second = holding.notes
    assert first == "given back what a run that was killed had held: 12"
    assert second.endswith("or until they are given back: scancel did not answer within 30 s")


def test_a_run_without_load_holds_nothing() -> None:
    assert Holding(Plan([], OF_PROFILE[Profile.NIGHTLY], holders=[Refusing()])).begin(["b"]) == {}
