"""How many connections begin at a server at once is learned from what it drops."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodegate.errors import Unreachable
from nodegate.transport import turns
from nodegate.transport.banner import TurnedAway
from nodegate.transport.ssh_config import HostConfig
from nodegate.transport.turns import Turns, way_to

KEY = ("bastion", "22")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(turns, "FIRST_PAUSE_S", 0.01)


class Server:
    """It takes `most` at once and turns the others away."""

    def __init__(self, most):
        self._room = threading.BoundedSemaphore(most) if most else None
        self.asked = 0

    def connect(self):
        self.asked += 1
        if self._room is None or not self._room.acquire(blocking=False):
            raise TurnedAway("dropped", "it closed the connection", next_step="raise MaxStartups")
        time.sleep(0.02)
        self._room.release()
        return "in"


def test_fewer_begin_at_once_after_the_first_was_turned_away():
    server, all_turns = Server(2), Turns()
    with ThreadPoolExecutor(32) as pool:
        takes = [pool.submit(all_turns.take, KEY, server.connect, retries=3, within_s=30) for _ in range(200)]
        assert {take.result() for take in takes} == {"in"}
    assert server.asked < 500  # 32 at a time without an end would be thousands


@pytest.mark.parametrize("retries", [3, 0])
def test_a_server_that_lets_nobody_in_is_given_up_after_the_retries(retries):
    server = Server(0)
    with pytest.raises(TurnedAway):
        Turns().take(KEY, server.connect, retries=retries, within_s=30)
    assert server.asked == retries + 1


def test_the_time_limit_ends_the_tries():
    server = Server(0)
    began_s = time.monotonic()
    with pytest.raises(TurnedAway):
        Turns().take(KEY, server.connect, retries=1000, within_s=0.2)
    assert time.monotonic() - began_s < 30
    assert server.asked < 100


def test_another_error_is_not_tried_again():
    asked = []

    def refused():
        asked.append(1)
        raise Unreachable("refused", "it refused the connection", next_step="look at it")

    with pytest.raises(Unreachable, match="refused"):
        Turns().take(KEY, refused, retries=3, within_s=30)
    assert len(asked) == 1


def test_the_nodes_behind_a_bastion_take_turns_at_it_if_each_connects_to_it_anew():
    behind = [HostConfig("n", f"node{number}", 22, "root", proxy_jump=("bastion",)) for number in range(3)]
    assert len({way_to(each, by_ssh=True) for each in behind}) == 1
    assert len({way_to(each) for each in behind}) == 3  # they share one connection to it
    dialled = [HostConfig("n", f"node{number}", 22, "root", proxy_command=f"dial node{number}") for number in range(3)]
    assert len({way_to(each, by_ssh=by_ssh) for each in dialled for by_ssh in (True, False)}) == 1


def test_nothing_is_kept_of_servers_that_took_all():
    all_turns = Turns()
    for number in range(1000):
        all_turns.take((f"node{number}", "22"), lambda: "in", retries=3, within_s=30)
    assert not all_turns._servers
