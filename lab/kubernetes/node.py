"""A real node of a lab's cluster: kubelet, containerd and runc on this machine, in the cluster's namespaces.

Nothing is pulled: the images are a program that waits, and, under the names that deploy/kubernetes has, this machine's
busybox and node-problem-detector. What is not real: the GPUs, a number in the node's status.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lab.kubernetes.cluster import ADDRESS, LIMIT_S, Cluster
from lab.nodes import cgroups
from lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME, IMAGE = "real-1", "localhost/pause:lab"
BUSYBOX, NPD = "docker.io/library/busybox:1.36", "registry.k8s.io/node-problem-detector/node-problem-detector:v1.34.0"
NODEGATE = "registry.example.com/nodegate:latest"  # a shell: a test mounts this machine's Python and checkout into it
_LINKS = ("nsenter", "sh", "sleep", "timeout")
_CGROUPS = Path("/sys/fs/cgroup")
_CONTAINERD = """
version = 2
root = "{0}/containers"
state = "/run/containers"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{1}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{0}/cni"
"""
_ADDRESSES = {"type": "host-local", "subnet": "10.88.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "failSwapOn": False,
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "enforceNodeAllocatable": [],
    "containerRuntimeEndpoint": "unix:///run/containerd.sock",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "makeIPTablesUtilChains": False,
    "localStorageCapacityIsolation": False,
    "oomScoreAdj": 0,
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "nodeStatusUpdateFrequency": "2s",
}


@contextmanager
def node(kube: Cluster, gpus: int = 8) -> Iterator[str]:
    """The name of a node that is ready and says that it has GPUs; until the end of the block, as the cluster."""
    folder, root = kube.folder, f"{cgroups.PREFIX}kube-{kube.space.holder}"
    groups = [each / root for each in _CGROUPS.iterdir() if (each / "cgroup.procs").exists()]
    _remove(*_CGROUPS.glob(f"*/{cgroups.PREFIX}kube-*"))
    for group in groups:
        group.mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        (_CGROUPS / f"cpuset/{root}" / name).write_text((_CGROUPS / "cpuset" / name).read_text())
    try:
        _write(folder, root, kube.programs)
        for own in ("/var/log", "/opt"):
            kube.space.inside("mount", "-t", "tmpfs", "lab", own)
        kube.start("containerd", f"--config={folder}/containerd.toml", folder=Path("/usr/bin"))
        for image in folder.glob("*.tar"):
            load = ["-n", "k8s.io", "images", "import", str(image)]
            ctr = kube.space.entered("ctr", "-a", "/run/containerd.sock", *load)
            if not wait_until(lambda: subprocess.run(ctr, capture_output=True, check=False).returncode == 0):  # noqa: B023
                raise RuntimeError((folder / "containerd.log").read_text()[-2000:])
        words = f"--config=kubelet.json --kubeconfig=admin.yaml --root-dir={folder}/kubelet --node-ip={ADDRESS}"
        kube.start("kubelet", f"{words} --cert-dir={folder}/kubelet-certs --hostname-override={NAME}")
        if not wait_until(lambda: kube.has("wait", "--for=condition=Ready", f"node/{NAME}", "--timeout=5s"), LIMIT_S):
            raise RuntimeError((folder / "kubelet.log").read_text()[-2000:])
        have = json.dumps({"status": {"capacity": {"nvidia.com/gpu": str(gpus)}}})
        kube.kubectl("patch", "node", NAME, "--subresource=status", "--type=merge", "-p", have)
        yield NAME
    finally:
        kube.end()
        _remove(*groups)


def _write(folder: Path, cgroup: str, programs: Path) -> None:
    """The files of its programs."""
    (folder / "cni").mkdir()
    bridge = {"type": "bridge", "isGateway": True, "ipam": {**_ADDRESSES, "dataDir": f"{folder}/addresses"}}
    network = {"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]}
    (folder / "cni/10-lab.conflist").write_text(json.dumps(network))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(folder, IMAGE))
    own = {"cgroupRoot": f"/{cgroup}", "podLogsDir": f"{folder}/pods"}
    (folder / "kubelet.json").write_text(json.dumps({**_KUBELET, **own}))
    busybox = {"bin/busybox": Path("/bin/busybox").resolve()}
    npd = {"node-problem-detector": programs / "nodeproblemdetector", **busybox}
    images = {IMAGE: {"pause": programs / "pause"}, BUSYBOX: busybox, NPD: npd, NODEGATE: busybox}
    for number, (tag, content) in enumerate(images.items()):
        (folder / f"image{number}.tar").write_bytes(_image(tag, content))


def _remove(*groups: Path) -> None:
    subprocess.run(["sh", "-c", cgroups.REMOVE, "sh", *map(str, groups)], check=True, timeout=60)


def _image(tag: str, programs: Mapping[str, Path]) -> bytes:
    """An image with these programs alone, busybox under its other names too, as `docker save` writes one."""
    files: dict[str, bytes] = {}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as packed:
        for path, program in programs.items():
            packed.add(program, path)
        for name in _LINKS if "bin/busybox" in programs else ():
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            packed.addfile(link)
    files["layer.tar"] = layer.getvalue()
    sha256 = f"sha256:{hashlib.sha256(files['layer.tar']).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": [f"/{next(iter(programs))}"]}}
    files["config.json"] = json.dumps({**config, "rootfs": {"type": "layers", "diff_ids": [sha256]}}).encode()
    named = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    files["manifest.json"] = json.dumps(named).encode()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return whole.getvalue()
