"""A learning switch in user space between the guests' NICs, on which a link can be cut, slowed, delayed or made lossy.

Each port is one end of a socket pair; the other end is a NIC's in QEMU. No frame touches a network of this machine.
A port that is slow holds back those who send through its network, as a lossless fabric does; one whose guest takes
nothing for a while loses its frames, so that it holds back nobody.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field

LARGEST_FRAME = 65550
AT_ONCE = 8  # frames that are taken from one port before the next one's turn
MOST_WAITING = 8  # frames in a port's queue before its network is held back: more, and perftest sends again what waits
LONG_BYTES = 4096  # of a frame of RDMA data
STUCK_S = 2.0  # a guest that takes nothing for so long is taken for gone
AGAIN_S = 0.0005
# Between a NIC and its port, each way: QEMU sends on only when three quarters of it are empty again, and a guest whose
# NIC sends nothing for 5 s says so in its kernel log.
_BUFFER_BYTES = 256 << 10


@dataclass
class Port:
    """One port, and what is wrong with its cable. Faults may be set at any time, from any thread.

    `up`: whether frames pass at all. `loss`: the share of long frames towards the guest that is lost; of short ones
    less, as by bit errors. `delay_s`: how long each frame towards the guest takes. `rate_gbps`: the most that passes,
    in each direction; None: all.
    """

    network: str
    guest: int
    ours: socket.socket
    up: bool = True
    loss: float = 0.0
    delay_s: float = 0.0
    rate_gbps: float | None = None
    carried: int = 0
    carried_bytes: int = 0
    dropped: int = 0
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque, repr=False)
    sent_until_s: float = 0.0
    got_until_s: float = 0.0
    refused_since_s: float | None = None

    def cut(self) -> None:
        """Nothing passes from now on; the guest sees a good link."""
        self.up = False

    def mend(self) -> None:
        """A good cable again."""
        self.up, self.loss, self.delay_s, self.rate_gbps = True, 0.0, 0.0, None

    def loses(self, frame: bytes) -> bool:
        """Whether this frame for the guest is lost on its cable."""
        return random.random() < self.loss * len(frame) / LONG_BYTES  # noqa: S311 - lost frames, no secrets

    def sent_s(self, frame: bytes) -> float:
        """When a frame of the guest's is through, at the port's rate."""
        self.sent_until_s = self._through_s(frame, self.sent_until_s)
        return self.sent_until_s

    def got_s(self, frame: bytes) -> float:
        """When a frame for the guest is through, at the port's rate and after its delay."""
        self.got_until_s = self._through_s(frame, self.got_until_s)
        return self.got_until_s + self.delay_s

    def _through_s(self, frame: bytes, before_s: float) -> float:
        now_s, rate_gbps = time.monotonic(), self.rate_gbps
        return now_s if rate_gbps is None else max(now_s, before_s) + len(frame) * 8 / (rate_gbps * 1e9)


class Switch:
    """All networks of a lab; a thread of its own from `start` to `stop`."""

    def __init__(self) -> None:
        self.ports: dict[tuple[str, int], Port] = {}
        self._places: dict[tuple[str, bytes], Port] = {}
        self._thread = threading.Thread(target=self._work, name="lab switch", daemon=True)
        self._ended = threading.Event()

    def plug(self, network: str, guest: int) -> socket.socket:
        """A new port; returns the guest's end, to be given to QEMU and closed here."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        ours.setblocking(False)
        self.ports[network, guest] = Port(network, guest, ours)
        return theirs

    def start(self) -> None:
        """Begin to forward; all ports must be plugged."""
        self._thread.start()

    def stop(self) -> None:
        """End it. May be called twice."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        for port in self.ports.values():
            port.ours.close()

    def _work(self) -> None:
        with selectors.DefaultSelector() as selector:
            for port in self.ports.values():
                selector.register(port.ours, selectors.EVENT_READ, port)
            while not self._ended.is_set():
                ready = [key.data for key, _ in selector.select(self._pause_s())]
                for port in self.ports.values():
                    self._send_waiting(port)
                held = {port.network for port in self.ports.values() if len(port.waiting) > MOST_WAITING}
                for port in ready:
                    if port.network not in held:
                        self._take(port)
                if held:
                    time.sleep(AGAIN_S)  # those that are held back stay ready

    def _pause_s(self) -> float:
        """Until the next frame in a queue is through."""
        due = [port.waiting[0][0] for port in self.ports.values() if port.waiting]
        return max(0.0, min(0.1, min(due) - time.monotonic())) if due else 0.1

    def _take(self, source: Port) -> None:
        for _ in range(AT_ONCE):
            try:
                frame = source.ours.recv(LARGEST_FRAME)
            except OSError:
                return
            if not source.up or len(frame) < 14:
                source.dropped += 1
                continue
            self._places[source.network, frame[6:12]] = source
            known = self._places.get((source.network, frame[:6]))
            everyone = [port for port in self.ports.values() if port.network == source.network]
            for target in [known] if known else everyone:
                if target is not source:
                    self._forward(frame, source, target)

    def _forward(self, frame: bytes, source: Port, target: Port) -> None:
        if not target.up or target.loses(frame):
            target.dropped += 1
            return
        due_s = max(source.sent_s(frame), target.got_s(frame))
        if target.waiting or due_s > time.monotonic():
            target.waiting.append((due_s, frame))
        elif not self._send(frame, target):
            target.waiting.append((time.monotonic() + AGAIN_S, frame))

    def _send_waiting(self, target: Port) -> None:
        now_s = time.monotonic()
        while target.waiting and target.waiting[0][0] <= now_s:
            _, frame = target.waiting.popleft()
            if target.up and not self._send(frame, target):
                target.waiting.appendleft((now_s + AGAIN_S, frame))
                break
        if target.refused_since_s is not None and now_s - target.refused_since_s > STUCK_S:
            target.dropped += len(target.waiting)
            target.waiting.clear()

    def _send(self, frame: bytes, target: Port) -> bool:
        """Whether the guest took it, or is gone."""
        try:
            target.ours.send(frame)
        except BlockingIOError:
            target.refused_since_s = target.refused_since_s or time.monotonic()
            return False
        except OSError:
            target.dropped += 1
            return True
        target.carried += 1
        target.carried_bytes += len(frame)
        target.refused_since_s = None
        return True
