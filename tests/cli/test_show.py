"""`nodegate show`: what stands behind a line of the answer."""

import itertools
from dataclasses import replace

import pytest
from support.made_findings import GPU3, GPU4, NIC2, finding, record

from nodegate import cli
from nodegate.causes.details import MOST_FOLLOWING
from nodegate.records.finding import AT_LEAST, Limit
from nodegate.records.results import RESULTS, ResultsFile

LINK = Limit(16, "lanes", "the device", AT_LEAST)
NARROW = finding("fail", GPU4, quantity="link width", observed=8, unit="lanes", limit=LINK, share=0.5)
SERIAL = "1650003000003"


def written(folder, *records):
    file = ResultsFile(folder)
    for _, own in itertools.groupby(records, key=lambda each: each.node):
        file.write(own)
    file.close()
    return folder


@pytest.fixture
def run(tmp_path):
    """gpu01 lost a GPU, from which 30 findings follow; gpu02 has two faults, one of them waived; gpu03 is healthy."""
    errors = [
        record(f"burn.check{number}", finding("error", GPU3, text="not run", blocked_by="gpu.lost"))
        for number in range(30)
    ]
    lost = record("gpu.lost", finding("fail", GPU3, "does not respond on PCIe", action="power-cycle the node"))
    narrow = replace(record("pcie.link_width", NARROW, node="gpu02"), waiver="riser on order; owner dc-ops")
    nic = record("rdma.firmware", finding("fail", NIC2, "firmware is 28.39.1002", action="update it"), node="gpu02")
    healthy = record("gpu.count", finding("pass"), node="gpu03")
    return written(tmp_path, lost, *errors, narrow, nic, healthy)


def show(capsys, run, *arguments):
    assert cli.main(["show", *arguments, "--run", str(run)]) == 0
    return capsys.readouterr().out


def test_a_node_is_shown_cause_by_cause(capsys, run):
    said = show(capsys, run, "gpu01")
    assert said.startswith(f"lost: gpu01: GPU 3 S/N {SERIAL}: ")
    assert f"  id      {SERIAL}/gpu_lost\n" in said
    assert "  fail    gpu.lost: GPU 3 (0000:3d:00.0, S/N 1650003000003): does not respond on PCIe - power-cycle" in said
    assert "  30 that follow:\n" in said
    assert "gpu02" not in said


def test_what_follows_is_cut_unless_all_is_asked_for(capsys, run):
    said = show(capsys, run, "gpu01")
    assert said.count("burn.check") == MOST_FOLLOWING
    assert f"    {30 - MOST_FOLLOWING} more: nodegate show --all\n" in said
    whole = show(capsys, run, "gpu01", "--all")
    assert whole.count("burn.check") == 30
    assert "--all" not in whole


@pytest.mark.parametrize("wanted", [f"{SERIAL}/gpu_lost", "gpu_lost", SERIAL, "0000:3d:00.0", "GPU 3"])
def test_a_cause_by_its_id_or_its_part(capsys, run, wanted):
    assert show(capsys, run, wanted) == show(capsys, run, "gpu01")


def test_a_waiver_is_shown(capsys, run):
    said = show(capsys, run, "gpu02")
    assert "  waived  riser on order; owner dc-ops\n" in said
    assert said.index("mlx5_2") < said.index("GPU 4"), "what is waived comes last"


def test_a_healthy_node_has_nothing_open(capsys, run):
    assert show(capsys, run, "gpu03") == "gpu03: no open findings\n"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("gpu09", "the run has no node and no cause 'gpu09' - did you mean gpu0"),
        ("xyz", "the run has no node and no cause 'xyz' - name a node, a cause's id, or a part by serial number"),
    ],
)
def test_a_wrong_name_is_one_message(capsys, run, wanted, words):
    assert cli.main(["show", wanted, "--run", str(run)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_no_run_folder_is_one_message(capsys, tmp_path):
    assert cli.main(["show", "gpu01", "--run", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert "name the folder of a run" in said
    assert len(said.splitlines()) == 1


def test_control_characters_of_a_node_do_not_reach_the_terminal(capsys, tmp_path):
    bad = record("gpu.lost", finding("fail", GPU3, "lost \x1b[2J\u202e", action="power-cycle"))
    assert "\x1b" not in show(capsys, written(tmp_path, bad), "gpu01")


def test_results_that_were_cut_are_said_to_be(capsys, run):
    file = run / RESULTS
    whole = file.read_bytes()
    assert cli.main(["show", "gpu01", "--run", str(run)]) == 0
    assert capsys.readouterr().err == ""
    file.write_bytes(whole[:-5])
    assert cli.main(["show", "gpu01", "--run", str(run)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"nodegate: {run}: its results are cut off: some nodes are missing here - ")
    assert SERIAL in captured.out
