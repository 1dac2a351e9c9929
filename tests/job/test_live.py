"""A real Prometheus that scrapes every second while an exporter is killed.

The job has half an hour of history in blocks, which its exporters go on with. Its values are as in the stories.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from job.server import await_answer, fill, prometheus
from job.stories import DCGM, DEFAULT, Story, _gpu_labels, _labels, waiting, working
from support.sshd import free_port

NOISE = {"tensor": 0.03, "dram": 0.03, "power": 0.025, "engine": 0.006}
LOST_WITHIN_S = 300  # three minutes of silence, and the minute in which they end
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")


@dataclass
class Exporter:
    """The exporter of one node of a job, a process of its own."""

    story: Story
    node: int
    folder: Path

    def __post_init__(self):
        self.port, self.file = free_port(), self.folder / f"{self.story.nodes[self.node]}.json"
        self.says()
        command = [sys.executable, str(Path(__file__).with_name("exporter.py")), str(self.port), str(self.file)]
        self.process = subprocess.Popen(command)
        await_answer(f"http://127.0.0.1:{self.port}/metrics")

    def says(self, state=None):
        """From now on a state of the GPUs."""
        values, series = self.story.values | (state or {}), []
        for quantity in DEFAULT:
            for row in self.story.rows_of(self.node):
                labels = _gpu_labels(self.story, row, 0, 0)
                labels = {name: labels[name] for name in labels if name not in ("instance", "job")}
                noise = 0.003 if state else NOISE.get(quantity, 0.0)
                series.append((DCGM[quantity], _labels(labels), float(values[quantity][row, -1]), noise))
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(series))
        beside.replace(self.file)

    @property
    def target(self):
        """Its lines of Prometheus' configuration."""
        name = self.story.nodes[self.node]
        return f"      - {{targets: ['127.0.0.1:{self.port}'], labels: {{instance: '{name}:9400'}}}}\n"


def _ask(url, nodes):
    command = [sys.executable, "-m", "nodegate.cli", "job", "--prometheus", url, "--nodes", ",".join(nodes), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.long
def test_a_worker_whose_exporter_is_killed_is_lost_and_until_then_nobody_is_blamed(tmp_path):
    story = Story(1, "live", "", "bare", "default", ["live1", "live2"], "NVIDIA H100 80GB HBM3",
                  np.random.default_rng(1), 15, int(time.time()))  # fmt: skip
    working(story)
    fill(story, tmp_path)
    waits, killed = (Exporter(story, node, tmp_path) for node in range(2))
    config = "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n  - job_name: dcgm\n"
    config += f"    static_configs:\n{waits.target}{killed.target}"
    try:
        with prometheus(tmp_path, config) as url:
            time.sleep(8)
            begun, lost = time.monotonic(), {}
            os.kill(killed.process.pid, signal.SIGKILL)
            waits.says(waiting(story))
            while lost.get("class") != "worker-lost":
                assert time.monotonic() - begun < LOST_WITHIN_S, lost
                lost = _ask(url, story.nodes)
                assert lost["class"] == "worker-lost" or lost["where"] == [], lost
                time.sleep(10)
    finally:
        for each in (waits, killed):
            each.process.kill()
            each.process.wait(10)
    assert lost["where"] == [{"node": "live2", "gpu": None, "pod": None}]
