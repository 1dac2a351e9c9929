"""A guest does what it is told, past its network."""

from __future__ import annotations

import pytest

from lab.guests.guest import Guest
from lab.guests.leases import Lease


@pytest.fixture
def guest(pair: Lease) -> Guest:
    return pair.sound().guests[0]


def test_an_answer_that_comes_too_late_is_not_the_next_commands(guest: Guest) -> None:
    for seconds in (1.0, 0.5):
        with pytest.raises(RuntimeError, match=r"gave no answer in 0\.2 s"):
            guest.run(f"sleep {seconds}; echo late", limit_s=0.2)
    assert guest.run("echo next") == "next\n"


def test_a_command_that_fails_says_why(guest: Guest) -> None:
    with pytest.raises(RuntimeError, match="exit code 3: it broke"):
        guest.run("echo it broke >&2; exit 3")
