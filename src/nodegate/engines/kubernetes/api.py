"""The API server: no call waits longer than a limit or reads more than one, and each refusal is one sentence.

Only how the server is reached (kubeconfig, service account, TLS, proxies, credential plug-ins) is left to the Python
client, which is imported here alone: `pip install 'nodegate[kubernetes]'`. Objects are read as the server sends them.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from nodegate.engines.context import OPTION, VARIABLE
from nodegate.errors import UsageError
from nodegate.scheduler.programs import NoAnswer
from nodegate.text import visible

LIMIT_S = 30.0
PATIENCE_S = 30.0  # in all, for a server that asks to be left alone for a while
_PAUSE_S = 1.0  # where it does not say how long
_PAGE = 250  # objects; a node with its images has about 20 kB
_MOST_BYTES = 64 << 20
_PATCH = "application/merge-patch+json"
STRATEGIC, NEW = "application/strategic-merge-patch+json", "application/json"
CONFLICT, THROTTLED, FORBIDDEN, NOT_FOUND = 409, 429, 403, 404
_FORBIDDEN = re.compile(r'cannot (?P<verb>[a-z]+) resource "(?P<resource>[a-z./]+)"')
# What each right is for, by verb and resource, and the object of deploy/kubernetes/rbac that grants it.
GRANTS = {
    ("list", "nodes"): "ClusterRole nodegate-read",
    ("list", "pods"): "ClusterRole nodegate-read",
    ("patch", "nodes/status"): "ClusterRole nodegate-verdict",
    ("create", "events"): "Role nodegate-events in the namespace default",
    ("patch", "nodes"): "ClusterRole nodegate-taint",
    ("create", "pods"): "Role nodegate-hold in the namespace nodegate",
    ("delete", "pods"): "Role nodegate-hold in the namespace nodegate",
    ("get", "pods/exec"): "Role nodegate-exec in the namespace nodegate",
    ("create", "pods/exec"): "Role nodegate-exec in the namespace nodegate",
}
_SAID = {
    401: "the API server does not accept this login: see the kubeconfig's user, or the age of the token",
    NOT_FOUND: "the API server does not have it",
    CONFLICT: "someone else changed it at the same time",
    410: "the list grew too old while it was read: try again",
    THROTTLED: "the API server is overloaded and asks to be left alone",
}


class Refused(NoAnswer):
    """The API server refused; `status` is its HTTP status, 0 where it did not answer."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass
class Api:
    """An API server, as this login reaches it; `name` says which in messages. Not to be shared by threads."""

    client: Any  # kubernetes.client.ApiClient
    name: str
    _waited_s: float = field(default=0.0, init=False)

    def listed(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """The objects of a list, page by page.

        Raises:
            Refused: the server did not give them all.
        """
        query, more = {**query, "limit": str(_PAGE)}, ""
        while True:
            page = self.call("GET", path, query={**query, **({"continue": more} if more else {})})
            items, meta = page.get("items"), page.get("metadata")
            yield from (each for each in items if isinstance(each, dict)) if isinstance(items, list) else ()
            more = str(meta.get("continue") or "") if isinstance(meta, dict) else ""
            if not more:
                return

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        kind: str = _PATCH,
        missing_is_well: bool = False,
    ) -> dict[str, Any]:
        """One request and its answer; waits and asks again where the server says so (429), within `PATIENCE_S`.

        `kind` is that of the body. What is refused was not changed; without an answer nothing says whether it was.

        Raises:
            Refused: any other answer, none in time, or one that cannot be read.
        """
        while True:
            status, headers, raw = self._asked(method, path, query or {}, body, kind)
            if status != THROTTLED:
                return {} if missing_is_well and status == NOT_FOUND else self.read(status, raw)
            pause_s = pause_of(headers.get("Retry-After") or "")
            if self._waited_s + pause_s > PATIENCE_S:
                waited = f" (waited {self._waited_s:.0f} s)" if self._waited_s else ""
                raise Refused(status, f"{self.name}: {_SAID[status]}{waited}")
            time.sleep(pause_s)
            self._waited_s += pause_s

    def login(self) -> dict[str, str]:
        """The headers that say who asks; a token that is over is renewed."""
        named = self.client.configuration.auth_settings().values()
        return {each["key"]: each["value"] for each in named if each["in"] == "header"}

    def _asked(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, object] | None, kind: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        from urllib3 import Timeout  # noqa: PLC0415 - the client is built on it
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        config = self.client.configuration
        headers = {"Accept": "application/json", **({"Content-Type": kind} if body is not None else {})}
        headers |= self.login()
        url = f"{config.host.rstrip('/')}{path}{'?' if query else ''}{urlencode(query)}"
        try:
            answer = self.client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=Timeout(total=LIMIT_S),
                retries=False,
                preload_content=False,
            )
            try:
                raw = answer.read(_MOST_BYTES + 1, decode_content=True)
            finally:
                answer.release_conn() if answer.isclosed() else answer.close()
        except (HTTPError, OSError) as broken:
            raise Refused(0, f"{self.name}: the API server did not answer: {short(broken)}") from None
        return answer.status, answer.headers, raw

    def read(self, status: int, raw: bytes) -> dict[str, Any]:
        """The object of an answer.

        Raises:
            Refused: it is a refusal, or cannot be read.
        """
        try:
            found = json.loads(raw) if len(raw) <= _MOST_BYTES else None
        except (ValueError, RecursionError):
            found = None
        if 200 <= status < 300 and isinstance(found, dict):
            return found
        said = str(found.get("message", "")) if isinstance(found, dict) else ""
        if status == FORBIDDEN:
            raise Refused(status, f"{self.name}: not allowed: {_granted(said)}")
        why = _SAID.get(status, "no answer that can be read" if status < 300 else f"HTTP status {status}")
        raise Refused(status, f"{self.name}: {why}{': ' if said else ''}{visible(said, most=200)}")


def _granted(said: str) -> str:
    """What the server says that this login may not, and what grants it."""
    found = _FORBIDDEN.search(said)
    role = GRANTS.get((found["verb"], found["resource"])) if found else None
    named = f"{found['verb']} {found['resource']}" if found else "see the message"
    step = f" - bind it to {role} (deploy/kubernetes)" if role else ""
    return f"{named}: {visible(said, most=200)}{step}"


def pause_of(asked: str) -> float:
    """How many seconds a server asks to be left alone, by its Retry-After."""
    return float(asked) if asked.isdecimal() and len(asked) < 6 else _PAUSE_S


def short(broken: Exception) -> str:
    """The innermost reason of urllib3, which names the whole request before it."""
    reason = getattr(broken, "reason", None) or broken
    said = re.sub(r"^\[Errno \d+\] ", "", str(reason).rpartition(": ")[2])
    return visible(" ".join(said.split()), most=160)


def connect(environ: Mapping[str, str] = os.environ) -> Api:
    """The API server of the kubeconfig (KUBECONFIG, else ~/.kube/config), else of the cluster that this pod runs in.

    Raises:
        UsageError: the Python client is missing, or neither names a cluster.
    """
    try:
        from kubernetes import client, config  # noqa: PLC0415 - only where a cluster is asked
    except ImportError as missing:
        hint = "pip install 'nodegate[kubernetes]'"
        raise UsageError(f"Kubernetes needs its Python client ({missing})", hint=hint) from None
    context = environ.get(VARIABLE) or None
    if context is None and "KUBERNETES_SERVICE_HOST" in environ and not environ.get("KUBECONFIG"):
        found = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=found)
        except config.ConfigException as said:
            raise UsageError(f"this pod has no service account for its cluster: {short(said)}") from None
        return Api(client.ApiClient(found), "this cluster")
    files = environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        made = config.new_client_from_config(files, context=context)
    except Exception as said:  # noqa: BLE001 - whatever a credential plug-in, a YAML file or a key in it may be
        hint = f"KUBECONFIG names the file, {OPTION} the context in it; in a pod neither is needed"
        why = visible(" ".join(str(said).split()), most=200)
        raise UsageError(f"no cluster: {why}", file=files, hint=hint) from None
    return Api(made, made.configuration.host)
