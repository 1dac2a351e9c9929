"""Targets that do not take a notice: within the limit, kept, sent next time, once; and no secret anywhere."""

import base64
import contextlib
import os
import socketserver
import subprocess
import time

import pytest
from support.notice_runs import report, told
from support.notice_servers import OK, SECRET, TOKEN, Mails, Server, dingtalk, feishu, running, serving

from nodegate.notices import box, tell
from nodegate.notices.target import parse

BAD = {"gpu001": "xid", "gpu002": "good"}


def answer(code, body=b"", **headers):
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, body


def no_secret_in(folder, *texts):
    held = [file.read_bytes().decode(errors="replace") for file in folder.rglob("*") if file.is_file()]
    for text in (*held, *texts, *(file.name for file in folder.rglob("*"))):
        assert SECRET not in text
        assert TOKEN not in text


@pytest.mark.parametrize(
    ("scheme", "answers", "words", "attempts"),
    [
        ("webhook", [answer(429)] * 3, "the server answers 429", 3),
        ("webhook", [answer(429, Retry_After="3600")], "the server answers 429", 1),
        ("webhook", [answer(503)] * 3, "the server answers 503", 3),
        ("webhook", [answer(401)], "the server answers 401", 1),
        ("webhook", [answer(302, Location="http://127.0.0.1:1/log-in")], "the server answers 302", 1),
        ("webhook", [None], "no answer within", 1),
        (
            "feishu",
            [answer(200, b'{"code":11232,"msg":"frequency limited"}')] * 3,
            "answers 11232 frequency limited",
            3,
        ),
        ("feishu", [answer(200, b"<html>log in</html>")] * 3, "not the robot", 3),
        ("feishu", [answer(200, b"[[[[")] * 3, "not the robot", 3),
        ("feishu", [answer(200, b'{"code":"0"}')] * 3, "not the robot", 3),
        ("feishu", [answer(200, b'{"code":9,"msg":"bad ' + SECRET.encode() + b'"}')], "answers 9 bad ***", 1),
        ("dingtalk", [answer(200, b'{"errcode":130101,"errmsg":"too fast"}')] * 3, "answers 130101 too fast", 3),
    ],
)
def test_not_taken(scheme, answers, words, attempts, tmp_path):
    usual = {"feishu": feishu, "dingtalk": dingtalk}.get(scheme, lambda _: OK)
    with serving(Server(usual, list(answers))) as server:
        secret = f"\nX-Token: {SECRET}" if scheme == "webhook" else f" {SECRET}"
        target = parse(f"{scheme}:{server.url}{secret}")
        begun = time.monotonic()
        (said,) = told(tmp_path, [target], report(0, **BAD))
        assert time.monotonic() - begun < tell.TOTAL_S + 30
        assert words in said
        assert said.startswith(f"notice was not sent: {target.name}: ")
        assert said.endswith("; it is sent with the next notice")
        assert len(server.got) == attempts
        no_secret_in(tmp_path, said, repr(target))
        server.got.clear()
        server.answers.clear()
        for day in (1, 2):
            assert told(tmp_path, [target], report(day, **BAD)) == []
        (got,) = server.got
        assert "Xid 79" in got.body.decode()


@pytest.mark.parametrize("scheme", ["feishu", "dingtalk"])
def test_a_wrong_secret_is_said_and_sent_once_it_is_right(scheme, tmp_path):
    with serving(Server({"feishu": feishu, "dingtalk": dingtalk}[scheme])) as server:
        (said,) = told(tmp_path, [parse(f"{scheme}:{server.url} wrong-4f1d0c7b")], report(0, **BAD))
        assert {"feishu": "19021 sign match fail", "dingtalk": "310000 sign not match"}[scheme] in said
        assert len(server.got) == 1
        server.got.clear()
        for day in (1, 2):
            assert told(tmp_path, [parse(f"{scheme}:{server.url} {SECRET}")], report(day, **BAD)) == []
        assert len(server.got) == 1
    no_secret_in(tmp_path, said)


def test_a_refused_connection(tmp_path):
    with serving(Server()) as gone:
        target = parse(f"webhook:{gone.url}")
    (said,) = told(tmp_path, [target], report(0, **BAD))
    assert "Connection refused" in said
    (said,) = told(tmp_path, [target], report(1, gpu001="xid", gpu002="slow"))
    with serving(Server(), gone.port) as server:
        for day in (2, 3):
            assert told(tmp_path, [target], report(day, gpu001="xid", gpu002="slow")) == []
    assert [(each.json["run"], each.json["counts"]["new"]) for each in server.got] == [("night-0", 1), ("night-1", 1)]


class _Drip(socketserver.BaseRequestHandler):
    """An answer of one byte now and then never exceeds the limit of one wait."""

    def handle(self):
        with contextlib.suppress(OSError):
            for _ in range(100):
                self.request.sendall(b"H")
                time.sleep(0.1)


def test_an_answer_that_drips_ends_with_the_limit(tmp_path):
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

    with running(Server(("127.0.0.1", 0), _Drip)) as server:
        begun = time.monotonic()
        (said,) = told(tmp_path, [parse(f"webhook:http://127.0.0.1:{server.server_address[1]}/")], report(0, **BAD))
        assert time.monotonic() - begun < tell.TOTAL_S + 30
    assert "no answer within" in said


def test_what_waits_too_long_is_not_sent_any_more_but_all_that_is_open(tmp_path):
    with serving(Server()) as gone:
        target = parse(f"webhook:{gone.url}")
    told(tmp_path, [target], report(0, **BAD))
    (waiting,) = (tmp_path / "notices").glob("*.waiting")
    old = time.time() - box.MOST_AGE_S - 60
    os.utime(waiting, (old, old))
    with serving(Server(), gone.port) as server:
        assert told(tmp_path, [target], report(1, **BAD)) == []
    assert [(each.json["run"], each.json["counts"]["new"]) for each in server.got] == [("night-1", 1)]


def test_a_folder_that_cannot_be_written_loses_no_notice(tmp_path):
    """Root may write everywhere, so a file is where the folder would be."""
    (tmp_path / "notices").write_text("")
    with serving(Server()) as server:
        (said,) = told(tmp_path, [parse(f"webhook:{server.url}")], report(0, **BAD))
        assert "cannot be kept beside the record" in said
        assert len(server.got) == 1


@pytest.mark.parametrize(
    ("refused", "words", "kept"),
    [(("a@x.org",), "not sent to a@x.org", 0), (("a@x.org", "b@x.org"), "every address was refused", 1)],
)
def test_refused_addresses(refused, words, kept, tmp_path):
    """What one of two took is not sent again."""
    with running(Mails(refused)) as server:
        target = parse(f"mailto:a@x.org,b@x.org smtp://127.0.0.1:{server.server_address[1]}")
        (said,) = told(tmp_path, [target], report(0, **BAD))
    assert words in said
    assert len(list((tmp_path / "notices").glob("*.waiting"))) == kept


def test_no_password_goes_to_a_mail_server_without_tls(tmp_path):
    with running(Mails()) as server:
        target = parse(f"mailto:a@x.org smtp://ops:{SECRET}@127.0.0.1:{server.server_address[1]}")
        assert SECRET not in f"{target.name} {target.warning} {target}"
        assert "others see secrets" in target.warning
        (said,) = told(tmp_path, [target], report(0, **BAD))
    assert "STARTTLS" in said
    assert [each for each in server.commands if "AUTH" in each.upper()] == []
    assert server.mails == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(made, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_in_to_a_mail_server_is_under_tls(is_known, certificate, monkeypatch, tmp_path):
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    with running(Mails(tls=certificate)) as server:
        target = parse(f"mailto:a@x.org smtp://ops:{SECRET}@127.0.0.1:{server.server_address[1]}")
        said = told(tmp_path, [target], report(0, **BAD))
    login = base64.b64encode(f"\0ops\0{SECRET}".encode()).decode()
    assert (f"AUTH PLAIN {login}" in server.commands, len(server.mails), len(said)) == (
        (True, 1, 0) if is_known else (False, 0, 1)
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_the_certificate_of_a_server_is_verified(is_known, certificate, monkeypatch, tmp_path):
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    with serving(Server(), tls=certificate) as server:
        said = told(tmp_path, [parse(f"webhook:{server.url.replace('http:', 'https:')}")], report(0, **BAD))
    assert (len(server.got), "CERTIFICATE_VERIFY_FAILED" in "".join(said)) == ((1, False) if is_known else (0, True))


def test_the_proxy_of_the_environment_is_asked(monkeypatch, tmp_path):
    with serving(Server()) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert told(tmp_path, [parse("webhook:http://chat.example.invalid/x")], report(0, **BAD)) == []
    assert [each.path for each in proxy.got] == ["http://chat.example.invalid/x"]
