"""`nodegate history` and `nodegate repaired`: the past of a node or a part, and what people add to it."""

from dataclasses import replace

import pytest
from support.remembered import BEGIN_S, DAY_S, keep, past_of, placed
from support.schemas import read_output

from nodegate import cli
from nodegate.metric import Metric
from nodegate.past import events
from nodegate.past.event import XID, Event
from nodegate.past.record import FleetRecord
from nodegate.records import part
from nodegate.records.cause import Cause, CheckFinding, Class, Severity
from nodegate.records.finding import Finding
from nodegate.records.verdict import Verdict

BUSBW = Metric("nccl.all_reduce_gb_per_s", (480.0,), "GB/s", conditions={"nccl": "2.27.3"})
GPU = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3", conditions={"dtype": "bf16", "driver": "570"})
BOARD = part.gpu(3, serial="1650001")
LOST = Cause(
    "gpu_lost",
    (BOARD,),
    Severity.LOST,
    Class.GPU,
    CheckFinding("gpu.lost", Finding(BOARD, Verdict.FAIL, text="fell off the bus", action="replace it")),
    nodes=("gpu01",),
)
PARTS = {"gpu01": placed(chassis="CHASSIS-1", gpu3="1650001"), "gpu02": placed(chassis="CHASSIS-2", gpu3="1650002")}


@pytest.fixture
def file(tmp_path):
    """Ten nights of two nodes: with another driver one is slower, then its GPU fails twice and moves to the other."""
    record = FleetRecord(tmp_path / "fleet.sqlite")
    for night in range(10):
        driver, rate = ("570", 745.0) if night < 5 else ("580", 700.0)
        gpu = replace(GPU, values=(rate + night % 2,), conditions={**GPU.conditions, "driver": driver})
        sound, at = night not in (6, 7), BEGIN_S + DAY_S * night
        moved = {
            "gpu01": placed(chassis="CHASSIS-1", gpu3="1650002"),
            "gpu02": placed(chassis="CHASSIS-2", gpu3="1650001"),
        }
        keep(
            record,
            f"night {night}",
            at,
            {"gpu01": [BUSBW, *([gpu] if night < 8 else [])], "gpu02": [] if night else [GPU]},
            parts=PARTS if night < 8 else moved,
            sound=sound,
            causes=[] if sound else [LOST],
            traits={"driver version": driver},
            events=[] if night != 6 else [Event(at - 60.0, XID, "gpu01", "S/N 1650001", "kernel log", "79")],
        )
    return record.file


def test_the_past_of_a_node(file, capsys):
    assert cli.main(["repaired", "gpu01", "GPU 3 swapped with gpu02", "--record", str(file)]) == 0
    assert cli.main(["history", "gpu01", "--record", str(file)]) == 0
    told = capsys.readouterr().out
    for line in (
        "gpu01 (S/N CHASSIS-1)",
        "  10 runs from 2026-09-21 to 2026-09-30: 8 accepted, 2 rejected",
        "  newest: accepted (nightly), as in the 1 runs before",
        "GPU 3 swapped with gpu02",
        "    S/N 1650001: GPU 3 of gpu01 from 2026-09-21 to 2026-09-28",
        "    all_reduce 480 GB/s (no lasting change in 10 runs, 2 of them when the node had a fault)\n",
    ):
        assert line in told


def test_the_past_of_a_board_goes_with_it(file, capsys):
    faulty, under = "2 of them when the node had a fault", "dtype bf16, driver 580"
    assert cli.main(["history", "1650001", "--record", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1650001",
        "  causes:",
        "    GPU 3 on gpu01: gpu_lost (fail) in 2 runs since 2026-09-27, last 2026-09-28: fell off the bus",
        "  events:",
        "    2026-09-27: Xid of S/N 1650001 on gpu01: 79",
        "  places:",
        "    1650001: GPU 3 of gpu01 from 2026-09-21 to 2026-09-28",
        "    1650001: GPU 3 of gpu02 from 2026-09-29 to 2026-09-30",
        "  numbers:",
        f"    bf16 rate 745.5 TFLOPS -> 711.8 TFLOPS, -4.5 % (first and newest 4 of 8 kept, {faulty}); {under}",
        "      lower since 2026-09-26: 745.4 TFLOPS -> 700.7 TFLOPS, when driver changed from 570 to 580",
    ]


def test_what_has_not_changed_is_one_line_for_all_parts(tmp_path, capsys):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    write = Metric("rdma.write_gbps", (390.0,), "Gb/s", conditions={"tool": "ib_write_bw", "path": "between"})
    for night in range(3):
        rails = [replace(write, values=(390.0 + at,), device=f"mlx5_{at}") for at in range(8)]
        inside = replace(write, device="mlx5_0", conditions={**write.conditions, "path": "inside"})
        keep(record, f"night {night}", BEGIN_S + DAY_S * night, {"gpu01": [*rails, inside]})
    assert cli.main(["history", "gpu01", "--record", str(record.file)]) == 0
    assert capsys.readouterr().out.partition("numbers:\n")[2].splitlines() == [
        "    mlx5_[0-7]: RDMA write bandwidth 390 to 397 Gb/s (no lasting change in 3 runs); path between",
        "    mlx5_0: RDMA write bandwidth 390 Gb/s (no lasting change in 3 runs); path inside",
    ]


def test_a_plot_is_one_svg(file, tmp_path):
    assert cli.main(["history", "gpu01", "1650001", "--record", str(file), "--plot", str(tmp_path / "p.svg")]) == 0
    drawn = (tmp_path / "p.svg").read_text()
    assert drawn.startswith("<svg ")
    assert drawn.count("<polyline") == 2
    assert drawn.count('class="bad"') == 4


def test_a_node_that_is_accepted_again_has_no_past_and_the_reason_is_kept(file, capsys):
    assert cli.main(["history", "gpu01", "--history", str(file), "--accept-again", "power cap of 600 W"]) == 0
    assert capsys.readouterr().out.startswith("1 node accepted again: the next run in which nothing is wrong")
    record = FleetRecord(file)
    assert past_of(record, "gpu01", float("inf"), parts=PARTS["gpu01"]) == {}
    assert past_of(record, "gpu02", float("inf"), "GPU 3", parts=PARTS["gpu02"]) != {}
    (again,) = events.read(file)
    assert (again.node, again.part, again.text) == ("gpu01", "S/N CHASSIS-1", "power cap of 600 W")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["history", "gpu09"], "knows nothing of 'gpu09'"),
        (["history", "gpu03"], "did you mean"),
        (["history", "gpu09", "--accept-again", "why not"], "knows nothing of 'gpu09'"),
        (["history", "1650001", "--accept-again", "why not"], "1650001 is a part: only nodes are accepted again"),
        (["history", "gpu01", "--accept-again", "  "], "say in a few words what was done"),
        (["repaired", "gpu01", "\n"], "say in a few words what was done"),
        (["repaired", "1659999", "replaced"], "the record knows nothing of"),
    ],
)
def test_what_is_refused(file, arguments, said, capsys):
    assert cli.main([*arguments, "--record", str(file)]) == 2
    assert said in capsys.readouterr().err
    assert not list(events.read(file))


def test_without_a_record_none_is_made(tmp_path):
    for command in (["history", "gpu01"], ["repaired", "gpu01", "x"]):
        assert cli.main([*command, "--record", str(tmp_path / "none.sqlite")]) == 2
    assert not (tmp_path / "none.sqlite").exists()


def test_the_same_as_rows(file, capsys):
    assert cli.main(["repaired", "gpu01", "GPU 3 swapped with gpu02", "--record", str(file)]) == 0
    capsys.readouterr()
    assert cli.main(["history", "gpu01", "1650001", "--json", "--record", str(file)]) == 0
    node, board = read_output(capsys.readouterr().out)["of"]
    assert [each["verdict"] for each in node["runs"]] == ["accepted"] * 6 + ["rejected"] * 2 + ["accepted"] * 2
    assert [(each["condition"], each["runs"]) for each in board["causes"]] == [("gpu_lost", 2)]
    assert ("xid", "79") in [(each["kind"], each["text"]) for each in board["events"]]
    assert [each["node"] for each in board["places"]] == ["gpu01", "gpu02"]
    (rate,) = (each for each in board["numbers"] if each["metric"] == GPU.name)
    assert rate["values"][:5] == [745.0, 746.0, 745.0, 746.0, 745.0]
    assert "repair" in [each["kind"] for each in node["events"]]
