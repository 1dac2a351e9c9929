"""Healthy nodes work on under all three hooks, whatever jobs do on them."""

from __future__ import annotations

from lab.nodes import gpus
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster

ALL = ("prolog", "epilog", "healthcheck")
ROUNDS = 3
ENVIRONMENT = "env | grep -E 'GPU|CUDA|NVIDIA|^PATH' | sort"


def test_jobs_run_round_after_round_and_nothing_is_drained(slurm: Cluster, worker: Bench, neighbour: Bench) -> None:
    both = (worker, neighbour)
    for one in both:
        one.hook(*ALL)
    for _ in range(ROUNDS):
        jobs = [slurm.submit("true", "-w", one.node.name, "--gpus=8") for one in both]
        for one, job in zip(both, jobs, strict=True):
            one.ends(job)
            assert slurm.job(job, "Restarts") == "0"
    for one in both:
        one.check()
        one.becomes("idle")  # slurmctld parts with a job after the job's own end
        assert (one.reason, one.said()) == ("none", "")


def test_a_job_on_its_gpus_is_neither_disturbed_nor_held_against_the_node(slurm: Cluster, worker: Bench) -> None:
    worker.hook(*ALL)
    script = "exec 3</dev/nvidia0; echo $$ >/tmp/job; until [ -e /tmp/go ]; do sleep 0.1; done; rm /tmp/go /tmp/job"
    job = slurm.submit(script, "-w", worker.node.name, "--gpus=1")
    worker.ends(job, "RUNNING")
    pid = slurm.wait_for(lambda: worker.node.run("cat", "/tmp/job", check=False), "\n").strip()
    busy = gpus.scenario(worker.node).set(0, "processes.compute", f"{pid}:60000000000").set(0, "utilization", 100)
    busy.set(0, "memory_used", 60_000_000_000).system(f"process.{pid}", "python train.py")
    busy.write(worker.node.root / gpus.SCENARIO)
    worker.check()
    beside = slurm.submit("true", "-w", worker.node.name, "--gpus=1")  # its prolog and epilog see the other's process
    worker.ends(beside)
    assert slurm.job(job) == "RUNNING"
    worker.node.run("touch", "/tmp/go")
    worker.ends(job)
    gpus.scenario(worker.node).write(worker.node.root / gpus.SCENARIO)
    worker.becomes("idle")
    assert (worker.reason, worker.said()) == ("none", "")


def test_hooks_work_without_a_path_and_leave_the_jobs_environment_alone(slurm: Cluster, worker: Bench) -> None:
    command = ["srun", "-w", worker.node.name, "--gpus=2", "sh", "-c", ENVIRONMENT]
    before = slurm.controller.run(*command)
    worker.hook(*ALL, options="--fresh 0")
    prolog = worker.node.root / "etc/slurm/prolog"
    prolog.unlink()
    prolog.write_text("#!/bin/sh\n/usr/bin/env >/tmp/given\nexec /opt/nodegate/deploy/slurm-prolog.sh\n")
    prolog.chmod(0o755)
    assert slurm.controller.run(*command, limit_s=60) == before
    assert "CUDA_VISIBLE_DEVICES=0,1" in before
    given = worker.node.run("cat", "/tmp/given")
    assert "SLURM_JOB_GPUS=0,1" in given
    assert "\nPATH=" not in f"\n{given}"
    assert (worker.said(), worker.measured_s() > 0) == ("", True)
