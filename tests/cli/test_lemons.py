"""`nodegate lemons`: who fails again, why, what to do; exit 0 nothing, 1 something, 2 cannot tell."""

import pytest
from support.lemon_fleet import Site
from support.schemas import read_output

from nodegate import cli

BOARD = (("gpu03", "GPU 0", (2, 9, 16, 23, 26)), ("gpu05", "GPU 1", (4,)))


def asked(file, capsys, *more):
    code = cli.main(["lemons", "--record", str(file), *more])
    told = capsys.readouterr()
    return code, told.out or told.err


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("site") / "fleet.sqlite", nodes=12, faults=BOARD)
    site.keep()
    return site.file


def test_who_why_and_what_to_do(file, capsys):
    said = (
        "1 beyond chance up to 2024-10-31\n"
        "  gpu03 GPU 0 (S/N gpu03-0): faults on 5 days of 28 where 0.0 were expected: gpu_lost 5; last 2024-10-30\n"
        "    swap the board with a good one of another node and see which one the fault follows; gpu_lost came again"
        " 3 times in 14 days: a reset does not help any more: service it\n"
        "fleet: 12 nodes, 336 node-days, 6 days with a fault; MTBF of a node 56 d, repair time 24 h (median);"
        " 98.2 % of looks healthy\n"
    )
    assert asked(file, capsys) == (1, said)
    code, said = asked(file, capsys, "--lang", "zh")
    assert code == 1
    assert "与另一节点的完好板卡对换" in said
    assert "expected" not in said


def test_as_json(file, capsys):
    code, said = asked(file, capsys, "--json", "--lang", "zh")
    told = read_output(said)
    assert (code, next(iter(told)), told["schema"]) == (1, "schema", "nodegate.lemons/1")
    (lemon,) = told["lemons"]
    assert (lemon["what"], lemon["part"], lemon["advice"], lemon["reset_helps"]) == (
        "board",
        "S/N gpu03-0",
        "swap",
        False,
    )
    assert (lemon["days_with_a_fault"], lemon["kinds"], lemon["nodes"]) == (5, {"gpu_lost": 5}, ["gpu03"])
    assert lemon["do"].startswith("swap the board")
    assert told["fleet"]["machines"] == 12


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--days", "3"], 0, "nothing fails again beyond chance from 2024-10-28 to 2024-10-31"),
        (["--since", "2024-10-28"], 0, "nothing fails again beyond chance from 2024-10-28"),
        (["--days", "2"], 2, "too little of that time"),
        (["--since", "2025-01-01"], 2, "too little of that time"),
        (["--since", "yesterday"], 2, "not a day"),
        (["--days", "0"], 2, "from 1 to 366"),
        (["--record", "none.sqlite"], 2, "there is no record yet"),
    ],
)
def test_other_times_and_bad_use(file, capsys, options, code, said):
    found, told = asked(file, capsys, *options)
    assert found == code
    assert said in told


def test_two_nodes_cannot_be_compared(tmp_path, capsys):
    site = Site(tmp_path / "fleet.sqlite", nodes=2, nights=3)
    site.keep()
    code, said = asked(site.file, capsys)
    assert code == 2
    assert "three nodes of a platform" in said


def test_what_a_record_says_is_made_safe(tmp_path, capsys):
    odd = "gpu_lost\x1b[2J"
    site = Site(tmp_path / "fleet.sqlite", nodes=12, faults=[("gpu03", "GPU 0", (2, 9, 16, 23), odd)])
    site.keep()
    assert "\x1b" not in asked(site.file, capsys)[1]
    assert "\x1b" not in asked(site.file, capsys, "--json")[1]
