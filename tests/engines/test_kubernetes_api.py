"""What is said where no API server answers as it should; what a real one answers is in lab/tests/kubernetes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nodegate.engines.kubernetes import api, cluster
from nodegate.errors import UsageError


class Server(BaseHTTPRequestHandler):
    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")

    def do_GET(self) -> None:
        status, headers, body = self.answer
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever).start()
    parts = {"clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
             "users": [{"name": "u", "user": {"token": "secret"}}], "current-context": "x",
             "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}  # fmt: skip
    file = tmp_path / "config"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts}))
    yield file
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (401, {}, b"{}", "the API server does not accept this login: see the kubeconfig's user, or the age"),
        (403, {}, b'{"message": "go\\u001b[31m away"}', r"not allowed: see the message: go\x1b[31m away"),
        (429, {"Retry-After": "3600"}, b"", "the API server is overloaded and asks to be left alone"),
        (503, {}, b"<html>", "HTTP status 503"),
        (200, {}, b"<html>login</html>", "no answer that can be read"),
        (200, {}, b"[]", "no answer that can be read"),
        (200, {}, b"[" * 100_000, "no answer that can be read"),
        (200, {"Content-Length": "9"}, b"{}", "the API server did not answer: "),
    ],
)  # fmt: skip
def test_an_answer_that_is_none(config: Path, status: int, headers: dict[str, str], body: bytes, said: str) -> None:
    Server.answer = (status, headers, body)
    with pytest.raises(api.Refused) as refused:
        cluster.nodes(api.connect({"KUBECONFIG": str(config)}))
    assert str(refused.value).partition(": ")[2].startswith(said)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("body", [{}, {"items": None}, {"items": [1, {}, {"metadata": {"name": 5}}], "metadata": 1}])
def test_what_is_not_of_its_form_is_no_node(config: Path, body: object) -> None:
    Server.answer = (200, {}, json.dumps(body).encode())
    assert cluster.nodes(api.connect({"KUBECONFIG": str(config)})) == []


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "kind: Config", "current-context: x\ncontexts: 5"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match="no cluster"):
        api.connect({"KUBECONFIG": str(tmp_path / "config")})


def test_without_the_client_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['kubernetes'] = None; from nodegate.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, "doctor", "--inventory", "kubernetes:"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("nodegate: Kubernetes needs its Python client")
    assert done.stderr.endswith(" - pip install 'nodegate[kubernetes]'\n")
