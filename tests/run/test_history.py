"""A node's own past: what it measured when it was accepted, under equal conditions; the first and the newest runs."""

import contextlib
import datetime as dt
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.burning import Document, burnt

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.history import FIRST, NEWEST, Again, History, Key, key_of
from nodegate.judge.waivers import Waivers
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.judging import Judging

BUSBW = Metric("nccl.all_reduce_gb_per_s", (478.0,), "GB/s", conditions={"nccl": "2.27.3", "size_bytes": "8589934592"})


def past_of(history: History, node: str, before_epoch_s: float) -> dict[Key, list[float]]:
    return {key: list(values) for key, values in history.earlier(node, before_epoch_s).items()}


def keep_nights(
    history: History, nights: Iterable[int], measured: Metric = BUSBW, fleet: Iterable[str] = ("gpu01",)
) -> None:
    """In each night a value of its own, so that one can tell which are left."""
    for night in nights:
        value = replace(measured, values=(400.0 + night,))
        history.keep(f"night {night}", float(night), {node: [value] for node in fleet}.items())


def steps_to_read(history: History, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many tens of steps the database takes to read a node."""
    connect, steps = sqlite3.connect, []

    def counting(*arguments: object, **named: object) -> sqlite3.Connection:
        index = connect(*arguments, **named)  # type: ignore[arg-type]
        index.set_progress_handler(lambda: steps.append(1), 10)
        return index

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", counting)
        history.earlier("gpu01", 1e9)
    return len(steps)


def as_before(file: Path, rows: Iterable[tuple[str, float, str, float]]) -> None:
    """What an earlier release wrote: run, time, node, value."""
    columns = "run text, started_epoch_s real, node text, device text, metric text, conditions text, value real"
    device, metric, conditions, unit = key_of(BUSBW)
    with contextlib.closing(sqlite3.connect(file)) as index, index:
        index.execute(f"create table measured ({columns}, unit text, primary key (run, node, device, metric))")
        index.executemany(
            "insert into measured values (?, ?, ?, ?, ?, ?, ?, ?)",
            [(run, at, node, device, metric, conditions, value, unit) for run, at, node, value in rows],
        )


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "reports" / "history.sqlite")


def test_a_node_without_a_past_has_none_and_no_file_is_made(history: History) -> None:
    assert history.earlier("gpu01", 100.0) == {}
    assert not history.file.exists()


def test_values_of_runs_before_come_back_oldest_first_under_the_key_of_their_metric(history: History) -> None:
    for _ in range(2):  # keeping a run twice keeps it once
        history.keep("monday", 1.0, {"gpu01": [BUSBW]}.items())
    history.keep("tuesday", 2.0, {"gpu01": [replace(BUSBW, values=(481.0, 482.0))], "gpu02": [BUSBW]}.items())
    assert past_of(history, "gpu01", 3.0) == {key_of(BUSBW): [478.0, 482.0]}
    assert past_of(history, "gpu01", 2.0) == {key_of(BUSBW): [478.0]}  # tuesday's, judged again
    assert key_of(replace(BUSBW, conditions={**BUSBW.conditions, "nccl": "2.28.1"})) != key_of(BUSBW)


def test_a_burn_of_another_length_is_another_key(history: History) -> None:
    of_a_minute = burnt(Machine.hgx_h100()).metrics
    assert {each.over_runs["seconds"] for each in of_a_minute} == {"60"}

    def longer(found: Document) -> None:
        for phase in found["phases"]:
            phase["seconds"] *= 10

    history.keep("monday", 1.0, {"gpu01": of_a_minute}.items())
    earlier = history.earlier("gpu01", 3.0)
    assert all(key_of(each) in earlier for each in burnt(Machine.hgx_h100()).metrics)
    assert not any(key_of(each) in earlier for each in burnt(Machine.hgx_h100(), longer).metrics)


def test_nodes_and_baselines_see_no_difference_in_the_length_of_a_burn() -> None:
    (first, *_) = burnt(Machine.hgx_h100()).metrics
    assert "seconds" not in first.conditions
    assert replace(first, over_runs={"seconds": "600"}).key == first.key


def test_the_first_values_and_the_newest_are_kept_and_what_lies_between_is_deleted(history: History) -> None:
    runs = 4 * (FIRST + NEWEST)
    keep_nights(history, range(runs))
    values = past_of(history, "gpu01", 1e9)[key_of(BUSBW)]
    assert values == [400.0 + night for night in (*range(FIRST), *range(runs - NEWEST, runs))]
    with contextlib.closing(sqlite3.connect(history.file)) as index:
        (stored,) = index.execute("select count(*) from kept").fetchone()
    assert stored <= FIRST + NEWEST + 16


def test_a_number_that_is_new_keeps_its_own_first_values(history: History) -> None:
    keep_nights(history, range(100))
    newer = replace(BUSBW, conditions={**BUSBW.conditions, "nccl": "2.28.1"})
    keep_nights(history, range(100, 200), newer)
    assert past_of(history, "gpu01", 1e9)[key_of(newer)][:FIRST] == [500.0 + night for night in range(FIRST)]
    assert past_of(history, "gpu01", 1e9)[key_of(BUSBW)][:FIRST] == [400.0 + night for night in range(FIRST)]


def test_a_node_that_is_accepted_again_has_no_past_before_that(history: History) -> None:
    keep_nights(history, range(10))
    history.accept_again(["gpu01"], 9.5, "new cold plates")
    assert past_of(history, "gpu01", 10.0) == {}
    keep_nights(history, range(10, 12))
    assert past_of(history, "gpu01", 1e9) == {key_of(BUSBW): [410.0, 411.0]}
    assert history.accepted_again("gpu01") == (Again(9.5, "new cold plates"),)


def test_the_first_values_since_then_are_kept_too(history: History) -> None:
    keep_nights(history, range(100))
    history.accept_again(["gpu01"], 99.5, "new cold plates")
    keep_nights(history, range(100, 300))
    values = past_of(history, "gpu01", 1e9)[key_of(BUSBW)]
    assert values == [400.0 + night for night in (*range(100, 100 + FIRST), *range(300 - NEWEST, 300))]


def test_a_run_of_before_is_judged_again_with_what_counted_then(history: History) -> None:
    keep_nights(history, range(10))
    history.accept_again(["gpu01"], 9.5, "new cold plates")
    assert past_of(history, "gpu01", 5.0) == {key_of(BUSBW): [400.0, 401.0, 402.0, 403.0, 404.0]}


def test_another_board_in_the_same_place_has_no_past(history: History) -> None:
    gpu = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3")
    history.keep("monday", 1.0, {"gpu01": [gpu]}.items(), lambda _node, device: f"of {device}")
    assert key_of(gpu) in history.earlier("gpu01", 3.0, lambda _device: "of GPU 3")
    assert key_of(gpu) not in history.earlier("gpu01", 3.0, lambda _device: "another")
    history.keep("tuesday", 2.0, {"gpu01": [replace(gpu, values=(731.0,))]}.items(), lambda _node, _device: "another")
    assert list(history.earlier("gpu01", 3.0, lambda _device: "another")[key_of(gpu)]) == [731.0]


def test_where_the_board_is_not_known_all_of_its_place_counts(history: History) -> None:
    history.keep("monday", 1.0, {"gpu01": [BUSBW]}.items())
    history.keep("tuesday", 2.0, {"gpu01": [replace(BUSBW, values=(482.0,))]}.items(), lambda _node, _device: "a board")
    for now in ("", "a board"):
        earlier = history.earlier("gpu01", 3.0, lambda _device, now=now: now)
        assert list(earlier[key_of(BUSBW)]) == [478.0, 482.0]


def test_a_node_of_which_nothing_was_kept_cannot_be_accepted_again(history: History) -> None:
    with pytest.raises(UsageError, match="nothing was kept of gpu09"):
        history.accept_again(["gpu09"], 1.0, "typing error")
    assert not history.file.exists()
    keep_nights(history, range(1))
    with pytest.raises(UsageError, match="nothing was kept of gpu09"):
        history.accept_again(["gpu01", "gpu09"], 1.0, "typing error")
    assert history.accepted_again("gpu01") == ()


def test_reading_a_node_does_not_cost_more_with_every_run(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = {f"gpu{number:02}": [BUSBW] for number in range(40)}
    keep_nights(history, range(80), fleet=fleet)
    before = steps_to_read(history, monkeypatch)
    keep_nights(history, range(80, 400), fleet=fleet)
    assert before > 20
    assert steps_to_read(history, monkeypatch) <= 1.2 * before


def test_an_index_of_an_earlier_release_is_moved_over_and_nothing_is_lost(tmp_path: Path) -> None:
    old = tmp_path / "history.sqlite"
    as_before(old, [("monday", 1.0, "gpu01", 478.0), ("monday", 1.0, "gpu02", 470.0), ("tuesday", 2.0, "gpu01", 482.0)])
    history = History(old)
    history.check()
    assert past_of(history, "gpu01", 3.0) == {key_of(BUSBW): [478.0, 482.0]}
    assert past_of(history, "gpu02", 3.0) == {key_of(BUSBW): [470.0]}
    history.keep("wednesday", 3.0, {"gpu01": [BUSBW]}.items())
    assert past_of(history, "gpu01", 4.0) == {key_of(BUSBW): [478.0, 482.0, 478.0]}


def test_what_an_earlier_release_adds_later_is_moved_over_too(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    History(file).keep("monday", 1.0, {"gpu01": [BUSBW]}.items())
    as_before(file, [("tuesday", 2.0, "gpu01", 482.0)])
    assert past_of(History(file), "gpu01", 3.0) == {key_of(BUSBW): [478.0, 482.0]}


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as index, index:
        index.execute("create table customers (name text)")
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"the history cannot be used: it holds other tables \(customers\)"):
        History(file).check()
    assert file.read_bytes() == before


def test_a_node_is_read_once_in_a_run_however_many_checks_ask(history: History) -> None:
    keep_nights(history, range(3))
    today = dt.date(2026, 11, 23)
    judging = Judging({"gpu01": Node("gpu01")}, Profile.NIGHTLY, Baselines.read(), Waivers((), today), history=history)
    earlier = judging.view.earlier("gpu01")
    history.file.unlink()
    assert judging.view.earlier("gpu01") is earlier
    assert list(earlier(BUSBW)) == [400.0, 401.0, 402.0]


def test_two_runs_that_end_together_both_keep_their_values(history: History) -> None:
    def keep(run: str) -> None:
        history.keep(run, 1.0, {f"gpu{number:04}": [BUSBW] for number in range(200)}.items())

    threads = [threading.Thread(target=keep, args=(f"run {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history.earlier("gpu0199", 2.0)[key_of(BUSBW)]) == 4


@pytest.mark.parametrize(
    "content", [b"no index at all, but long enough to be taken for one" * 40, b"SQLite format 3\0"]
)
def test_a_file_that_is_no_index_is_one_message_with_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"history\.sqlite: the history cannot be used"):
        History(file).earlier("gpu01", 1.0)


def test_an_index_of_another_form_is_one_message_too(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with sqlite3.connect(file) as index:
        index.execute("create table measured (value real)")
    index.close()
    with pytest.raises(UsageError, match="the history cannot be used"):
        History(file).earlier("gpu01", 1.0)


def test_no_file_is_made_where_no_node_has_a_number(tmp_path: Path) -> None:
    History(tmp_path / "history.sqlite").keep("monday", 1.0, iter([("gpu01", list[Metric]())]))
    assert not (tmp_path / "history.sqlite").exists()
