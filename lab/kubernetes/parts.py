"""The programs of a cluster, built once from their Go modules: what go.mod and go.sum say, and nothing else decides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab import cache, needs

HERE = Path(__file__).parent
LIMIT_S = 3600
_MAJOR, _MINOR, _VERSION = "1", "34", "v1.34.4"  # of k8s.io/kubernetes in go.mod: without them it says 0.0.0
_NAMES = {"gitMajor": _MAJOR, "gitMinor": _MINOR, "gitVersion": _VERSION}
_SAYS = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in _NAMES.items())
_OF_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
_BUILDS = {
    ".": ["go.etcd.io/etcd/server/v3", "./pause", *(f"k8s.io/kubernetes/cmd/{name}" for name in _OF_KUBERNETES)],
    "npd": ["k8s.io/node-problem-detector/cmd/nodeproblemdetector"],
}
_FILES = ("go.mod", "go.sum", "npd/go.mod", "npd/go.sum", "pause/main.go")
PROGRAMS = ("busybox", "containerd", "ctr", "go", "ip", "nsenter", "openssl", "runc", "unshare")


def why_not() -> str:
    """Why this machine cannot run a cluster; empty when it can."""
    return needs.why_not("Kubernetes' programs", PROGRAMS)


def parts() -> Path:
    """The folder of the programs, built where the cache has none: six minutes on two cores, 1 GB of downloads and 4 GB
    of Go's own caches.

    Raises:
        RuntimeError: a module cannot be had, or does not compile.
    """  # noqa: D205 - the reason stands with it
    return cache.kept("kubernetes", cache.key(*[(HERE / name).read_text() for name in _FILES]), _build)


def main() -> None:
    """Build what the cache lacks."""
    print(f"lab: Kubernetes' programs: {parts()}")  # noqa: T201


def _build(target: Path) -> None:
    target.mkdir()
    environ = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -p=2", "GOTOOLCHAIN": "local"}
    for module, packages in _BUILDS.items():
        command = ["nice", "-n", "10", "go", "build", "-trimpath", "-ldflags", f"-s -w {_SAYS}", "-o", f"{target}/"]
        done = subprocess.run(
            [*command, *packages],
            cwd=HERE / module,
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"go build in lab/kubernetes/{module}: {done.stderr[-3000:]}")
    (target / "server").rename(target / "etcd")


if __name__ == "__main__":
    main()
