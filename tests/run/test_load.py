"""The stages under load over nodes that are this machine: programs really run, suspects are measured again."""

import io
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lab.processes import wait_until
from nodegate.errors import Busy, CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import Measurement, Target, on_each_node, suspects_alone
from nodegate.measure.program_run import run
from nodegate.metric import Metric
from nodegate.node import Connection, Node
from nodegate.numbers.assessments import Doubt
from nodegate.probe.document import document_of
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.records.run_folder import RunFolder
from nodegate.run import progress
from nodegate.run.load import Load
from nodegate.run.progress import Progress, ThreadPool
from nodegate.transport.command import CommandSession

LENGTH = Durations(burn_s=600.0, copies_s=1.0, link_s=1.0, collective_s=2.0, group_s=2.0)


@dataclass(frozen=True)
class Speed:
    metrics: tuple[Metric, ...]


def parse_speed(attempts):
    found = [float(ran.stdout) for attempt in attempts for ran in attempt.runs if ran.stdout.strip()]
    if not found:
        raise CannotMeasure("no speed", next_step="measure again")
    return Speed((Metric("test.speed_gbps", tuple(found), "Gb/s"),))


class NoTools:
    def find(self, *names):
        raise CannotMeasure(f"no {names[0]}", next_step="install it")


@dataclass
class Judge:
    """A gate with fixed answers. `gates`: who must not take part. A value below `least` is suspect."""

    least: float = 0.0
    gates: Mapping[str, CannotMeasure] = field(default_factory=dict)

    def refusal(self, node, measurement):
        return self.gates.get(node)

    def suspects(self, measured, bounds, *, alone):
        low = {name: [each for each in metrics if each.judged < self.least] for name, metrics in measured.items()}
        found = {name: tuple(map(Doubt, low[name])) for name, metrics in measured.items() if low[name] or not metrics}
        return {**dict.fromkeys(measured, ()), **found} if alone and found else found


def target(name, looks=LENGTH.looks):
    node = Node(name, Connection(transport="local"))
    facts = NodeFacts(document_of({"schema": "nodegate.probe/1", "sections": {}, "uid": 0}))
    return Target(node, CommandSession(node), facts, NoTools(), replace(LENGTH, looks=looks))  # type: ignore[arg-type]


def measurement(speeds, *, applies=lambda _facts: "", seen=None):
    """Each node's speeds, one a time that it is asked; printed by a real program."""
    left = {name: list(values) for name, values in speeds.items()}

    def ask(at):
        if seen is not None:
            seen.append((at.node.name, at.durations.burn_s))
        return [run(at.session, "speed", ["echo", left[at.node.name].pop(0)], timeout_s=10)]

    measure = on_each_node(ask)
    return Measurement("speed", "gpu", applies, (), measure, suspects_alone(measure), parse_speed)


def put_under_load(tmp_path, what, judge, nodes, *, keep=False, looks=LENGTH.looks, lost=dict):
    (tmp_path / "evidence").mkdir(exist_ok=True)
    targets, pool = [target(name, looks) for name in nodes], ThreadPool(Progress(None), threading.Event())
    load = Load(RunFolder(tmp_path), targets, pool, judge, lost)
    load.run([what], keep=keep)
    return load


def evidence(tmp_path, node):
    found = RunFolder(tmp_path).read_evidence(node, "speed")
    assert found is not None
    return found


def attempts(tmp_path, node):
    document = evidence(tmp_path, node).document
    assert document is not None
    return [ran["stdout"].strip() for attempt in document["attempts"] for ran in attempt["runs"]]  # type: ignore[attr-defined]


def test_every_node_is_measured_and_its_evidence_is_what_its_program_said(tmp_path):
    put_under_load(tmp_path, measurement({"a": ["400"], "b": ["390"]}), Judge(), ["a", "b"])
    assert attempts(tmp_path, "a") == ["400"]
    assert attempts(tmp_path, "b") == ["390"]
    assert evidence(tmp_path, "a").document["values"] == [  # type: ignore[index]
        {"metric": "test.speed_gbps", "device": "", "values": [400.0], "unit": "Gb/s", "conditions": {}}
    ]


@pytest.mark.parametrize(
    ("gives", "judge"),
    [
        (["100", "101", "102"], Judge(least=390)),
        (["100", "400"], Judge(least=390)),  # it was only disturbed
    ],
)
def test_a_suspect_alone_is_measured_again(tmp_path, gives, judge):
    put_under_load(tmp_path, measurement({"a": ["400"], "b": gives}), judge, ["a", "b"])
    assert attempts(tmp_path, "a") == ["400"]
    assert attempts(tmp_path, "b") == gives


@pytest.mark.parametrize(
    ("second", "looks"),
    [
        (["400"] * 3, 3),
        (["100", *["400"] * 8], 3),  # disturbed once: it is in the worst third
        (["100", "100", *["400"] * 7], 6),
        (["100"] * 9, 9),
    ],
)
def test_where_nodes_measure_alone_all_have_the_same_looks(tmp_path, second, looks):
    what = replace(measurement({"a": ["400"] * 9, "b": list(second)}), alone=True)
    put_under_load(tmp_path, what, Judge(least=300), ["a", "b"])
    assert attempts(tmp_path, "a") == ["400"] * looks
    assert attempts(tmp_path, "b") == second[:looks]


@pytest.mark.parametrize(
    ("parts", "looks", "runs"),
    [
        *((3, (3,), 1), (3, (3, 6, 9), 3), (3, (1,), 1), (3, (2,), 1)),
        (1, (3,), 3),  # too short to be cut into parts
    ],
)
def test_what_gives_several_looks_is_repeated_less(tmp_path, parts, looks, runs):
    def parse(attempts):
        (metric,) = parse_speed(attempts).metrics
        return Speed((replace(metric, values=metric.values * parts),))

    what = replace(measurement({"a": ["1"] * 9}), alone=True, parse=parse)
    put_under_load(tmp_path, what, Judge(least=2), ["a"], looks=looks)
    assert len(attempts(tmp_path, "a")) == runs


def test_the_second_look_at_a_burn_is_short(tmp_path):
    seen: list[tuple[str, float]] = []
    put_under_load(tmp_path, measurement({"a": ["1", "1", "1"]}, seen=seen), Judge(least=2), ["a"])
    assert seen == [("a", 600.0), ("a", 120.0), ("a", 120.0)]


def test_a_node_that_must_not_take_part_has_the_reason_as_its_evidence(tmp_path):
    blocked = CannotMeasure("blocked by gpu.present: GPU 3 is lost", next_step="mend that first")
    busy = Busy("the node works: Slurm job 7 runs here", next_step="drain it")
    judge = Judge(gates={"a": blocked, "b": busy})
    load = put_under_load(tmp_path, measurement({"c": ["400"]}), judge, ["a", "b", "c"])
    assert str(evidence(tmp_path, "a").error) == str(blocked)
    assert isinstance(evidence(tmp_path, "b").error, Busy)
    assert load.loaded == {"c"}


def test_what_does_not_apply_to_a_node_is_not_run_there(tmp_path):
    put_under_load(tmp_path, measurement({}, applies=lambda _facts: "no RDMA adapters"), Judge(), ["a"])
    assert RunFolder(tmp_path).read_evidence("a", "speed") is None


def test_a_resumed_run_measures_only_what_has_no_good_evidence(tmp_path):
    put_under_load(tmp_path, measurement({"a": ["400"]}), Judge(), ["a"])
    put_under_load(tmp_path, measurement({"a": ["7"], "b": ["390"]}), Judge(), ["a", "b"], keep=True)
    assert attempts(tmp_path, "a") == ["400"]
    assert attempts(tmp_path, "b") == ["390"]


def test_what_does_not_fit_into_its_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("nodegate.records.evidence.MAX_MEASURED_BYTES", 1500)
    long = "1" * 500
    put_under_load(tmp_path, measurement({"a": [long, long, long], "b": ["1" * 2000]}), Judge(least=1e999), ["a", "b"])
    assert attempts(tmp_path, "a") == [long]
    assert "what was measured cannot be stored: it is larger than" in str(evidence(tmp_path, "b").error)


def test_one_node_that_fails_costs_the_others_nothing_and_is_neither_tried_again_nor_a_pass(tmp_path):
    put_under_load(tmp_path, measurement({"a": ["400"], "b": []}), Judge(least=390), ["a", "b"])
    assert attempts(tmp_path, "a") == ["400"]
    document = evidence(tmp_path, "b").document
    assert document is not None
    (attempt,) = document["attempts"]  # type: ignore[misc]
    assert "nodegate itself failed" in attempt["cannot"]


def test_a_run_that_was_ended_keeps_no_half_measurement(tmp_path):
    ended = threading.Event()
    (tmp_path / "evidence").mkdir()

    def measure(targets, pool):
        ended.set()
        return {each.node.name: Attempt((ProgramRun("speed", stdout="1"),)) for each in targets}

    what = Measurement("speed", "gpu", lambda _facts: "", (), measure, suspects_alone(measure), parse_speed)
    Load(RunFolder(tmp_path), [target("a")], ThreadPool(Progress(None), ended), Judge()).run([what], keep=False)
    assert RunFolder(tmp_path).read_evidence("a", "speed") is None


def test_jobs_end_with_the_run_and_say_so():
    ended = threading.Event()
    pool = ThreadPool(Progress(None), ended)
    never = threading.Event()

    def end():
        ended.set()
        return "ended it"

    results = pool.at_once({"waits": never.wait, "ends": end})
    assert isinstance(results["waits"], CannotMeasure)
    assert "the run was ended" in results["waits"].reason
    never.set()


@dataclass
class Lost:
    """A hold that ends before the first measurement, or during it."""

    after: int
    asked: int = 0

    def lost(self):
        self.asked += 1
        return {"a": CannotMeasure("the hold was ended", next_step="resume")} if self.asked > self.after else {}


@pytest.mark.parametrize("after", [0, 1])
def test_a_node_that_is_held_no_more_has_no_number(tmp_path, after):
    what = measurement({"a": ["400"] * 3, "b": ["400"] * 3})
    put_under_load(tmp_path, what, Judge(), ["a", "b"], lost=Lost(after).lost)
    kept = evidence(tmp_path, "a")
    assert (kept.document, kept.error and kept.error.reason) == (None, "the hold was ended")
    assert attempts(tmp_path, "b") == ["400"]


def test_a_node_whose_hold_ends_between_two_looks_is_not_put_under_load_again(tmp_path):
    seen: list[tuple[str, float]] = []
    what = measurement({"a": ["100"] * 3, "b": ["100"] * 3}, seen=seen)
    put_under_load(tmp_path, what, Judge(least=390), ["a", "b"], lost=Lost(2).lost)
    assert sorted(name for name, _ in seen) == ["a", "a", "b", "b", "b"]
    assert evidence(tmp_path, "a").error is not None


# The progress of a run: a live line on a terminal, lines in a log


class Log(io.StringIO):
    """A log file that keeps what it got when it is closed."""

    said = ""

    def close(self):
        self.said = self.getvalue()
        super().close()


def test_a_log_gets_a_line_now_and_then_and_no_control_characters(monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 600.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    log = Log()
    told = Progress(log)
    begun_s = time.monotonic()
    told.stage("facts", 4)
    told.node_done(failed=True)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.2)
    assert wait_until(lambda: log.getvalue().count("\n") >= 2)
    told.done()
    told.done()
    lines = log.said.splitlines()
    assert len(lines) <= (time.monotonic() - begun_s) / 0.2
    assert all(line.startswith("facts: 1 of 4 nodes, 1 could not be measured, ") for line in lines)
    assert "\r" not in log.said


def test_a_log_on_a_full_disk_ends_nothing(monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - Progress closes it
    told = Progress(full)
    told.stage("facts", 1)
    told._ended.wait(0.1)
    told.done()
    assert told._stream is None or full.closed


class Clock:
    """The time, set by hand."""

    def __init__(self, monkeypatch):
        self.now_s = 1000.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now_s)


@pytest.mark.parametrize(
    ("stage", "done", "judged", "after_s", "line"),
    [
        (("judging", 200, "nodes", 0.0), 51, 0, 10, "judging: 51 of 200 nodes, 10 s, about 30 s left"),
        (("judging", 2496, "nodes", 0.0), 9, 0, 10, "judging: 9 of 2496 nodes, 10 s"),  # too few to tell
        (("facts", 4, "nodes", 0.0), 3, 2, 2, "facts: 3 of 4 nodes, 2 s"),  # before judging nothing is known
        (("facts", 4, "nodes", 0.0), 4, 2, 2, "judging: 2 of 4 nodes, 2 s, about 4 s left"),
        (("gpu", 8, "nodes", 60.0), 0, 0, 45, "gpu: 0 of 8 nodes, 45 s of about 60 s"),
    ],
)
def test_a_line_says_what_is_done_and_how_long_the_rest_takes(  # noqa: PLR0917 - a row
    monkeypatch: pytest.MonkeyPatch,
    stage: tuple[str, int, str, float],
    done: int,
    judged: int,
    after_s: float,
    line: str,
) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    name, many, of, expected_s = stage
    told.stage(name, many, of=of, expected_s=expected_s)
    for _ in range(done):
        told.node_done(failed=False)
    for _ in range(judged):
        told.node_judged()
    clock.now_s += after_s
    assert told.line() == line
