"""What answers on the SSH port of a node that is no SSH server, or none that works."""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

import paramiko

Serve = Callable[[socket.socket, "Server"], None]
TICK_S = 1.0


def silent(client, node):
    """Accepts, and never says a word."""
    while not node.ended.is_set() and client.recv(4096):
        pass


def drops(client, node):
    """Closes each connection before its banner: an sshd that cannot serve."""


def endless_lines(client, node):
    """A greeting in front of the banner that never ends, in lines, as fast as they are taken."""
    while not node.ended.is_set():
        client.sendall(b"This node is being installed, please wait.\r\n" * 1000)


def endless_line(client, node):
    """A greeting that is one line without an end."""
    while not node.ended.is_set():
        client.sendall(b"." * 65536)


def slow_banner(client, node):
    """One byte a second, from the first."""
    for byte in b"SSH-2.0-OpenSSH_9.6p1 Ubuntu-3ubuntu13.5, as slow as a node can be".ljust(600, b"."):
        client.sendall(bytes([byte]))
        if node.ended.wait(TICK_S):
            return


def slow_key_exchange(client, node):
    """A banner at once, then one byte a second."""
    client.sendall(b"SSH-2.0-OpenSSH_9.6p1\r\n\x00\x00\x05\xdc\x06\x14")
    while not node.ended.wait(TICK_S):
        client.sendall(b"\x2a")


def garbage(client, node):
    """Random bytes from the first, as fast as they are taken."""
    while not node.ended.is_set():
        client.sendall(os.urandom(65536))


def garbage_after_banner(client, node):
    """A good banner, then random bytes where the key exchange should be."""
    client.sendall(b"SSH-2.0-OpenSSH_9.6p1\r\n")
    garbage(client, node)


def huge_packet(client, node):
    """A packet that says it has 2 GB, and the bytes for it, as fast as they are taken."""
    client.sendall(b"SSH-2.0-OpenSSH_9.6p1\r\n\x7f\xff\xff\xfc")
    garbage(client, node)


class _Deaf(paramiko.ServerInterface):
    """Lets everybody in, opens channels, and never answers when a program is to be run."""

    def __init__(self, ended):
        self._ended = ended

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        return self._ended.wait(600)


def deaf(client, node):
    """A real login, and after it an sshd that stands still."""
    transport = paramiko.Transport(client)
    transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(str(node.host_key)))
    transport.start_server(server=_Deaf(node.ended))
    gone = select.poll()  # its own thread stands still with it
    gone.register(client, select.POLLRDHUP)
    while not node.ended.is_set() and not gone.poll(200):
        pass
    transport.close()


class Server:
    """One such node; a context manager. `served` counts its connections, `open` those that are open now."""

    def __init__(self, address, port, serve, host_key):
        self.address, self.port, self.host_key, self._serve = address, port, host_key, serve
        self.ended = threading.Event()
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self.served = self.open = 0

    def __enter__(self):
        server = socket.create_server((self.address, self.port), backlog=128 if self._serve else 0)
        self._stack.enter_context(server)
        if self._serve is None:  # its queue is full: the kernel drops what comes after, as a black hole does
            for _ in range(3):
                waiting = self._stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((self.address, self.port))
            return self
        server.settimeout(0.2)
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._stack.close()

    def _accept(self, server):
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                client, _ = server.accept()
                client.settimeout(None)
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        with self._lock:
            self.served += 1
            self.open += 1
        with client, contextlib.suppress(OSError):
            assert self._serve is not None
            self._serve(client, self)
        with self._lock:
            self.open -= 1

    def left(self, within_s=5.0):
        """How many connections are open still, so many seconds later."""
        end_s = time.monotonic() + within_s
        while self.open and time.monotonic() < end_s:
            time.sleep(0.05)
        return self.open
