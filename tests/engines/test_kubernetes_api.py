"""What is said where no API server answers as it should; what a real one answers is in lab/tests/kubernetes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.notice_servers import Server, serving

from nodegate.engines.kubernetes import api, cluster
from nodegate.engines.kubernetes.stream import started
from nodegate.errors import UsageError


@pytest.fixture
def server():
    with serving(Server()) as running:
        yield running


@pytest.fixture
def config(server, tmp_path):
    parts = {"clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
             "users": [{"name": "u", "user": {"token": "secret"}}], "current-context": "x",
             "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}  # fmt: skip
    file = tmp_path / "config"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts}))
    return file


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
def test_an_answer_that_is_none(  # noqa: PLR0917 - a row
    server: Server, config: Path, status: int, headers: dict[str, str], body: bytes, said: str
) -> None:
    server.usual = lambda _: (status, headers, body)
    with pytest.raises(api.Refused) as refused:
        cluster.nodes(api.connect({"KUBECONFIG": str(config)}))
    assert str(refused.value).partition(": ")[2].startswith(said)
    assert "secret" not in str(refused.value)


GONE, NOT_EXEC = b'{"message": "pods gone"}', b'{"message": "u cannot create resource \\"pods/exec\\" in"}'


@pytest.mark.parametrize(
    ("answers", "asked", "said"),
    [
        ([(429, {"Retry-After": "1"}, b""), (429, {}, b""), (404, {}, GONE)], 3, "have it: pods"),
        ([(429, {"Retry-After": "31"}, b"")], 1, "the API server is overloaded and asks to be left alone"),
        ([(403, {}, NOT_EXEC)], 1, "not allowed: create pods/exec"),
        ([(200, {}, b"{}")], 1, "no WebSocket: HTTP status 200"),
        ([(500, {}, b"dial tcp: i/o timeout")], 1, "HTTP status 500"),
    ],
)
def test_a_program_that_does_not_start(server, config, answers, asked, said):
    server.answers += answers
    with pytest.raises(api.Refused) as refused:
        started(api.connect({"KUBECONFIG": str(config)}), "agent-1", ["true", "a&b"])
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
    ways = "/api/v1/namespaces/nodegate/pods/agent-1/exec?command=true&command=a%26b&stdin=true&stdout=true&stderr=true"
    assert [got.path for got in server.got] == [ways] * asked


@pytest.mark.parametrize("body", [{}, {"items": None}, {"items": [1, {}, {"metadata": {"name": 5}}], "metadata": 1}])
def test_what_is_not_of_its_form_is_no_node(server, config, body):
    server.usual = lambda _: (200, {}, json.dumps(body).encode())
    assert cluster.nodes(api.connect({"KUBECONFIG": str(config)})) == []


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "kind: Config", "current-context: x\ncontexts: 5"])
def test_a_kubeconfig_that_is_none(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match="no cluster"):
        api.connect({"KUBECONFIG": str(tmp_path / "config")})


def test_without_the_client_it_says_what_to_install():
    script = "import sys; sys.modules['kubernetes'] = None; from nodegate.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", script, "doctor", "--inventory", "kubernetes:"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("nodegate: Kubernetes needs its Python client")
    assert done.stderr.endswith(" - pip install 'nodegate[kubernetes]'\n")
