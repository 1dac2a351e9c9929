"""perftest between guests with two sockets each: every program near its NIC, by what the guests' kernels say of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lab.guests.campaign import BRIEF, LINKS, campaign
from lab.guests.guest import TWO_SOCKETS
from lab.guests.guests import Guests
from lab.guests.timeouts import LINK
from lab.run import Outcome

CARRY_S = "4"  # an emulated CPU takes a second to look at all programs
MEASUREMENT = "rdma_bandwidth"
CPUS = {"rxe0": ("0", "1"), "rxe1": ("2", "3")}  # of the socket that has the rail
PLACES = {"rxe0": "NUMA node 0", "rxe1": "NUMA node 1"}
# Again and again, of every perftest: its rail, the CPUs it may use, and the pages of its own on each NUMA node.
LOOK = """
until false; do
    for pid in $(pgrep '^ib_write_bw'); do
        rail=$(tr '\\0' '\\n' </proc/$pid/cmdline | grep '^rxe')
        cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$pid/status)
        pages=$(grep anon= /proc/$pid/numa_maps | tr ' ' '\\n' |
            awk -F= '$1 == "N0" {near += $2} $1 == "N1" {far += $2} END {print near + 0, far + 0}')
        echo "$pid $rail $cpus $pages"
    done
    sleep 0.3
done
"""


class Program(NamedTuple):
    """What a guest's kernel said of a program that drove a rail, when it had most memory."""

    rail: str
    cpus: str
    pages: tuple[int, int]


class Found(NamedTuple):
    """A run, and what was seen of each guest's programs while it went on."""

    outcome: Outcome
    programs: dict[str, list[Program]]


def seen(said: str) -> list[Program]:
    """The programs that LOOK saw; a line about one that has just ended is not whole."""
    found: dict[str, Program] = {}
    for words in (line.split() for line in said.splitlines()):
        if len(words) == 5:
            program = Program(words[1], words[2], (int(words[3]), int(words[4])))
            if words[0] not in found or sum(program.pages) >= sum(found[words[0]].pages):
                found[words[0]] = program
    return list(found.values())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """Two guests, booted for this, and one run over them."""
    with Guests(2, hardware=TWO_SOCKETS) as lab:
        for guest in lab.guests:
            guest.run(f"echo {shlex.quote(LOOK)} >/tmp/look")
            guest.run("systemd-run -q --unit looker sh -c 'exec sh /tmp/look >/tmp/seen 2>/dev/null'")
        with campaign(lab, tmp_path_factory.mktemp("sockets"), *LINKS, *BRIEF, LINK, CARRY_S) as run:
            outcome = run.outcome()
        yield Found(outcome, {guest.name: seen(guest.run("cat /tmp/seen")) for guest in lab.guests})


def test_the_kernels_saw_each_program_on_one_core_of_the_socket_of_its_rail(found: Found) -> None:
    taken: dict[str, set[str]] = {rail: set() for rail in CPUS}
    for name, programs in found.programs.items():
        assert {program.rail for program in programs} == set(CPUS), (name, programs)
        for program in programs:
            assert program.cpus in CPUS[program.rail], (name, program)
            taken[program.rail].add(program.cpus)
    assert taken == {rail: set(cpus) for rail, cpus in CPUS.items()}  # one for a server, one for a client


def test_their_memory_is_on_that_socket(found: Found) -> None:
    for name, programs in found.programs.items():
        assert programs, name
        for program in programs:
            near, far = program.pages if program.rail == "rxe0" else program.pages[::-1]
            assert near > 20 * far, (name, program)


def test_the_evidence_says_the_same(found: Found) -> None:
    for name in found.programs:
        runs = [each for each in found.outcome.ran(name, MEASUREMENT) if each["what"] == "ib_write_bw"]
        assert {each["plan"]["link"]["device"] for each in runs} == set(CPUS)
        for each in runs:
            rail, ends = each["plan"]["link"]["device"], (each["link"]["client"], each["link"]["server"])
            assert {end["near"] for end in ends} == {PLACES[rail]}
            assert tuple(end["cpus"] for end in ends) == CPUS[rail]
