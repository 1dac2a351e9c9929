"""perftest between guests with two sockets each: every program near its NIC, by what the guests' kernels say of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lab.guests.campaign import BRIEF, LINKS, UNTIL_THERE_S, at_work, campaign
from lab.guests.guest import TWO_SOCKETS
from lab.guests.guests import Guests
from lab.guests.timeouts import LINK
from lab.run import Outcome

CARRY_S = "15"  # an emulated CPU takes seconds to read what is asked for
MEASUREMENT = "rdma_bandwidth"
CPUS = {"rxe0": ("0", "1"), "rxe1": ("2", "3")}  # of the socket that has the rail
NODES = {"rxe0": "NUMA node 0", "rxe1": "NUMA node 1"}
# Every perftest of a guest: its words, the CPUs it may use, and on which NUMA nodes its own memory is.
SEEN = """for pid in $(pgrep '^ib_write_bw'); do
    tr '\\0' ' ' </proc/$pid/cmdline; echo
    grep Cpus_allowed_list /proc/$pid/status
    grep -o 'anon=.* N[01]=.*' /proc/$pid/numa_maps | tr ' ' '\\n' | grep '^N'
done
true
"""


class Program(NamedTuple):
    """What a guest's kernel says of a program that drives a rail."""

    rail: str
    cpus: str
    pages: dict[str, int]


class Found(NamedTuple):
    """A run, and what was seen of each guest's programs while they carried."""

    outcome: Outcome
    programs: dict[str, list[Program]]


def seen(said: str) -> list[Program]:
    """What SEEN printed."""
    found: list[Program] = []
    for line in said.splitlines():
        if " -d rxe" in line:
            rail = next(word for word in line.split() if word.startswith("rxe"))
            found.append(Program(rail, "", defaultdict(int)))
        elif line.startswith("Cpus_allowed_list"):
            found[-1] = found[-1]._replace(cpus=line.split()[1])
        elif line.startswith("N"):
            node, _, count = line.partition("=")
            found[-1].pages[node] += int(count)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """Two guests, booted for this."""
    programs: dict[str, list[Program]] = {}
    folder = tmp_path_factory.mktemp("sockets")
    with Guests(2, hardware=TWO_SOCKETS) as lab, campaign(lab, folder, *LINKS, *BRIEF, LINK, CARRY_S) as run:
        run.wait_for(at_work(lab, "rail1"), UNTIL_THERE_S)
        programs.update({guest.name: seen(guest.run(SEEN)) for guest in lab.guests})
        yield Found(run.outcome(), programs)


def test_the_kernels_saw_each_program_on_one_core_of_the_socket_of_its_rail(found: Found) -> None:
    taken = defaultdict(set)
    for name, programs in found.programs.items():
        assert {program.rail for program in programs} == set(CPUS), programs
        for program in programs:
            assert program.cpus in CPUS[program.rail], (name, program)
            taken[program.rail].add(program.cpus)
    assert {rail: len(cpus) for rail, cpus in taken.items()} == {"rxe0": 2, "rxe1": 2}  # a server's, and a client's


def test_their_memory_is_on_that_socket(found: Found) -> None:
    for programs in found.programs.values():
        for program in programs:
            near, far = ("N0", "N1") if program.rail == "rxe0" else ("N1", "N0")
            assert program.pages[near] > 10 * program.pages[far], program


def test_the_evidence_says_the_same(found: Found) -> None:
    for name in found.programs:
        runs = [
            ran for ran in found.outcome.ran(name, MEASUREMENT) if ran["what"] == "ib_write_bw" and ran.get("stdout")
        ]
        assert runs
        for ran in runs:
            labels = ran["labels"]
            rail = labels["device"]
            assert {labels["client_near"], labels["server_near"]} == {NODES[rail]}
            assert (labels["server_cpus"], labels["client_cpus"]) == CPUS[rail][::-1]
