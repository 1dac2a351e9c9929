"""A node's own past: what it measured when it was accepted, compared under equal conditions only."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.burning import Document, burnt

from nodegate.errors import UsageError
from nodegate.history import RUNS_COMPARED, History, key_of
from nodegate.metric import Metric

BUSBW = Metric("nccl.all_reduce_gb_per_s", (478.0,), "GB/s", conditions={"nccl": "2.27.3", "size_bytes": "8589934592"})


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "reports" / "history.sqlite")


def test_a_node_without_a_past_has_none_and_no_file_is_made(history: History) -> None:
    assert history.earlier("gpu01", 100.0) == {}
    assert not history.file.exists()


def test_values_come_back_newest_first_under_the_key_of_their_metric(history: History) -> None:
    history.keep("monday", 1.0, {"gpu01": [BUSBW]})
    history.keep("tuesday", 2.0, {"gpu01": [replace(BUSBW, values=(481.0, 482.0))], "gpu02": [BUSBW]})
    assert history.earlier("gpu01", 3.0) == {key_of(BUSBW): (482.0, 478.0)}


def test_another_nccl_is_another_key(history: History) -> None:
    history.keep("monday", 1.0, {"gpu01": [BUSBW]})
    other = replace(BUSBW, conditions={**BUSBW.conditions, "nccl": "2.28.1"})
    assert key_of(other) not in history.earlier("gpu01", 3.0)


def test_a_burn_of_another_length_is_another_key(history: History) -> None:
    of_a_minute = burnt(Machine.hgx_h100()).metrics
    assert {each.over_runs["seconds"] for each in of_a_minute} == {"60"}

    def longer(found: Document) -> None:
        for phase in found["phases"]:
            phase["seconds"] *= 10

    history.keep("monday", 1.0, {"gpu01": of_a_minute})
    earlier = history.earlier("gpu01", 3.0)
    assert all(key_of(each) in earlier for each in burnt(Machine.hgx_h100()).metrics)
    assert not any(key_of(each) in earlier for each in burnt(Machine.hgx_h100(), longer).metrics)


def test_nodes_and_baselines_see_no_difference_in_the_length_of_a_burn() -> None:
    (first, *_) = burnt(Machine.hgx_h100()).metrics
    assert "seconds" not in first.conditions
    assert replace(first, over_runs={"seconds": "600"}).key == first.key


def test_a_run_that_is_judged_again_is_not_compared_with_itself_nor_with_what_came_after(history: History) -> None:
    history.keep("monday", 1.0, {"gpu01": [BUSBW]})
    history.keep("tuesday", 2.0, {"gpu01": [replace(BUSBW, values=(300.0,))]})
    assert history.earlier("gpu01", 2.0) == {key_of(BUSBW): (478.0,)}


def test_keeping_a_run_twice_keeps_it_once(history: History) -> None:
    history.keep("monday", 1.0, {"gpu01": [BUSBW]})
    history.keep("monday", 1.0, {"gpu01": [BUSBW]})
    assert history.earlier("gpu01", 3.0) == {key_of(BUSBW): (478.0,)}


def test_only_the_newest_runs_count(history: History) -> None:
    for day in range(RUNS_COMPARED + 5):
        history.keep(f"day {day}", float(day), {"gpu01": [replace(BUSBW, values=(400.0 + day,))]})
    values = history.earlier("gpu01", 1000.0)[key_of(BUSBW)]
    assert len(values) == RUNS_COMPARED
    assert values[0] == 400.0 + RUNS_COMPARED + 4


def test_two_runs_that_end_together_both_keep_their_values(history: History) -> None:
    def keep(run: str) -> None:
        history.keep(run, 1.0, {f"gpu{number:04}": [BUSBW] for number in range(200)})

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
