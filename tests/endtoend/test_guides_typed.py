"""The pages a-failed-job.md and a-bad-node.md, typed: after a job failed, and for a node that must leave service."""

import datetime as dt
import shutil

import pytest
from fleet import faults
from fleet.machine import Machine
from job.kinds import made
from job.server import fill, prometheus
from support import training_logs
from support.job_stories import memory_error
from support.recorded import write_fleet
from support.typed import Typed

SEED = 20_261_127
SERIAL = "1650003000003"  # GPU 3 of the third machine


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")
def test_a_failed_job(tmp_path):
    story = next(each for each in made(SEED) if each.truth == "rank-gone")
    (tmp_path / "metrics").mkdir()
    fill(story, tmp_path / "metrics")
    (tmp_path / "logs").mkdir()
    memory_error(tmp_path / "logs")
    pace = training_logs.slowed(training_logs.times(400), 300, 1.5)
    (tmp_path / "train.log").write_text(training_logs.megatron(pace))
    write_fleet(tmp_path, [Machine.hgx_h100("gpu07", 7), Machine.hgx_h100("gpu08", 8)])
    at = dt.datetime.fromtimestamp(story.end, tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with prometheus(tmp_path / "metrics") as url:
        page = Typed("a-failed-job.md", tmp_path, PROMETHEUS=url, NODES=",".join(story.nodes), AT=at)
        code, printed = page.next()  # 1: the logs
        assert (code, printed.splitlines()[0].startswith("hardware: move the job off gpu08")) == (0, True), printed
        assert page.next() == (0, "restart --exclude=gpu08\n")  # 2: for the launcher
        code, printed = page.next()  # 3: its pace
        assert (code, "slow since iteration 30" in printed) == (1, True), printed
        code, printed = page.next()  # 4: its metrics
        assert (code, printed.startswith("rank-gone: ")) == (1, True), printed
    code, printed = page.next()  # 5: the node
    assert (code, "gpu08" in printed) == (0, True), printed
    assert not page.left


def test_a_bad_node(tmp_path):
    machines = [Machine.hgx_h100(f"gpu-{at:02}", at) for at in range(1, 5)]
    write_fleet(tmp_path, machines)
    page = Typed("a-bad-node.md", tmp_path)
    code, printed = page.next()  # 1: a night on which all is well
    assert code == 0, printed
    faults.lost_gpu(machines[2])
    shutil.rmtree(tmp_path / "recordings")
    write_fleet(tmp_path, machines)
    code, printed = page.next()  # 2: the next one
    assert (code, f"GPU 3 S/N {SERIAL}" in printed) == (1, True), printed
    code, printed = page.next()  # 3: out of service
    assert (code, "scontrol update NodeName=gpu-03 State=DRAIN" in printed) == (0, True), printed
    code, printed = page.next()  # 4: its past
    assert (code, printed.count("gpu_lost")) == (0, 2), printed
    code, printed = page.next()  # 5: for the vendor
    assert (code, "manifest.sha256" in printed, "FAILED" in printed) == (0, False, False), printed
    assert "README.txt: OK" in printed
    code, printed = page.next()  # 6: repaired
    assert code == 0, printed
    assert not page.left
