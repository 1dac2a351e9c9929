"""A real Prometheus that scrapes every second while exporters are killed, slowed and changed; and a real node_exporter.

Each job has half an hour of history in blocks, which its exporter goes on with. Its values are as in the stories.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from job.server import await_answer, fill, prometheus
from job.stories import DCGM, DEFAULT, Array, Story, _gpu_labels, _labels, waiting, working
from job.sysfs import made_sys, node_exporter
from support.sshd import free_port

SCRIPT = Path(__file__).parents[2] / "deploy" / "prometheus" / "rdma_counters.py"
HERE = socket.gethostname().partition(".")[0]  # the name that node_exporter tells
NOISE = {"tensor": 0.03, "dram": 0.03, "power": 0.025, "engine": 0.006}
LOST_WITHIN_S = 300  # three minutes of silence, and the minute in which they end
pytestmark = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus-node-exporter")),
    reason="Debian's packages prometheus and prometheus-node-exporter are not installed",
)


@dataclass
class Exporter:
    """The exporter of one node of a job, a process of its own."""

    story: Story
    node: int
    folder: Path

    def __post_init__(self) -> None:
        self.port, self.file = free_port(), self.folder / f"{self.story.nodes[self.node]}.json"
        self.says()
        command = [sys.executable, str(Path(__file__).with_name("exporter.py")), str(self.port), str(self.file)]
        self.process = subprocess.Popen(command)
        await_answer(f"http://127.0.0.1:{self.port}/metrics")

    def says(self, state: dict[str, Array] | None = None, *, delay_s: float = 0, **renamed: str) -> None:
        """From now on: a state of the GPUs, a delay, labels of another name (new=old) or new ones (name="=value")."""
        values, series = self.story.values | (state or {}), []
        for quantity in DEFAULT:
            for row in self.story.rows_of(self.node):
                labels = _gpu_labels(self.story, row, 0, 0)
                labels = {name: labels[name] for name in labels if name not in ("instance", "job")}
                for new, old in renamed.items():
                    labels[new] = old[1:] if old.startswith("=") else labels.pop(old)
                noise = 0.003 if state else NOISE.get(quantity, 0.0)
                series.append((DCGM[quantity], _labels(labels), float(values[quantity][row, -1]), noise))
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps({"delay_s": delay_s, "series": series}))
        beside.replace(self.file)

    @property
    def target(self) -> str:
        """Its lines of Prometheus' configuration."""
        name = self.story.nodes[self.node]
        return f"      - {{targets: ['127.0.0.1:{self.port}'], labels: {{instance: '{name}:9400'}}}}\n"


def _story(number: int, nodes: list[str]) -> Story:
    story = Story(number, "live", "", "bare", "default", nodes, "NVIDIA H100 80GB HBM3",
                  np.random.default_rng(number), 15, int(time.time()))  # fmt: skip
    working(story)
    return story


def _ask(url: str, nodes: list[str], *more: str) -> dict[str, object]:
    command = [sys.executable, "-m", "nodegate.cli", "job", "--prometheus", url, "--nodes", ",".join(nodes), "--json"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return dict(json.loads(done.stdout))


def test_exporters_are_killed_slowed_and_changed_while_they_are_scraped(tmp_path: Path) -> None:
    """One of two is killed: its worker is lost. A slow one and one with other labels: nobody is blamed."""
    stories = [_story(1, ["live1", "live2"]), _story(2, ["live3"]), _story(3, [HERE])]
    for each in stories:
        fill(each, tmp_path)
    of = {name: Exporter(each, node, tmp_path) for each in stories for node, name in enumerate(each.nodes)}
    (textfiles := tmp_path / "textfiles").mkdir()
    sysfs = made_sys(tmp_path / "sys", {"rp_cnp_handled": "1000"}, ("mlx5_0",))
    try:
        with node_exporter(sysfs, textfiles) as hosts:
            config = "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n  - job_name: dcgm\n"
            config += "    static_configs:\n" + "".join(each.target for each in of.values())
            address = hosts.split("/")[2]
            config += f"  - job_name: node\n    static_configs:\n      - targets: ['{address}']\n"
            with prometheus(tmp_path, config) as url:
                _watched(url, of, lambda seconds: _count(seconds, textfiles, hosts, sysfs))
    finally:
        for each in of.values():
            each.process.kill()
            each.process.wait(10)


def _count(seconds: float, textfiles: Path, hosts: str, sysfs: Path) -> None:
    """The port gets 50 notices a second, and the script writes them for node_exporter."""
    counter = sysfs / "class/infiniband/mlx5_0/ports/1/hw_counters/rp_cnp_handled"
    counter.write_text(f"{1000 + 50 * seconds:.0f}\n")
    script = [sys.executable, str(SCRIPT), str(textfiles / "rdma.prom"), "--sys", str(sysfs), "--exporter", hosts]
    subprocess.run(script, check=True)


def _watched(url: str, of: dict[str, Exporter], count: Callable[[float], None]) -> None:
    time.sleep(8)
    begun, lost = time.monotonic(), {}
    os.kill(of["live2"].process.pid, signal.SIGKILL)
    of["live1"].says(waiting(of["live1"].story))
    of["live3"].says(delay_s=3)
    of[HERE].says(hostname="Hostname", DCGM_FI_DRIVER_VERSION="=580.95.05")
    while lost.get("class") != "worker-lost":
        seconds = time.monotonic() - begun
        assert seconds < LOST_WITHIN_S, lost
        count(seconds)
        lost, slow = _ask(url, ["live1", "live2"]), _ask(url, ["live3"])
        assert lost["class"] == "worker-lost" or lost["where"] == [], lost
        assert slow["class"] in ("healthy", "cannot-tell"), slow
        if seconds > 30:
            of["live3"].says()
        time.sleep(15)
    assert lost["where"] == [{"node": "live2", "gpu": None, "pod": None}]
    assert _ask(url, ["live3"])["class"] == "healthy"
    kept = of[HERE].folder / "kept"
    changed = _ask(url, [HERE], "--run-dir", str(kept))
    assert changed["class"] == "healthy", changed
    assert "(8) on its nodes (1)" in str(changed["why"])
    assert "node_exporter" not in str(changed["not_judged"])
    rows = json.loads(next(kept.glob("nodes-*.json")).read_text())["data"]["result"]
    rows = [row for row in rows if row["metric"].get("nodegate_quantity") == "cnp_handled"]
    assert max(float(value) for row in rows for _, value in row["values"]) > 10
