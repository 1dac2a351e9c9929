"""A cluster of real programs in namespaces that end with us: etcd, an API server, a controller manager, a scheduler.

    with Cluster(tmp_path) as kube:
        kube.kubectl("get", "nodes")
        kube.nodegate("kubernetes", "verdict", run)

Its nodes are what a test writes: to the API server a node is an object. `lab.kubernetes.node` is a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.kubernetes.parts import parts
from lab.nodes.space import Space
from lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
ADDRESS = "192.0.2.10"  # of the machine among its pods
LIMIT_S = 120.0
_TOKEN, _OTHER_TOKEN = "lab-admin", "lab-nobody"
SERVICE = "10.0.0.1"  # of the API server for pods too: there is no kube-proxy, it listens there
_ETCD, _API = "http://127.0.0.1:2379", f"https://{SERVICE}"
_NETWORK = (
    f"ip link set lo up && ip addr add {SERVICE}/32 dev lo && ip link add node type bridge"
    f" && ip addr add {ADDRESS}/24 dev node && ip link set node up"
)
_DAEMONS = {
    "etcd": "--data-dir=etcd --listen-client-urls={etcd} --advertise-client-urls={etcd}"
    " --listen-peer-urls=http://127.0.0.1:0 --unsafe-no-fsync",
    "kube-apiserver": "--etcd-servers={etcd} --cert-dir=api --bind-address={service}"
    " --secure-port=443 --advertise-address={address} --service-cluster-ip-range=10.0.0.0/24"
    " --authorization-mode=RBAC --allow-privileged=true"
    " --service-account-issuer={api}/ --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key"
    " --token-auth-file=tokens.csv --kubelet-preferred-address-types=InternalIP",
    "kube-controller-manager": "--kubeconfig=admin.yaml --service-account-private-key-file=sa.key"
    " --root-ca-file=api/apiserver.crt --use-service-account-credentials --leader-elect=false"
    " --bind-address=127.0.0.1 --cert-dir=manager",
    "kube-scheduler": "--kubeconfig=admin.yaml --leader-elect=false --bind-address=127.0.0.1 --cert-dir=scheduler",
}


class Cluster:
    """See the module. `folder` is for its files and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, parts()
        self.space = Space(1)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.end()
            raise
        return self

    def _begin(self) -> None:
        self.space.wait()
        self.space.inside("sh", "-ec", _NETWORK)
        make = "openssl genrsa -out sa.key 2048 && openssl rsa -in sa.key -pubout -out sa.pub"
        subprocess.run(["sh", "-ec", make], cwd=self.folder, check=True, capture_output=True)
        users = f'{_TOKEN},admin,1,"system:masters"\n{_OTHER_TOKEN},nobody,2\n'
        (self.folder / "tokens.csv").write_text(users)
        self.admin, self.nobody = self.kubeconfig("admin", _TOKEN), self.kubeconfig("nobody", _OTHER_TOKEN)
        for name in _DAEMONS:
            self.start(name)
            if name == "kube-apiserver":
                self.wait_ready()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End all of it."""
        self.space.end()
        for daemon in self.daemons.values():
            daemon.wait(timeout=10)

    def start(self, name: str, command: str = "", folder: Path | None = None) -> None:
        """Start one of its programs; with another command, which it then keeps, or from another folder."""
        self._commands[name] = command or self._commands.get(name) or _DAEMONS[name]
        words = self._commands[name].format(etcd=_ETCD, api=_API, address=ADDRESS, service=SERVICE).split()
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                self.space.entered("env", "-C", str(self.folder), str((folder or self.programs) / name), *words),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def stop(self, name: str) -> None:
        """Kill one of its programs."""
        self.space.inside("pkill", "-KILL", "-x", name[:15])
        self.daemons.pop(name).wait(timeout=30)

    def wait_ready(self) -> None:
        """Until the API server serves.

        Raises:
            RuntimeError: it does not.
        """
        if not wait_until(lambda: self.has("get", "--raw=/readyz", "--request-timeout=5s"), LIMIT_S):
            raise RuntimeError((self.folder / "kube-apiserver.log").read_text()[-2000:])

    def kubeconfig(self, name: str, token: str) -> Path:
        """The kubeconfig of a user with this token."""
        file = self.folder / f"{name}.yaml"
        where = {"server": _API, "certificate-authority": str(self.folder / "api/apiserver.crt")}
        content = {
            "clusters": [{"name": "lab", "cluster": where}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
            "current-context": "lab",
        }
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **content}))
        return file

    def service_account(self, name: str, namespace: str = "nodegate") -> Path:
        """The kubeconfig of a service account, with a token of the API server's own."""
        return self.kubeconfig(name, self.kubectl("create", "token", name, "-n", namespace).strip())

    def _kubectl(self, words: Iterable[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = self.space.in_network(str(self.programs / "kubectl"), f"--kubeconfig={self.admin}", *words)
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def has(self, *words: str) -> bool:
        """Whether kubectl says yes."""
        return self._kubectl(words).returncode == 0

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """What kubectl prints.

        Raises:
            RuntimeError: it failed.
        """
        done = self._kubectl(words, stdin)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr[-2000:]}")
        return done.stdout

    def apply(self, *objects: Mapping[str, object], status: bool = False) -> None:
        """Make objects, or change them, or their status."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        words = ["apply", "--server-side", "--force-conflicts", *(["--subresource=status"] if status else [])]
        self.kubectl(*words, "-f", "-", stdin=json.dumps(listed))

    def node(self, name: str) -> dict[str, object]:
        """A node's object."""
        found: dict[str, object] = json.loads(self.kubectl("get", "node", name, "-o", "json"))
        return found

    def nodegate(
        self, *words: object, user: Path | None = None, limit_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run nodegate in the cluster's network, as this user of it."""
        command = self.space.in_network(sys.executable, "-m", "nodegate.cli", *map(str, words))
        return self.run(command, user or self.admin, limit_s)

    def run(self, command: list[str], user: Path, limit_s: float = 600.0) -> subprocess.CompletedProcess[str]:
        """Run a program in the checkout, as this user of the cluster."""
        environ = {**os.environ, "KUBECONFIG": str(user)}
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=limit_s, check=False, cwd=ROOT
        )


def gpu_node(name: str, product: str = "NVIDIA-H100-80GB-HBM3", gpus: object = 8, **more: object) -> dict[str, object]:
    """A node's object, as GPU feature discovery labels it; `more` is its spec."""
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.present": "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": more}


def next_second() -> None:
    """The API server's times are whole seconds."""
    time.sleep(1.0 - time.time() % 1.0)
