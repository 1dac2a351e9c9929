"""The switch between the guests, with sockets in place of their NICs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.guests.switch import Switch
from lab.processes import wait_until

ONE, TWO, THREE, ALL = b"\x52\0\0\0\0\1", b"\x52\0\0\0\0\2", b"\x52\0\0\0\0\3", b"\xff" * 6


@dataclass
class Bench:
    """A switch with three guests on one network and one on another."""

    switch: Switch
    ends: dict[int, socket.socket]
    other: socket.socket

    def send(self, source: int, target: bytes, text: bytes = b"hello", size: int = 0) -> None:
        self.ends[source].send(target + (ONE, TWO, THREE)[source - 1] + b"\x08\x00" + text.ljust(size, b"."))

    def got(self, guest: int, limit_s: float = 5.0) -> bytes:
        """The next frame's text; empty when there is none in time."""
        self.ends[guest].settimeout(limit_s)
        try:
            return self.ends[guest].recv(70000)[14:].rstrip(b".")
        except TimeoutError:
            return b""

    def learn(self) -> None:
        """Everybody says who it is."""
        for guest in self.ends:
            self.send(guest, ALL)
        assert [self.got(guest) for guest in self.ends for _ in range(2)] == [b"hello"] * 6


@pytest.fixture
def bench() -> Iterator[Bench]:
    switch = Switch()
    ends = {guest: switch.plug("rail0", guest) for guest in (1, 2, 3)}
    other = switch.plug("rail1", 1)
    switch.start()
    yield Bench(switch, ends, other)
    switch.stop()
    for end in (*ends.values(), other):
        end.close()


def test_a_frame_goes_to_everybody_of_its_network_and_to_its_owner_only_once_that_one_is_known(bench: Bench) -> None:
    bench.learn()
    bench.send(1, TWO, b"for two")
    assert bench.got(2) == b"for two"
    assert bench.got(3, 0.2) == b""
    bench.other.settimeout(0.2)
    with pytest.raises(TimeoutError):
        bench.other.recv(70000)


def test_a_cut_cable_carries_nothing_in_either_direction_until_it_is_repaired(bench: Bench) -> None:
    bench.learn()
    port = bench.switch.ports["rail0", 2]
    port.cut()
    bench.send(1, TWO)
    bench.send(2, ONE)
    assert wait_until(lambda: port.dropped == 2)
    assert (bench.got(1, 0.2), bench.got(2, 0.2)) == (b"", b"")
    port.mend()
    bench.send(1, TWO, b"again")
    assert bench.got(2) == b"again"


@pytest.mark.parametrize(("size", "least", "most"), [(4082, 50, 150), (0, 0, 10)], ids=["long frames", "short frames"])
def test_a_lossy_cable_loses_its_share_of_long_frames_and_hardly_a_short_one(
    bench: Bench, size: int, least: int, most: int
) -> None:
    bench.learn()
    port = bench.switch.ports["rail0", 2]
    port.loss = 0.5
    for _ in range(200):
        bench.send(1, TWO, size=size)
        bench.got(2, 0.001)
    bench.send(1, THREE)
    assert bench.got(3) == b"hello"
    assert least <= port.dropped <= most


@pytest.mark.parametrize("slow", [1, 2], ids=["the sender's", "the receiver's"])
def test_a_slow_port_lets_its_rate_through_and_loses_nothing(
    bench: Bench, slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.guests.switch.STUCK_S", 60.0)
    bench.learn()
    bench.switch.ports["rail0", slow].rate_gbps = 0.0016  # 200 frames of 1000 bytes a second
    begun_s = time.monotonic()
    for _ in range(100):
        bench.send(1, TWO, size=986)
    assert [bench.got(2) for _ in range(100)] == [b"hello"] * 100
    assert time.monotonic() - begun_s > 0.4


def test_a_delay_holds_frames_back_in_their_order(bench: Bench) -> None:
    bench.learn()
    bench.switch.ports["rail0", 2].delay_s = 0.2
    begun_s = time.monotonic()
    bench.send(1, TWO, b"first")
    bench.send(1, TWO, b"second")
    assert [bench.got(2), bench.got(2)] == [b"first", b"second"]
    assert time.monotonic() - begun_s > 0.2


def test_a_guest_that_takes_nothing_holds_back_nobody_for_long(bench: Bench) -> None:
    bench.learn()
    bench.ends[1].settimeout(20)
    for _ in range(3000):
        bench.send(1, TWO, size=4000)
    bench.send(1, THREE, b"still here")
    assert bench.got(3, 20) == b"still here"
    assert bench.switch.ports["rail0", 2].dropped
