"""What deploy/kubernetes makes, on a real node: node-problem-detector, a Job's init container, the night."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.kubernetes.cluster import ROOT, Cluster
from lab.kubernetes.node import NAME, NODEGATE
from lab.processes import wait_until
from lab.tests.kubernetes.conftest import DEPLOY
from lab.tests.kubernetes.test_hold import holds, of_runs

PROGRAM = Path("/opt/nodegate/bin/nodegate")
REAL = f'exec flock /run/turns {sys.executable} -m nodegate.cli "$@"'  # it is asked each second: one waits for another
# What the program says and ends with -> the condition, whether a Job starts.
ANSWERS = {
    "fit": ("echo 'fit: 120 checks'; exit 0", "False", "fit by nodegate bootcheck", True),
    "unfit": ("echo 'unfit: GPU 3: off the bus'; exit 1", "True", "unfit: GPU 3: off the bus", False),
    "the real one": (REAL, "True", "unfit: NVIDIA kernel module: NVIDIA driver not loaded", False),
    "could not tell": ("echo 'could not tell: x'; exit 2", "Unknown", "could not tell: x", True),
    "fails like a shell": ("exit 1", "Unknown", "did not start on the node", True),
    "says nothing": ("exit 0", "Unknown", "did not start on the node", True),
}


@pytest.fixture(scope="module")
def watched(reached: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The real node with node-problem-detector, that asks each second."""
    folder = tmp_path_factory.mktemp("npd")
    config = json.loads((DEPLOY / "npd/nodegate.json").read_text())
    config["pluginConfig"] |= {"invoke_interval": "1s", "timeout": "20s"}
    (folder / "nodegate.json").write_text(json.dumps(config))
    (folder / "answer.sh").write_bytes((DEPLOY / "npd/answer.sh").read_bytes())
    again = {"name": "nodegate-npd", "namespace": "nodegate", "behavior": "replace"}
    again |= {"files": ["nodegate.json", "answer.sh"]}  # type: ignore[dict-item]
    written(folder, "npd", configMapGenerator=[again])
    reached.kubectl("apply", "-k", str(folder))
    yield reached
    reached.kubectl("delete", "-k", str(folder))


def written(folder: Path, part: str, **more: object) -> None:
    """A kustomization of a site, over one of ours."""
    found = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **more}
    (folder / "kustomization.yaml").write_text(
        json.dumps({**found, "resources": [os.path.relpath(DEPLOY / part, folder)]})
    )


def program(kube: Cluster, script: str) -> None:
    """What is at the program's place on the node from now on; nothing where it is empty."""
    kube.space.inside("mkdir", "-p", str(PROGRAM.parent))
    text = f"#!/bin/sh\ncd {ROOT} || exit 2\n{script}\n"
    put = f"cat >{PROGRAM}.new <<'END'\n{text}END\nchmod 755 {PROGRAM}.new; mv {PROGRAM}.new {PROGRAM}"
    kube.space.inside("sh", "-ec", put if script else f"rm -f {PROGRAM}")


def condition(kube: Cluster) -> tuple[str, str]:
    form = "-ojsonpath={range .status.conditions[?(@.type=='NodegateBootcheckUnfit')]}{.status}|{.message}{end}"
    status, _, message = kube.kubectl("get", "node", NAME, form).partition("|")
    return status, message


def starts(kube: Cluster, folder: Path, name: str) -> tuple[bool, str]:
    """Whether a Job with the init container comes to its own program, and what its pod says."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"nodegate.io/bootcheck": "true"}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "job", "image": "docker.io/library/busybox:1.36", "command": ["sh", "-c", "exit 0"]}
                    ],
                }
            },
        },
    }
    (folder / "job.yaml").write_text(json.dumps(job))
    whole = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["job.yaml"]}
    whole |= {"components": [os.path.relpath(DEPLOY / "before-a-job", folder)]}
    (folder / "kustomization.yaml").write_text(json.dumps(whole))
    kube.kubectl("apply", "-k", str(folder))
    form = "-ojsonpath={.status.succeeded}{.status.failed}"
    assert wait_until(lambda: kube.kubectl("get", "job", name, form) != "", 60.0)
    is_good = kube.kubectl("get", "job", name, "-ojsonpath={.status.succeeded}") == "1"
    said = kube.kubectl("describe", "pod", "-l", f"job-name={name}")
    kube.kubectl("delete", "job", name)
    return is_good, said


@pytest.mark.parametrize("answer", [*ANSWERS, "none"])
def test_an_answer_is_a_condition_and_decides_on_a_job(watched: Cluster, tmp_path: Path, answer: str) -> None:
    script, status, message, may_start = ANSWERS.get(answer, ("", "Unknown", "did not start on the node", True))
    program(watched, ANSWERS["fit"][0])  # from there: it changes no message where the status stays
    assert wait_until(lambda: condition(watched)[0] == "False", 30.0)
    program(watched, script)
    assert wait_until(lambda: condition(watched)[0] == status, 60.0)
    assert message in condition(watched)[1]
    is_good, said = starts(watched, tmp_path, f"job-{[*ANSWERS, 'none'].index(answer)}")
    assert is_good == may_start, said
    if not may_start:
        assert f"nodegate on {NAME}: {message}" in said
        assert f"its verdict: kubectl describe node {NAME}" in said


@pytest.fixture(scope="module")
def night(reached: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The CronJob; its image is a shell into which this machine's Python and the checkout are mounted."""
    folder = tmp_path_factory.mktemp("night")
    places = {"usr": "/usr", "lib": "/lib", "lib64": "/lib64", "checkout": str(ROOT), "python": sys.base_prefix}
    mounts = [{"name": name, "mountPath": place, "readOnly": True} for name, place in places.items()]
    path = {"name": "PATH", "value": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    more = {"name": "night", "volumeMounts": mounts, "env": [path]}
    volumes = [{"name": name, "hostPath": {"path": place}} for name, place in places.items()]
    spec = {"jobTemplate": {"spec": {"template": {"spec": {"containers": [more], "volumes": volumes}}}}}
    patch = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nodegate-night"}, "spec": spec}
    (folder / "patch.yaml").write_text(json.dumps(patch))
    whole = {"name": NODEGATE.partition(":")[0], "newTag": "latest"}
    target = {"kind": "CronJob"}
    written(folder, "night", patches=[{"path": "patch.yaml", "target": target}], images=[whole])
    place = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "storageClassName": ""}
    place |= {"hostPath": {"path": str(folder / "reports"), "type": "DirectoryOrCreate"}}
    reached.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "reports"}, "spec": place})
    reached.kubectl("apply", "-k", str(folder))
    return reached


def begun(kube: Cluster, name: str) -> None:
    kube.kubectl("create", "job", "-n", "nodegate", "--from=cronjob/nodegate-night", name)


def test_a_night_in_the_cluster_tests_and_writes(night: Cluster) -> None:
    begun(night, "first")
    asks = ("get", "job", "first", "-n", "nodegate", "-ojsonpath={.status.succeeded}{.status.failed}")
    assert wait_until(lambda: night.kubectl(*asks) != "", 240.0)
    log = night.kubectl("logs", "-n", "nodegate", "job/first")
    assert night.kubectl(*asks[:-1], "-ojsonpath={.status.succeeded}") == "1", log
    assert f"{NAME}: would be tainted nodegate.io/unfit=" in log
    form = "-ojsonpath={range .status.conditions[?(@.type=='NodegateUnfit')]}{.status}{end}"
    assert night.kubectl("get", "node", NAME, form) == "True"


def test_a_night_that_is_deleted_leaves_nothing(night: Cluster) -> None:
    begun(night, "second")
    assert wait_until(lambda: holds(night) == "Running", 120.0)
    begun_s = time.monotonic()
    night.kubectl("delete", "job", "second", "-n", "nodegate")
    assert wait_until(lambda: (of_runs(night), holds(night)) == ([], ""), 60.0), time.monotonic() - begun_s
