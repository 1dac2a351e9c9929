"""Before a node is changed in Slurm: observing, and how many may be within 15 minutes."""

import ast
import threading
import time
from pathlib import Path

import pytest
from support.slurm_nodes import DRAIN, SlurmNodes

from nodegate.hook import guard, slurm
from nodegate.hook.guard import DRAINED, GIVEN_BACK, LEFT, NOT_DONE, OBSERVED, OPEN, RESUMED, Rules
from nodegate.scheduler.programs import NoAnswer

SOURCE = Path(guard.__file__).parents[1]
WHY = "nodegate: GPU 3: lost"
FLEET = [f"n{number:02}" for number in range(40)]


def at_once(hook):
    """A hook on each node of the fleet."""
    running = [threading.Thread(target=hook, args=(name,), name=name) for name in FLEET]
    for each in running:
        each.start()
    for each in running:
        each.join(60)


@pytest.mark.parametrize(
    ("partitions", "percent", "drained", "code"),
    [
        ({"a": 40}, 5, [], DRAINED),
        ({"a": 40}, 5, [60], DRAINED),
        ({"a": 40}, 5, [60, 880], OPEN),
        ({"a": 40}, 5, [60, 920], DRAINED),  # longer than 15 minutes ago
        ({"a": 40}, 5, [60, -3000], OPEN),  # a clock that is wrong
        ({"a": 40}, 10, [60, 60, 60], DRAINED),
        ({"a": 40}, 10, [60, 60, 60, 60], OPEN),
        ({"a": 40}, 2.4, [], DRAINED),  # at least one
        ({"a": 40}, 2.4, [60], OPEN),
        ({"a": 1}, 5, [], DRAINED),
        ({"a": 40, "b": 10}, 5, [60], OPEN),  # the strictest
        ({"a": 40, "b": 10}, 5, [920], DRAINED),
        ({"a": 40}, 100, [0] * 39, DRAINED),
    ],
)
def test_as_many_as_may_be(monkeypatch, partitions, percent, drained, code):
    nodes = SlurmNodes(monkeypatch, {name: FLEET[:count] for name, count in partitions.items()})
    for name, ago_s in zip(FLEET[1:], drained, strict=False):
        nodes.set(name, reason="nodegate: x", ago_s=ago_s)
    done = guard.drain(FLEET[0], WHY, Rules(percent=percent))
    assert (done.code, done.is_out) == (code, code == DRAINED)
    assert nodes.told == ([f"drain n00 {WHY}"] if code == DRAINED else [])
    assert ("nodes of partition" in done.words) is (code == OPEN)


def test_what_others_drained_and_another_partition_do_not_count(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET[:20], "b": FLEET[20:]})
    for name in FLEET[1:20]:
        nodes.set(name, reason="Prolog error")
    for name in FLEET[20:]:
        nodes.set(name, reason="nodegate: x")
    assert guard.drain(FLEET[0], WHY, Rules()).code == DRAINED


def test_a_node_of_no_partition_counts_with_the_whole_cluster(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"": FLEET[:10]})
    assert guard.drain(FLEET[0], WHY, Rules()).code == DRAINED
    assert guard.drain(FLEET[1], WHY, Rules()).code == OPEN
    assert nodes.ours == [FLEET[0]]


def test_observing_asks_and_changes_nothing(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    nodes.silent = True
    done = guard.drain(FLEET[0], WHY, Rules(observe=True))
    assert (done.code, done.is_out, WHY in done.words) == (OBSERVED, False, True)
    nodes.silent = False
    nodes.set(FLEET[0], reason=WHY)
    assert guard.resume(FLEET[0], Rules(observe=True)) == guard.Done(OBSERVED, "would be resumed, mode observe")
    assert nodes.told == []


@pytest.mark.parametrize("silent_from", [0, 1, 2, 3])
def test_without_slurms_answer_nothing_stays_drained(monkeypatch, silent_from):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    asked: list[str] = []
    for name in ("nodes", "drain"):
        whole = getattr(slurm, name)

        def call(*words, name=name, whole=whole):
            asked.append(name)
            if len(asked) - 1 == silent_from:
                raise NoAnswer("scontrol did not answer within 5 s")
            return whole(*words)

        monkeypatch.setattr(slurm, name, call)
    done = guard.drain(FLEET[0], WHY, Rules())
    assert (done.code, done.is_out) == ([NOT_DONE, NOT_DONE, GIVEN_BACK, DRAINED][silent_from], silent_from == 3)
    assert "did not answer" in done.words or silent_from == 3
    assert nodes.ours == ([FLEET[0]] if silent_from == 3 else [])


def test_a_drain_of_which_no_answer_came_is_found_again(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    whole = slurm.drain

    def drain(name, reason):
        whole(name, reason)
        raise NoAnswer("scontrol did not answer within 5 s")

    monkeypatch.setattr(slurm, "drain", drain)
    assert guard.drain(FLEET[0], WHY, Rules()) == guard.Done(DRAINED, "drained", is_out=True)
    assert nodes.ours == [FLEET[0]]


def test_a_drain_that_others_have_taken_over_is_theirs(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    monkeypatch.setattr(time, "sleep", lambda _: nodes.set(FLEET[0], reason="ops: mine now"))
    done = guard.drain(FLEET[0], WHY, Rules())
    assert done == guard.Done(LEFT, "drained by others: ops: mine now", is_out=True)
    assert [each for each in nodes.told if each.startswith("undrain")] == []


@pytest.mark.parametrize(("percent", "shift_s"), [(5, 0), (5, 7200), (5, -7200), (2.5, 0), (100, 0)])
def test_hooks_that_decide_at_the_same_moment(monkeypatch, percent, shift_s):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    nodes.shift_s = shift_s
    monkeypatch.setattr(guard, "SETTLE_S", 1.2)
    seen, together, done = slurm.nodes, threading.Barrier(len(FLEET)), {}
    first = threading.local()

    def look():
        found = seen()
        if not getattr(first, "over", False):  # all have seen the same: none is drained
            first.over = True
            together.wait(30)
            time.sleep(hash(threading.current_thread().name) % 7 / 10)  # and are late by less than a second
        return found

    def hook(name):
        done[name] = guard.drain(name, WHY, Rules(percent=percent))

    monkeypatch.setattr(slurm, "nodes", look)
    at_once(hook)
    assert len(nodes.ours) == max(1, int(40 * percent / 100))
    assert {name for name, each in done.items() if each.is_out} == set(nodes.ours)


def test_resuming_is_counted_too(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    for name in FLEET[:6]:
        nodes.set(name, reason=WHY)
    found = [guard.resume(name, Rules()) for name in FLEET[:4]]
    assert [each.code for each in found if each] == [RESUMED, RESUMED, OPEN, OPEN]
    assert found[0] == guard.Done(RESUMED, f"resumed, was {WHY}")
    nodes.held[FLEET[0]] = slurm.Node(
        frozenset({"IDLE"}), "", FLEET[0], ("a",), extra=f"{guard._MARK}{time.time() - 999:.0f}"
    )
    assert nodes.ours == FLEET[2:6]
    assert (again := guard.resume(FLEET[2], Rules())) is not None
    assert again.code == RESUMED


def test_resumes_at_the_same_moment_are_drained_again(monkeypatch):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    monkeypatch.setattr(guard, "RESUME_SETTLE_S", 0.5)
    for name in FLEET:
        nodes.set(name, reason=WHY)
    together, whole = threading.Barrier(len(FLEET)), slurm.undrain

    def undrain(name, extra=""):
        together.wait(30)
        whole(name, extra)

    monkeypatch.setattr(slurm, "undrain", undrain)
    at_once(lambda name: guard.resume(name, Rules()))
    assert len(nodes.ours) == 38


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda nodes: nodes.set(FLEET[0], states=("IDLE",)), None),
        (lambda nodes: nodes.set(FLEET[0], reason="maintenance by ops"), None),
        (lambda nodes: nodes.set(FLEET[0], states=("DOWN", "DRAIN"), reason=WHY), None),
        (lambda nodes: nodes.held.update(n00=slurm.Node(DRAIN, WHY, "n00", ("a",), extra="rack=4")), NOT_DONE),
        (lambda nodes: setattr(nodes, "silent", True), NOT_DONE),
    ],
)
def test_what_is_not_resumed(monkeypatch, change, code):
    nodes = SlurmNodes(monkeypatch, {"a": FLEET})
    nodes.set(FLEET[0], reason=WHY)
    change(nodes)
    done = guard.resume(FLEET[0], Rules())
    assert (done.code if done else None) == code
    assert nodes.told == []


def test_no_other_module_changes_a_node():
    for file in SOURCE.rglob("*.py"):
        called = {
            each.func.attr
            for each in ast.walk(ast.parse(file.read_bytes()))
            if isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and isinstance(each.func.value, ast.Name)
            and each.func.value.id == "slurm"
        }
        assert not called & {"drain", "undrain"} or file.name == "guard.py", file
