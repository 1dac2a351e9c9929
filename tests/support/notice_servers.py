"""Servers of this machine: of the web, which say what they are told to; chat robots that check as theirs do; mail."""

import base64
import contextlib
import hmac
import json
import socketserver
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "SEC-4f1d0c7b9a3e5f62"  # noqa: S105 - of the servers below
TOKEN = "5c0ffee5-7d1b-4e5a-9c3d-2b7e6a1f8d90"  # noqa: S105


@dataclass
class Got:
    """A request: its path with the query, its headers, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


Answer = tuple[int, dict[str, str], bytes]
OK: Answer = (200, {}, b"ok")


@dataclass
class Server:
    """What it got; `answers` are used up first, then `usual` says."""

    usual: Callable[[Got], Answer] = lambda _: OK
    answers: list[Answer | None] = field(default_factory=list)  # None: never an answer
    got: list[Got] = field(default_factory=list)
    port: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook/{TOKEN}"


@contextlib.contextmanager
def serving(server, port=0, tls=None):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.got.append(Got(self.path, dict(self.headers), body))
            answer = server.answers.pop(0) if server.answers else server.usual(server.got[-1])
            if answer is None:
                server.closing.wait(60)
                return
            code, headers, said = answer
            self.send_response(code)
            for name, value in {"Content-Length": str(len(said)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST  # noqa: N815 - of http.server

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    httpd.handle_error = lambda *_: None  # a client that leaves
    if tls:
        httpd.socket = secured(httpd.socket, tls)
    with running(httpd):
        server.port = httpd.server_address[1]
        try:
            yield server
        finally:
            server.closing.set()


@contextlib.contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def feishu(got):
    """As Feishu: the key is time and secret, the text is empty; seconds, at most an hour off; 20 KB."""
    said = got.json
    key = f"{said.get('timestamp')}\n{SECRET}".encode()
    right = base64.b64encode(hmac.digest(key, b"", "sha256")).decode()
    if said.get("sign") != right or abs(time.time() - int(said["timestamp"])) > 3600:
        return 200, {}, b'{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}'
    if len(got.body) > 20 * 1024 or said["msg_type"] != "interactive":
        return 200, {}, b'{"code":9499,"msg":"Bad Request"}'
    return 200, {}, b'{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}'


def dingtalk(got):
    """As DingTalk: the key is the secret, the text is time and secret; milliseconds, in the address; 20,000 bytes."""
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(got.path).query))
    text = f"{query.get('timestamp')}\n{SECRET}".encode()
    right = base64.b64encode(hmac.digest(SECRET.encode(), text, "sha256")).decode()
    if query.get("sign") != right or abs(time.time() * 1000 - int(query["timestamp"])) > 3_600_000:
        return 200, {}, b'{"errcode":310000,"errmsg":"sign not match"}'
    if len(got.body) > 20_000 or set(got.json["markdown"]) != {"title", "text"}:
        return 200, {}, b'{"errcode":460101,"errmsg":"message too long"}'
    return 200, {}, b'{"errcode":0,"errmsg":"ok"}'


class Mails(socketserver.ThreadingTCPServer):
    """A mail server, with STARTTLS and a log-in if it has a certificate: `mails` are (sender, recipients, text).

    `refused` addresses get 550.
    """

    daemon_threads = True

    def __init__(self, refused=(), tls=None):
        self.mails: list[tuple[str, list[str], bytes]] = []
        self.commands: list[str] = []
        self.refused, self.tls = refused, tls
        super().__init__(("127.0.0.1", 0), _Session)


class _Session(socketserver.StreamRequestHandler):
    server: Mails

    def finish(self):
        super().finish()
        self.request.close()

    def handle(self):
        self.wfile.write(b"220 test\r\n")
        sender, to = "", []
        while line := self.rfile.readline().decode().strip():
            self.server.commands.append(line)
            word, _, rest = line.partition(":")
            word, address = word.upper(), rest.partition("<")[2].partition(">")[0]
            answer = b"250 ok"
            if word.startswith("EHLO") and self.server.tls:
                answer = b"250-test\r\n250-STARTTLS\r\n250 AUTH PLAIN"
            elif word.startswith("AUTH"):
                answer = b"235 ok"
            elif word == "MAIL FROM":
                sender, to = address, []
            elif word == "RCPT TO" and address in self.server.refused:
                answer = b"550 no such user"
            elif word == "RCPT TO":
                to.append(address)
            elif word == "DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.server.mails.append((sender, to, b"".join(lines)))
            if word == "STARTTLS" and self.server.tls:
                self.wfile.write(b"220 go on\r\n")
                try:
                    self.request = secured(self.request, self.server.tls)
                except ssl.SSLError:  # the client does not trust it
                    return
                self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
            else:
                self.wfile.write(answer + b"\r\n")


def secured(plain, tls):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / "cert", tls / "key")
    return context.wrap_socket(plain, server_side=True)
