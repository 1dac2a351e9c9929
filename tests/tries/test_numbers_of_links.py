"""Numbers of RDMA links that are none.

Each test changes one program run of a healthy node as the node would send it, and judges the node's checks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import rdma_links
from support.rdma_links import LinkCase, judged, link

from nodegate.verdict import Verdict, worst
from tests.support.tries import tried

if TYPE_CHECKING:
    from nodegate.finding import Record

ASKED = ("ib_write_bw", "-d", "mlx5_0", "-p", "18515", "-s", "1048576", "-q", "4", "-D", "10", "--report_gbits", "-F")


def said(change: dict[str, object], check: str = "rdma_bandwidth.complete", value: float = 391.87) -> Record:
    """What a check says where every write of mlx5_0 between nodes is this one."""

    def bad(links: rdma_links.Links) -> None:
        for key, ran in links.items():
            if key[:2] == ("ib_write_bw", "mlx5_0"):
                made = link("ib_write_bw", "mlx5_0", key[2], value, peer_best=ran.labels["peer_best"])
                links[key] = replace(made, **({"argv": ASKED, "duration_s": 12.0} | change))

    return judged(LinkCase("a try", check, Verdict.ERROR, "", bad))


def of_one_rail(record: Record) -> dict[str, Verdict]:
    parts = {finding.part.short for finding in record.findings}
    return {each: worst(found.verdict for found in record.findings if found.part.short == each) for each in parts}


def printed(old: str, new: str) -> dict[str, object]:
    """The output of a good run, changed in one place."""
    text = rdma_links.printed("ib_write_bw", 391.87, "mlx5_0")
    assert old in text
    return {"stdout": text.replace(old, new)}


def test_the_run_that_is_changed_here_is_a_good_one() -> None:
    assert said({}).verdict is Verdict.PASS


def not_believed(change: dict[str, object], why: str) -> None:
    record = said(change)
    assert record.verdict is Verdict.ERROR
    assert of_one_rail(record)["mlx5_0"] is Verdict.ERROR
    assert why in record.message


@tried(
    "perftest prints a good table and ends with exit code 1",
    before="every check of bandwidth passes",
    now="error: not believed, it printed a result and exit code 1",
)
def test_an_exit_code_beside_a_result() -> None:
    not_believed({"exit_code": 1}, "not believed: it printed a result and exit code 1")


@tried(
    "perftest prints a good table and dies of a signal",
    before="every check of bandwidth passes",
    now="error: not believed, it was ended by signal 11",
)
@pytest.mark.parametrize("code", [-11, 139])
def test_a_signal_beside_a_result(code: int) -> None:
    not_believed({"exit_code": code}, "not believed: it printed a result and was ended by signal 11")


@tried(
    "the table is of mlx5_9, and mlx5_0 was asked for",
    before="the number counts for mlx5_0",
    now="error: it used mlx5_9",
)
def test_another_device() -> None:
    not_believed(printed(": mlx5_0", ": mlx5_9"), "it used mlx5_9, and mlx5_0 was asked for")


@tried(
    "the table has a row of 2 bytes only, and 1048576 were asked for",
    before="the number of the row counts",
    now="error: it transferred 2 bytes at a time",
)
def test_another_size() -> None:
    not_believed(printed(" 1048576 ", " 2 "), "it transferred 2 bytes at a time, and 1048576 were asked for")


@tried(
    "two rows: 12 Gb/s at the size that was asked for, 391 at twice that size",
    before="the larger size counts: accepted",
    now="the size that was asked for counts: the rail is slow",
)
def test_two_sizes() -> None:
    lines = rdma_links.printed("ib_write_bw", 12.0, "mlx5_0").splitlines()
    row = next(line for line in lines if line.strip().startswith("1048576"))
    more = row.replace("1048576", "2097152").replace("12.0", "391.87")
    text = "\n".join(each for line in lines for each in ([line, more] if line is row else [line]))
    record = said({"stdout": text}, "rdma_bandwidth.share_of_rate")
    assert of_one_rail(record)["mlx5_0"] is Verdict.FAIL


@tried(
    "a program prints a table after 0.1 s, and 10 s were asked for: it never met its partner",
    before="every check of bandwidth passes",
    now="error: it ended after 0.1 s",
)
def test_no_time() -> None:
    not_believed({"duration_s": 0.1}, "it ended after 0.1 s, and 10 s were asked for")


@tried(
    "3,915 Gb/s on a port of 400 Gb/s",
    before="pass: 979 % of the port's rate",
    now="error: more than is possible, not believed",
)
def test_more_than_the_port_carries() -> None:
    record = said({}, "rdma_bandwidth.write", value=3915.5)
    assert of_one_rail(record)["mlx5_0"] is Verdict.ERROR
    assert "3916 Gb/s is more than the 400 Gb/s that are possible (rate of mlx5_0): not believed" in record.message
