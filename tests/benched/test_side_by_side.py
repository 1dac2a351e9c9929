"""bench/side_by_side: what it measures is what ran, a resumed run goes on, docs/evidence/scale.md has its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.side_by_side import model, page, tools
from bench.side_by_side.figures import Figures
from bench.side_by_side.measured import Cost, NotMeasured, Run, measure
from bench.side_by_side.nodes import BROKEN, Nodes
from lab.nvml.nvidia_smi import NotToBeHad
from lab.processes import odd_seconds, running, wait_until

ROOT = Path(__file__).parents[2]
BUSY = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"
COST = Cost(1.0, 0.5, 10.0, 0.1, 0.0)


@pytest.fixture
def figures(tmp_path):
    return Figures(tmp_path / "figures.json", ROOT)


def cost(**values):
    usual = {"wall_s": 1.0, "cpu_s": 1.0, "memory_mib": 10.0, "written_mb": 0.1, "load": 0.0, "nodes_cpu_s": 1.0}
    return usual | values


def test_the_page_is_made_of_the_figures():
    kept = Figures(ROOT / "bench" / "figures" / "side_by_side.json", ROOT, as_they_are=True)
    wanted = page.text(kept)
    assert (ROOT / "docs" / "evidence" / "scale.md").read_text("utf-8") == wanted, (
        "python -m bench.side_by_side --only page"
    )


def test_a_figure_of_the_file_is_on_the_page(figures):
    figures.measure("fleet/clush/64", lambda: cost(wall_s=123.4, cpu_s=7.77))
    written = page.text(figures)
    assert "| 64 | clush | 123 | 7.77 | 121 |" in written
    assert "123.4" not in page.text(Figures(figures._file.with_name("none.json"), ROOT))


def test_what_was_measured_is_not_measured_again(figures):
    figures.measure("logs/grep", cost)
    again = Figures(figures._file, ROOT)
    assert again.runs("logs/grep") == [cost()]
    assert not again.wants("logs/grep", 1)
    assert again.wants("logs/grep", 2)


def test_figures_of_another_version_are_left_out_of_a_run_and_kept_for_the_page(figures):
    figures.measure("logs/grep", cost)
    figures._file.write_text(json.dumps(figures.value | {"revision": "another"}))
    assert Figures(figures._file, ROOT).runs("logs/grep") == []
    assert Figures(figures._file, ROOT, as_they_are=True).runs("logs/grep") == [cost()]


def test_what_takes_minutes_is_run_once(figures):
    figures.measure("fleet/ansible/256", lambda: cost(wall_s=300.0))
    assert not figures.wants("fleet/ansible/256", 3)


def test_a_missing_peer_is_said_with_its_reason(figures):
    def missing():
        raise NotMeasured("pdsh is not installed")

    figures.measure("fleet/pdsh/16", missing)
    assert not figures.wants("fleet/pdsh/16", 3)
    assert "- fleet/pdsh/16: pdsh is not installed" in page.text(figures)
    assert Figures(figures._file, ROOT).wants("fleet/pdsh/16", 3)


def test_the_cpu_of_what_is_left_behind_counts(tmp_path):
    child = BUSY.format(0.6)
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    parent = f"{code}\nimport time; time.sleep(0.2)"
    alone = measure([sys.executable, "-c", "import subprocess, time; time.sleep(0.2)"], tmp_path).cost.cpu_s
    assert measure([sys.executable, "-c", parent + "; time.sleep(5)"], tmp_path).cost.cpu_s > alone + 0.5


def test_memory_is_that_of_all_processes(tmp_path):
    hold = "import time; kept = b'x' * 60_000_000; time.sleep(1)"
    code = f"import subprocess, sys; {hold[:-14]}subprocess.run([sys.executable, '-c', {hold!r}])"
    assert measure([sys.executable, "-c", code], tmp_path).cost.memory_mib > 110


def test_what_is_written_and_printed_counts(tmp_path):
    code = "open('file', 'w').write('x' * 300_000); print('y' * 200_000)"
    done = measure([sys.executable, "-c", code], tmp_path)
    assert done.cost.written_mb == pytest.approx(0.5, abs=0.001)


def test_a_command_that_does_not_end_has_no_figure(tmp_path):
    with pytest.raises(NotMeasured, match="more than 1 s"):
        measure([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, limit_s=1)


def test_a_line_through_linear_costs_goes_on_in_a_straight_line():
    line = model.line({16: 3.16, 64: 3.64, 256: 5.56})
    assert line is not None
    assert (line.each, line.fixed) == (pytest.approx(0.01), pytest.approx(3.0))
    assert line.at(10_000) == pytest.approx(103.0)


def test_growth_above_linear_goes_on_so():
    line = model.line({100: 1.0, 1000: 100.0})
    assert line is not None
    assert line.exponent == pytest.approx(2.0)
    assert line.at(10_000) > 9_000


class _Of:
    broken = "gpu3"


@pytest.mark.parametrize("said", ["gpu1: ok gpus 8", "gpu3: FAIL pcie_width 8\ngpu4: FAIL gpus 7"])
def test_a_tool_that_does_not_name_the_broken_node_alone_has_no_figure(said):
    tool = tools.Tool("one", "", "", lambda _: Run(COST, 0, said), tools._LINES)
    with pytest.raises(NotMeasured, match="as broken"):
        tool.run(tools.Asked(Path(), _Of(), None))


def test_each_login_is_in_front_of_its_own_node(tmp_path):
    try:
        nodes = Nodes(tmp_path, BROKEN)
    except NotToBeHad as why:
        pytest.skip(str(why))
    with nodes:
        config = tools.Asked(tmp_path, nodes, None).ssh_config()
        said = {
            name: subprocess.run(
                ["ssh", "-F", str(config), name, f"{tools.QUESTIONS.read_text()[:-13]}nvidia-smi -L"],
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            ).stdout
            for name in ("gpu1", nodes.broken)
        }
        assert nodes.cpu_s() > 0
    assert said["gpu1"].count("\nok ") == tools.HOW_MANY - 1
    assert "FAIL" not in said["gpu1"]
    assert said[nodes.broken].count("FAIL") == 1
    assert "FAIL pcie_width 16 8" in said[nodes.broken]
    assert f"GPU-{BROKEN:08}-0000" in said[nodes.broken]
    assert "GPU-00000001-0000" in said["gpu1"]


def test_a_bench_that_is_ended_leaves_nothing_running(tmp_path):
    seconds = odd_seconds()
    code = (
        "import signal, sys; from pathlib import Path; from bench.side_by_side.measured import measure\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        f"measure(['sh', '-c', 'sleep {seconds} & sleep {seconds}'], Path({str(tmp_path)!r}))"
    )
    bench = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    assert wait_until(lambda: len(running(seconds)) >= 2, limit_s=60)
    bench.terminate()
    bench.wait(60)
    assert wait_until(lambda: not running(seconds), limit_s=60)
