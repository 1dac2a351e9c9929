"""What an inventory demands of a node holds at its prolog, its health check and in its jobs; a bad file drains none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.fault_table import Told
from lab.nodes.node import LabNode
from lab.slurm.bench import DEMANDS, Bench
from lab.slurm.cluster import Cluster
from lab.taken_back import taken_back
from nodegate import cli

PORT = 29500
Give = Callable[..., Path]
JOB = """\
export MASTER_PORT=29500 MASTER_ADDR={address}
{nodegate} bootcheck --baseline /etc/nodegate/site.yaml >/run/in-the-job; echo $? >>/run/in-the-job"""


@pytest.fixture
def give(worker: Bench, tmp_path: Path) -> Give:
    """Write the demands of gpu-2, or of another node, by the command, and put them on gpu-2."""

    def written(node: str = "gpu-2", **variables: str) -> Path:
        lines = "".join(f"      nodegate_{name}: {value}\n" for name, value in variables.items())
        (tmp_path / "hosts.yaml").write_text(f"all:\n  hosts:\n    {node}:\n{lines}")
        (tmp_path / "site.yaml").write_text((worker.node.root / "etc/nodegate/site.yaml").read_text())
        words = ["--inventory", f"{tmp_path}/hosts.yaml", "--baseline", f"{tmp_path}/site.yaml", "--to", str(tmp_path)]
        assert cli.main(["demands", node, *words]) == 0
        file = worker.node.root / DEMANDS.lstrip("/")
        file.write_text((tmp_path / f"{node}.yaml").read_text())
        file.chmod(0o644)
        return file

    return written


@taken_back
def listening(node: LabNode) -> Iterator[None]:
    """Something listens on the port."""
    node.run("systemd-run", "--quiet", "--unit=taken", "python3", "-m", "http.server", str(PORT))
    node.run("sh", "-c", f"until ss -ltn | grep -q ':{PORT} '; do sleep 0.05; done")
    yield
    node.run("systemctl", "stop", "taken")


class Case(NamedTuple):
    """What is demanded in vain, what the hook says of it, and which hook."""

    hook: str
    fault: str
    variable: dict[str, str]
    words: str


MOUNT, DRIVER = {"mounts": "[/checkpoints]"}, {"expect": '{driver: "580.95.05"}'}
CASES = [
    Case(hook, fault, variable, words)
    for hook in ("prolog", "healthcheck")
    for fault, variable, words in (
        ("a mount is missing that is demanded", MOUNT, "/checkpoints: not mounted"),
        ("another driver than is demanded", DRIVER, "driver: version 550"),
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.hook}: {case.fault}")
def test_what_is_demanded_and_not_there_drains_the_node(
    slurm: Cluster, worker: Bench, give: Give, told: Told, case: Case
) -> None:
    give(**case.variable)
    begun_s = time.monotonic()
    worker.hook(case.hook)
    job = slurm.submit("true", "-w", worker.node.name) if case.hook == "prolog" else ""
    worker.becomes("drained")
    if job:
        slurm.wait_for(lambda: slurm.job(job, "Restarts"), "1")
    told.hook(
        f"{case.fault} ({case.hook})",
        "a demands file on the node",
        hook=f"slurm-{case.hook}",
        node_state="drained",
        said=worker.reason,
        words=case.words,
        seconds=time.monotonic() - begun_s,
    )


def test_a_port_that_is_taken_drains_no_node_beside_jobs_and_is_seen_where_nodes_are_whole(
    slurm: Cluster, worker: Bench, give: Give, told: Told
) -> None:
    give(ports=f"[{PORT}]")
    with listening(worker.node):
        worker.hook("prolog", "healthcheck")
        worker.ends(slurm.submit("true", "-w", worker.node.name))
        worker.check()
        assert worker.state == "idle"
        worker.hook("prolog", options="--exclusive")
        begun_s = time.monotonic()
        slurm.submit("true", "-w", worker.node.name)
        worker.becomes("drained")
        reason = worker.reason
    told.hook(
        f"port {PORT} taken, where jobs have whole nodes",
        "a program listens; a demands file on the node",
        hook="slurm-prolog",
        node_state="drained",
        said=reason,
        words=f"port {PORT}: another program listens on it",
        seconds=time.monotonic() - begun_s,
    )


def test_a_job_learns_whether_its_own_port_is_free(slurm: Cluster, worker: Bench, give: Give) -> None:
    give()
    worker.hook("prolog")

    def said(address: str) -> list[str]:
        script = JOB.format(address=address, nodegate="/opt/nodegate/bin/nodegate")
        worker.ends(slurm.submit(script, "-w", worker.node.name, "--gpus=8"))
        return worker.node.run("cat", "/run/in-the-job").splitlines()

    free = said("gpu-2")
    assert (free[0].startswith("fit: "), free[1]) == (True, "0")
    with listening(worker.node):
        assert said("gpu-2") == [f"unfit: port {PORT}: another program listens on it", "1"]
        elsewhere = said("gpu-3")
        assert (elsewhere[0].endswith("; MASTER_PORT 29500 not looked at: gpu-3 opens it"), elsewhere[1]) == (True, "0")
        worker.becomes("idle")


def test_a_task_prolog_ends_the_step_and_leaves_the_node(slurm: Cluster, worker: Bench, give: Give) -> None:
    give()
    task = "srun --ntasks=2 --task-prolog=/opt/nodegate/deploy/slurm-task-prolog.sh echo it ran"

    def said(*, port: int) -> list[str]:
        script = f"export MASTER_PORT={port}; {task} >/run/of-the-job 2>&1; echo exit $? >>/run/of-the-job"
        worker.ends(slurm.submit(script, "-w", worker.node.name, "--ntasks=2"))
        return worker.node.run("cat", "/run/of-the-job").splitlines()

    with listening(worker.node):
        taken, free = said(port=PORT), said(port=PORT + 1)
    assert [line.partition(" - ")[0] for line in taken if line.startswith("nodegate: ")] == [
        f"nodegate: unfit: port {PORT}: another program listens on it"
    ]
    assert taken[-1] == "exit 1"
    assert free == ["it ran", "it ran", "exit 0"]
    worker.becomes("idle")
    assert worker.reason == "none"


class Spoilt(NamedTuple):
    """A file that must not be used, and what is said of it."""

    words: str
    node: str = "gpu-2"
    more: dict[str, str] = {}  # noqa: RUF012 - read only
    change: tuple[str, str] = ("", "")
    length: int | None = None
    mode: int = 0o644


SPOILT = {
    "another node's": Spoilt("the demands of gpu-9, this is gpu-2", node="gpu-9"),
    "another chassis'": Spoilt("the demands of gpu-2, chassis A1, this is gpu-2", more={"serial": "A1"}),
    "changed": Spoilt("its hash differs", change=("/checkpoints", "/scratch")),
    "cut off": Spoilt("this is not a demands file, or damaged", length=300),
    "of a later release": Spoilt("this release reads nodegate.demands/1", change=("demands/1", "demands/9")),
    "writable": Spoilt("other users can write it", mode=0o666),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=list(SPOILT))
def test_a_file_that_is_not_this_nodes_or_not_whole_holds_no_job(
    slurm: Cluster, worker: Bench, give: Give, spoilt: Spoilt
) -> None:
    file = give(spoilt.node, **MOUNT, **spoilt.more)
    file.write_text(file.read_text().replace(*spoilt.change)[: spoilt.length])
    file.chmod(spoilt.mode)
    worker.hook("prolog")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    worker.hook("healthcheck")
    worker.check()
    said = worker.hears("slurm-healthcheck: ")
    for hook in ("prolog", "healthcheck"):
        (line,) = {line for line in said.splitlines() if line.startswith(f"slurm-{hook}: could not tell: {DEMANDS}: ")}
        assert spoilt.words in line
    worker.becomes("idle")
    assert worker.reason == "none"


def test_a_word_that_was_kept_under_other_demands_is_not_believed(slurm: Cluster, worker: Bench, give: Give) -> None:
    give()
    worker.hook("prolog", options="--fresh 3600")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    measured_s = worker.measured_s()
    give()
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    assert worker.measured_s() == measured_s, "the same demands, written again"
    give(**MOUNT)
    slurm.submit("true", "-w", worker.node.name)
    worker.becomes("drained")
    assert "/checkpoints: not mounted" in worker.reason
