"""`nodegate init` and `nodegate report`, and the exit codes of the command line."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fleet.machine import Machine
from support import warm
from support.recorded import run_pytest, write_fleet
from support.schemas import read_output

from nodegate import cli
from nodegate.records.results import read


def nodegate(*arguments, where, **environment):
    return warm.run(
        [sys.executable, "-m", "nodegate.cli", *arguments],
        cwd=where,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture
def site(tmp_path):
    done = nodegate("init", "site", where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pytest --inventory hosts.yaml" in done.stdout
    return tmp_path / "site"


def test_a_site_runs_with_its_own_baseline_and_check(site):
    (site / "hosts.yaml").unlink()
    write_fleet(site, [Machine.hgx_h100("gpu0001", 1)])
    alone = run_pytest(site, ["--inventory", "hosts.yaml", "-q"])
    assert alone.exit_code == 1, alone.stdout  # a node alone proves nothing about the network
    assert "1 incomplete of 1 node" in alone.stdout
    assert alone.verdicts("site.kernel") == {"gpu0001": "not-judged"}
    (site / "baselines" / "site.yaml").write_text(
        'platform: "*"\nlimits:\n  site.kernel_release: {value: "6.0", unit: "", source: "our image"}\n'
    )
    judged = run_pytest(site, ["--inventory", "hosts.yaml", "-q", "-k", "site"])
    assert judged.exit_code == 1
    assert "kernel: release" in judged.records[0].message
    assert "expected 6.0" in judged.records[0].message


def test_the_inventory_of_a_new_site_reads(site):
    listed = run_pytest(site, ["--inventory", "hosts.yaml", "--collect-only", "-q"])
    assert listed.exit_code == 0, listed.stdout + listed.stderr
    assert "checks/test_site.py::test_kernel[gpu001]" in listed.stdout


def test_its_runs_are_kept_out_of_git(site):
    assert "/reports/" in (site / ".gitignore").read_text().splitlines()


def test_a_folder_that_holds_something_is_left_alone(site):
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    done = nodegate("init", "site", where=site.parent)
    assert done.returncode == 2
    assert done.stderr == "nodegate: site: this folder is not empty - give a new one\n"
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_what_the_site_file_shows_as_comments_is_right(site):
    file = site / "site.yaml"
    file.write_text(re.sub(r"^# (?!What)", "", file.read_text(), flags=re.MULTILINE))
    write_fleet(site, [Machine.hgx_h100("gpu001", 1)])
    (site / "hosts.yaml").write_text(
        (site / "hosts.yaml").read_text().replace("  hosts:\n    gpu001:", "  children: {gpu: {hosts: {gpu001: }}}")
    )
    ran = run_pytest(site, ["--site", "site.yaml", "--inventory", "hosts.yaml", "--passive", "-q"])
    assert ran.exit_code == 1, ran.stdout  # not accepted: nothing was put under load
    assert "C-2026-0815" in (ran.folder / "certificate.zh.html").read_text("utf-8")
    assert ran.verdicts("ordered.parts")["gpu001"] == "pass"


def test_a_file_in_its_place_is_one_message(tmp_path):
    (tmp_path / "site").touch()
    done = nodegate("init", "site", where=tmp_path)
    assert done.returncode == 2
    assert "cannot be made" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    where = tmp_path_factory.mktemp("ended")
    write_fleet(where, [Machine.hgx_h100("gpu0001", 1)])
    assert run_pytest(where, ["--inventory", "hosts.yaml", "-q", "--run-dir", "run"]).exit_code == 1
    return where / "run"


@pytest.fixture
def run(ended, tmp_path):
    return Path(shutil.copytree(ended, tmp_path / "run"))


def test_the_reports_are_written_again_as_they_were(run):
    before = {name: (run / name).read_bytes() for name in ("report.json", "nodes.csv", "findings.csv", "junit.xml")}
    (run / "report.html").unlink()
    (run / "junit.xml").unlink()
    done = nodegate("report", "run", where=run.parent)
    assert (done.returncode, done.stdout) == (0, "run/report.html\n")
    assert {name: (run / name).read_bytes() for name in before} == before
    assert (run / "report.html").exists()


def test_every_result_is_written_where_it_is_asked_for(run):
    short = (run / "junit.xml").read_text()
    assert not (run / "results.csv").exists()
    assert nodegate("report", "run", "--all-results", where=run.parent).returncode == 0
    assert 'name="link_width[gpu0001]"' in (run / "junit.xml").read_text()
    assert 'name="link_width[gpu0001]"' not in short
    run_pytest(run.parent, ["--replay", "run", "-q", "--run-dir", "again", "--all-results"])
    lines = [(folder / "results.csv").read_text().count("\n") for folder in (run, run.parent / "again")]
    assert lines[0] == lines[1] > len(read(run))


def test_the_plan_of_a_run_as_json(run, capsys):
    assert cli.main(["drain-plan", str(run), "--json"]) == 0
    said = read_output(capsys.readouterr().out)
    assert said["run"] == json.loads((run / "report.json").read_text())["run"]["id"]
    assert said["drain"] or said["not_drained"]
    assert {each["verdict"] for each in said["not_drained"]} == {"incomplete"}


def test_the_redacted_reports_stand_beside_their_run(run):
    report = json.loads((run / "report.json").read_text())
    serials = [serial for node in report["nodes"] for serial in node["serials"].values()]
    assert serials
    before = (run / "report.json").read_bytes()
    done = nodegate("report", "run", "--redact", where=run.parent)
    assert done.returncode == 0, done.stderr
    copy = run.with_name("run-redacted")
    assert done.stdout == f"{copy}/report.html\n"
    for file in copy.iterdir():
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
        assert not [serial for serial in serials if serial in text], file.name
    assert not (copy / "evidence").exists()
    refused = nodegate("report", "run", "--redact", "--to", "./run", where=run.parent)
    assert refused.returncode == 2
    assert "would replace the original" in refused.stderr
    assert (run / "report.json").read_bytes() == before


@pytest.mark.parametrize("arguments", [["report", "nowhere"], ["report", "."], ["doctor", "--inventory", "nowhere"]])
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path, arguments):
    done = nodegate(*arguments, where=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_fault_of_ours_is_2_and_never_the_1_of_a_bad_node(tmp_path):
    code = (
        "import sys; from nodegate import cli; from nodegate.run import bootcheck\n"
        "def broken(**words): raise RuntimeError('a bug')\n"
        "bootcheck.bootcheck = broken\n"
        "sys.exit(cli.main(['bootcheck']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "nodegate failed (RuntimeError: a bug): please report this\n"


def test_the_exit_code_of_bootcheck_stands_when_nobody_reads_its_line(tmp_path):
    code = (
        "import sys, time; from nodegate import cli; from nodegate.run import bootcheck\n"
        "bootcheck.bootcheck = lambda **words: bootcheck.Outcome(bootcheck.Exit.UNFIT, 'unfit: GPU 3')\n"
        "time.sleep(1); sys.exit(cli.main(['bootcheck']))\n"
    )
    script = f'{sys.executable} -c "$CODE" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.long
def test_demo_runs_in_a_site_folder_and_does_not_take_an_earlier_run_for_its_own(site):
    done = nodegate("demo", where=site)
    assert done.returncode == 0, done.stdout
    again = nodegate("demo", where=site, PYTEST_ADDOPTS="--no-such-option")
    assert again.returncode == 2
    assert "demo: pytest ended with exit code 4" in again.stdout
