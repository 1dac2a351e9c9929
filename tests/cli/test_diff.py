"""`nodegate diff`: what is new, still there and gone between two runs; what was not looked at again is not gone."""

from dataclasses import replace

import pytest
from support.remembered import BEGIN_S, DAY_S, keep, placed
from support.schemas import read_output

from nodegate import cli
from nodegate.metric import Metric
from nodegate.past.record import FleetRecord
from nodegate.records import part
from nodegate.records.cause import Cause, CheckFinding, Class, Severity
from nodegate.records.finding import Finding
from nodegate.records.verdict import Verdict

RATE = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3")
PARTS = {name: placed(chassis=f"CHASSIS-{name}", gpu3=f"16500-{name}") for name in ("gpu01", "gpu02", "gpu03")}


def cause(node, check, verdict=Verdict.FAIL, serial=""):
    board = part.gpu(3, serial=serial or f"16500-{node}")
    found = CheckFinding(check, Finding(board, verdict, text=f"what {check} saw", action="replace it"))
    return Cause(check.replace(".", "_"), (board,), Severity.LOST, Class.GPU, found, nodes=(node,))


def night(file, number, *causes, rate=745.0, nodes=("gpu01", "gpu02"), judged=("gpu.lost", "gpu.ecc"), **more):
    measured = {name: [replace(RATE, values=(rate if name == "gpu01" else 745.0,))] for name in nodes}
    record, at_s = FleetRecord(file), BEGIN_S + DAY_S * number
    keep(record, f"night {number}", at_s, measured, parts=PARTS, causes=causes, judged=judged, **more)


def diff(file, capsys, *arguments):
    code = cli.main(["diff", *arguments, "--record", str(file)])
    told = capsys.readouterr()
    return code, (told.out or told.err).splitlines()


def test_the_same_for_a_program(file, capsys):
    night(file, 1)
    night(file, 2, cause("gpu01", "gpu.ecc"), rate=600.0)
    code, (line,) = diff(file, capsys, "night 1", "night 2", "--json")
    said = read_output(line)
    assert (code, said["schema"], said["before"], said["after"]) == (1, "nodegate.diff/1", "night 1", "night 2")
    assert [(each["node"], each["place"], each["check"]) for each in said["new"]] == [("gpu01", "GPU 3", "gpu.ecc")]
    assert [(each["metric"], each["before"], each["after"]) for each in said["moved"]] == [(RATE.name, 745.0, 600.0)]
    assert said["gone"] == said["unseen"] == []


@pytest.fixture
def file(tmp_path):
    return tmp_path / "fleet.sqlite"


def test_new_still_and_gone(file, capsys):
    night(file, 1, cause("gpu01", "gpu.lost"), cause("gpu02", "gpu.lost"))
    night(file, 2, cause("gpu01", "gpu.lost"), cause("gpu01", "gpu.ecc"), rate=600.0)
    assert diff(file, capsys, "night 1", "night 2") == (
        1,
        [
            "night 1 (nightly, 2026-09-22) -> night 2 (nightly, 2026-09-23)",
            "new: 1",
            "  gpu01: GPU 3: gpu_ecc (fail): what gpu.ecc saw",
            "still: 1",
            "  gpu01: GPU 3: gpu_lost (fail): what gpu.lost saw",
            "gone: 1",
            "  gpu02: GPU 3: gpu_lost (fail): what gpu.lost saw",
            "not looked at again: none",
            "numbers beyond their noise: 1",
            "  gpu01: bf16 rate of GPU 3 19.5 % below: 745 TFLOPS -> 600 TFLOPS",
        ],
    )


@pytest.mark.parametrize(
    ("before", "after", "code", "said"),
    [
        pytest.param({}, {}, 0, "new: none", id="nothing"),
        pytest.param({}, {"rate": 735.0}, 0, "numbers beyond their noise: none", id="noise"),
        pytest.param(
            {"causes": [cause("gpu01", "gpu.lost")]},
            {"judged": ("gpu.ecc",)},
            0,
            "not looked at again: 1",
            id="a check that did not run",
        ),
        pytest.param(
            {"causes": [cause("gpu01", "gpu.lost")]},
            {"nodes": ("gpu02", "gpu03")},
            0,
            "not looked at again: 1",
            id="a node that was left out",
        ),
        pytest.param(
            {"causes": [cause("gpu01", "gpu.lost", Verdict.WARN)]},
            {"causes": [cause("gpu01", "gpu.lost")]},
            1,
            "new: 1",
            id="a warning that is a failure now",
        ),
        pytest.param(
            {"causes": [cause("gpu01", "gpu.lost", serial="1650077")]},
            {"causes": [cause("gpu02", "gpu.lost", serial="1650077")]},
            0,
            "still: 1",
            id="a board that moved with its fault",
        ),
        pytest.param({"nodes": ("gpu01",)}, {"nodes": ("gpu02",)}, 2, "have no node in common", id="other nodes"),
    ],
)
def test_what_is_said(file, capsys, *, before, after, code, said):
    for number, given in enumerate((before, after), 1):
        night(file, number, *given.get("causes", ()), **{key: value for key, value in given.items() if key != "causes"})
    found, lines = diff(file, capsys, "night 1", "night 2")
    assert found == code
    assert any(said in line for line in lines)


def test_since_last_night_and_since_acceptance(file, capsys):
    night(file, 1, profile="delivery")
    night(file, 2, cause("gpu01", "gpu.lost"))
    night(file, 3, cause("gpu01", "gpu.lost"))
    assert diff(file, capsys, "--since-last-night")[0] == 0
    code, lines = diff(file, capsys, "--since-acceptance")
    assert (code, lines[0]) == (1, "night 1 (delivery, 2026-09-22) -> night 3 (nightly, 2026-09-24)")


@pytest.mark.parametrize("arguments", [[], ["night 1"], ["night 1", "night 9"], ["--since-acceptance"]])
def test_what_cannot_be_compared(file, arguments, capsys):
    night(file, 1)
    assert diff(file, capsys, *arguments)[0] == 2
