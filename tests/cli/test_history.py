"""`nodegate history`: what nodes measured in earlier runs, and accepting them again."""

from dataclasses import replace
from pathlib import Path

import pytest

from nodegate import cli
from nodegate.history import History
from nodegate.metric import Metric

BUSBW = Metric("nccl.all_reduce_gb_per_s", (480.0,), "GB/s", conditions={"nccl": "2.27.3"})
GPU = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3", conditions={"dtype": "bf16"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A node that loses a little in each of ten runs, and one with a single run."""
    file = tmp_path / "history.sqlite"
    history = History(file)
    for run in range(10):
        slower = replace(BUSBW, values=(480.0 - 4 * run,))
        measured = {"gpu01": [slower, GPU], **({"gpu02": [GPU]} if not run else {})}
        history.keep(f"run {run}", float(run), measured.items())
    return file


def test_the_first_and_the_newest_values_of_each_number(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "gpu[01-02]", "--history", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "gpu01",
        "  node: all_reduce 472 GB/s -> 452 GB/s, -4.2 % (first and newest 5 of 10 kept); nccl 2.27.3",
        "  GPU 3: bf16 rate 745 TFLOPS -> 745 TFLOPS, +0.0 % (first and newest 5 of 10 kept); dtype bf16",
        "gpu02",
        "  GPU 3: bf16 rate 745 TFLOPS -> 745 TFLOPS, +0.0 % (one run); dtype bf16",
    ]


def test_a_node_that_is_accepted_again_has_no_past_and_the_reason_is_kept(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", "gpu01", "--history", str(file), "--accept-again", "power cap of 600 W"]) == 0
    assert capsys.readouterr().out.startswith("1 node accepted again: the next run in which nothing is wrong")
    assert History(file).earlier("gpu01", float("inf")) == {}
    assert History(file).earlier("gpu02", float("inf")) != {}
    assert cli.main(["history", "gpu01", "--history", str(file)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].endswith(": power cap of 600 W")
    assert told[2] == "  no run since then"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpu09"], "nothing was kept of gpu09"),
        (["gpu09", "--accept-again", "why not"], "nothing was kept of gpu09"),
        (["gpu01", "--accept-again", "  "], "--accept-again needs a reason"),
    ],
)
def test_what_is_refused(file: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", *arguments, "--history", str(file)]) == 2
    assert said in capsys.readouterr().err


def test_without_an_index_none_is_made(tmp_path: Path) -> None:
    assert cli.main(["history", "gpu01", "--history", str(tmp_path / "none.sqlite")]) == 2
    assert not (tmp_path / "none.sqlite").exists()
