"""A program in a container of a pod: its three streams and its end over one WebSocket (v5.channel.k8s.io).

Servers before 1.30 do not speak v5, in which alone the end of standard input can be said: they are refused.
"""

import contextlib
import json
import select
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from nodegate.engines.kubernetes.api import LIMIT_S, PATIENCE_S, THROTTLED, Api, Refused, pause_of, short
from nodegate.engines.kubernetes.cluster import NAMESPACE
from nodegate.transport.channel import CHUNK_BYTES, Channel, Errors

_V5 = "v5.channel.k8s.io"
_STREAMS = ("stdin", "stdout", "stderr")
_INPUT, _OUTPUT, _ERRORS, _END, _CLOSE = 0, 1, 2, 3, 255
_PIECE_S = 2.0  # that one frame may take once its first byte is there
_CLOSE_S = 10.0  # a guard needs up to 5 s to end what it started
NO_START = 126  # as in a shell; the status of a program that the runtime could not start


def started(api: Api, pod: str, argv: Sequence[str]) -> Channel:
    """Start a program in a pod of nodegate's namespace, which has one container.

    Raises:
        Refused: the API server or the kubelet does not; one that answers 429 is waited for, 30 s in all.
    """
    query = urlencode([*(("command", word) for word in argv), *((each, "true") for each in _STREAMS)])
    host = api.client.configuration.host.rstrip("/").replace("http", "ws", 1)
    url = f"{host}/api/v1/namespaces/{NAMESPACE}/pods/{pod}/exec?{query}"
    until_s = time.monotonic() + PATIENCE_S
    while isinstance(found := _opened(api, url, until_s), float):
        time.sleep(found)
    return _PodChannel(found)


def _opened(api: Api, url: str, until_s: float) -> Any:
    """The WebSocket, or how many seconds to wait for it."""
    from kubernetes.stream.ws_client import websocket_proxycare  # noqa: PLC0415 - only where a pod is reached
    from websocket import WebSocket, WebSocketBadStatusException, WebSocketException  # noqa: PLC0415 - the same

    config = api.client.configuration
    tls: dict[str, object] = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    if config.verify_ssl:  # the client's own settings, in the names of the WebSocket
        tls = {"ca_certs": config.ssl_ca_cert, "server_hostname": config.tls_server_name}
        tls |= {"certfile": config.cert_file, "keyfile": config.key_file, "check_hostname": config.assert_hostname}
    tls = {key: value for key, value in tls.items() if value is not None}
    socket = WebSocket(sslopt=tls, skip_utf8_validation=True)
    options = {"header": [f"{key}: {value}" for key, value in api.login().items()], "subprotocols": [_V5]}
    if config.proxy:
        options = websocket_proxycare(options, config, url, None)
    try:
        socket.connect(url, timeout=LIMIT_S, **options)
    except WebSocketBadStatusException as said:
        pause_s = pause_of((said.resp_headers or {}).get("retry-after", ""))
        if said.status_code == THROTTLED and time.monotonic() + pause_s < until_s:
            return pause_s
        api.read(said.status_code, bytes(said.resp_body or b""))
        raise Refused(said.status_code, f"{api.name}: no WebSocket: HTTP status {said.status_code}") from None
    except (WebSocketException, OSError) as broken:
        socket.shutdown()
        why = "is older than 1.30" if "subprotocol" in str(broken).lower() else f"did not answer: {short(broken)}"
        raise Refused(0, f"{api.name}: the API server {why}") from None
    socket.settimeout(_PIECE_S)
    return socket


class _PodChannel:
    """See `Channel`. TLS bears one thread at a time; who sends a sign of life does not wait for who reads."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._lock, self._errors = socket, threading.Lock(), Errors()
        self._status: int | None = None
        self._is_over, self._input_ended = False, False

    def send(self, data: bytes, pause_s: float) -> None:
        for at in range(0, len(data), CHUNK_BYTES):
            self._write(bytes([_INPUT]) + data[at : at + CHUNK_BYTES], pause_s)

    def _write(self, frame: bytes, pause_s: float) -> None:
        if self._is_over or self._input_ended:
            raise BrokenPipeError("closed")
        if not self._is_ready(select.POLLOUT, pause_s) or not self._lock.acquire(timeout=pause_s):
            raise TimeoutError("the program does not read its input")
        try:
            self._socket.send_binary(frame)
        except Exception as broken:  # the library's own errors are of no common kind  # noqa: BLE001
            self._is_over = True
            raise BrokenPipeError(short(broken)) from None
        finally:
            self._lock.release()

    def receive(self, timeout_s: float) -> bytes | None:
        if self._is_over:
            return b""
        if not self._is_ready(select.POLLIN, timeout_s):
            return None
        from websocket import ABNF, WebSocketTimeoutException  # noqa: PLC0415 - it is there: a socket was opened

        try:
            with self._lock:
                opcode, frame = self._socket.recv_data_frame(control_frame=True)
        except WebSocketTimeoutException:  # what came of the frame is kept
            return None
        except Exception:  # noqa: BLE001 - as above
            self._is_over = True
            return b""
        if opcode == ABNF.OPCODE_CLOSE:
            self._is_over = True
            return b""
        return self._taken(bytes(frame.data)) if opcode == ABNF.OPCODE_BINARY else None

    def _taken(self, data: bytes) -> bytes | None:
        channel, rest = data[0] if data else _CLOSE, data[1:]
        if channel == _ERRORS:
            self._errors.add(rest)
            self._errors.check()
        elif channel == _END:
            self._status, said = _end(rest)
            self._errors.add(said)
        return rest if channel == _OUTPUT and rest else None

    def _is_ready(self, what: int, timeout_s: float) -> bool:
        """Whether the socket is, or bytes are there that TLS has read already."""
        plain, poll = self._socket.sock, select.poll()
        try:
            poll.register(plain, what)
            if what == select.POLLIN and isinstance(plain, ssl.SSLSocket):
                with self._lock:
                    if plain.pending():
                        return True
            return bool(poll.poll(timeout_s * 1000))
        except (AttributeError, TypeError, ValueError):  # closed
            return False

    def stderr(self) -> bytes:
        return self._errors.kept

    def exit_status(self, timeout_s: float) -> int | None:
        until_s = time.monotonic() + timeout_s
        with contextlib.suppress(ValueError):
            while self._status is None and not self._is_over and time.monotonic() < until_s:
                self.receive(until_s - time.monotonic())
        return self._status

    def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._write(bytes([_CLOSE, _INPUT]), _PIECE_S)
        self._input_ended = True

    def close(self) -> None:
        self.end_input()
        self.exit_status(_CLOSE_S)
        self._is_over = True
        self._socket.shutdown()


def _end(raw: bytes) -> tuple[int | None, bytes]:
    """The exit status that the last frame says, and what it says beside: why there is none."""
    try:
        said = json.loads(raw)
        if said["status"] == "Success":
            return 0, b""
        if said.get("reason") == "NonZeroExitCode":
            return int(said["details"]["causes"][0]["message"]), b""
        return NO_START, str(said.get("message", "")).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return NO_START, raw[:300]
