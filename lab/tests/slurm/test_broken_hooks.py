"""Whatever goes wrong with nodegate itself, jobs start and no node is drained; told to be strict, they do not start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.fault_table import Told
from lab.nodes import fault, faults
from lab.nodes.node import LabNode
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster
from lab.taken_back import taken_back

ALL = ("prolog", "epilog", "healthcheck")
PACKAGE = "/opt/nodegate/lib/python3.*/site-packages/nodegate"
HANG_LIMIT_S = 3
HANG = "NVML hangs"


@taken_back
def no_python(node: LabNode) -> Iterator[None]:
    """Nodegate's environment points to a Python that an update has removed."""
    link = node.root / "opt/nodegate/bin/python3"
    link.unlink()
    link.symlink_to("/usr/bin/python3.4")
    yield
    link.unlink()
    link.symlink_to("/usr/bin/python3")


@taken_back
def broken_module(node: LabNode) -> Iterator[None]:
    """A half of an update: Python ends with exit code 1, as for a verdict."""
    node.run("sh", "-c", f"echo 'import no_such_module' >/tmp/broken; mount --bind /tmp/broken {PACKAGE}/cli.py")
    yield
    node.run("sh", "-c", f"umount {PACKAGE}/cli.py")


@taken_back
def broken_check(node: LabNode) -> Iterator[None]:
    """A check file of the suite does not parse."""
    file = f"{PACKAGE}/suite/checks/test_gpu.py"
    node.run("sh", "-c", f"echo 'def test_(:' >/tmp/broken; mount --bind /tmp/broken {file}")
    yield
    node.run("sh", "-c", f"umount {file}")


@taken_back
def bad_baseline(node: LabNode) -> Iterator[None]:
    """A typo in the site's own limits."""
    with fault.holding(node.root / "etc/nodegate/site.yaml", "platform: [\n"):
        yield


@taken_back
def held_by_another_run(node: LabNode) -> Iterator[None]:
    """Somebody measures the node: its lock is taken."""
    lock = "/run/lock/nodegate.lock"
    node.run("sh", "-c", f"echo 'a burn' >{lock}; flock {lock} sleep 600 >/dev/null 2>&1 & echo $! >/tmp/holder")
    node.run("sh", "-c", f"while flock -n {lock} true; do sleep 0.02; done")
    yield
    node.run("sh", "-c", f"pkill -P $(cat /tmp/holder); while ! flock -n {lock} true; do sleep 0.02; done")


class Case(NamedTuple):
    """What is wrong, how it is brought about, and what the log has of it."""

    set: Callable[[LabNode], AbstractContextManager[object]]
    fault: str
    injected: str
    words: str


CASES = [
    Case(no_python, "nodegate's Python removed", "its link points nowhere", "could not tell: no answer from"),
    Case(broken_module, "nodegate's module broken", "a file that fails to import", "could not tell: no answer from"),
    Case(broken_check, "a check file broken", "a file that does not parse", "suite/checks/test_gpu.py"),
    Case(bad_baseline, "typo in the site's limits", "a YAML file that ends early", "could not tell: /etc/nodegate"),
    Case(held_by_another_run, "another run holds the node", "flock", "busy: another run holds this node"),
    Case(
        faults.nvml_hangs,
        HANG,
        "a call that takes 600 s",
        f"bin/nodegate within {HANG_LIMIT_S} s",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
def test_the_job_starts_nothing_is_drained_and_the_log_says_why(
    slurm: Cluster, worker: Bench, told: Told, case: Case
) -> None:
    worker.hook(*ALL, options="--fresh 0", limit_s=str(HANG_LIMIT_S if case.fault == HANG else 100))
    with case.set(worker.node):
        begun_s = time.monotonic()
        job = slurm.submit("true", "-w", worker.node.name)
        worker.ends(job)
        took_s = time.monotonic() - begun_s
        worker.check()
        for hook in ALL:
            worker.hears(f"slurm-{hook}: ")
        assert slurm.job(job, "Restarts") == "0"
        said = worker.said()
        assert {case.words in line for line in said.splitlines()} == {True}
        worker.becomes("idle")
        assert worker.reason == "none"
        worker.hook()
        worker.is_left_alone()
    told.hook(
        case.fault,
        case.injected,
        hook="slurm-prolog",
        node_state="idle",
        said=said,
        words=case.words,
        seconds=took_s,
    )


STRICT = [CASES[1], CASES[3]]


@pytest.mark.parametrize("case", STRICT, ids=[case.fault for case in STRICT])
def test_told_to_be_strict_the_prolog_holds_the_job(slurm: Cluster, worker: Bench, case: Case) -> None:
    worker.hook("prolog", strict="1")
    with case.set(worker.node):
        job = slurm.submit("true", "-w", worker.node.name)
        worker.becomes("drained")
        slurm.wait_for(lambda: slurm.job(job, "Restarts"), "1")
    assert case.words in worker.said()


def test_told_to_be_strict_the_health_check_drains_what_it_cannot_judge_but_not_what_a_run_holds(
    worker: Bench,
) -> None:
    worker.hook("healthcheck", strict="1")
    with held_by_another_run(worker.node):
        worker.check()
    assert "busy: another run holds this node" in worker.said()
    assert worker.reason == "none"
    with bad_baseline(worker.node):
        worker.check()
        worker.becomes("drained")
    assert worker.reason.startswith("nodegate: could not tell: /etc/nodegate/site.yaml")


def test_a_settings_file_full_of_rubbish_is_no_reason_to_hold_a_job(slurm: Cluster, worker: Bench) -> None:
    worker.hook("prolog")
    conf: Path = worker.node.root / "etc/nodegate/hooks.conf"
    conf.write_text("exit 1\n'\"$(\nNODEGATE_LIMIT_S=soon\nNODEGATE_OPTIONS=--no-such-option *\n")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    assert worker.reason == "none"
    assert "could not tell" in worker.said()


def test_nodes_that_the_settings_leave_out_are_not_looked_at(slurm: Cluster, worker: Bench) -> None:
    worker.hook("prolog", nodes="cpu*|login?")
    with faults.gpu_lost(worker.node):
        worker.ends(slurm.submit("true", "-w", worker.node.name))
    assert (worker.said(), worker.measured_s()) == ("", 0.0)
