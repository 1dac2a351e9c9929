"""Numbers of RDMA links that are none.

Each test changes one program run of a healthy node as the node would send it, and judges the node's checks.
"""

from dataclasses import replace

import pytest
from support import rdma_links
from support.attempts import having
from support.load_fleet import LoadFleet
from support.rdma_links import LinkCase, judged, link

from nodegate.measure.rdma.asked import unlike_counted
from nodegate.records.program_run import Path
from nodegate.records.verdict import Verdict, worst
from nodegate.tools.perftest import parse

ASKED = ("ib_write_bw", "-d", "mlx5_0", "-p", "18515", "-s", "1048576", "-q", "4", "-D", "10", "--report_gbits", "-F")


def said(change, check="rdma_bandwidth.complete", value=391.87):
    """What a check says where every write of mlx5_0 between nodes is this one."""

    def bad(links):
        for key, ran in links.items():
            if key[:2] == ("ib_write_bw", "mlx5_0"):
                made = link("ib_write_bw", "mlx5_0", key[2], value, peer_best=ran.link.peer_best)
                links[key] = replace(made, **({"argv": ASKED, "duration_s": 12.0} | change))

    return judged(LinkCase("a try", Verdict.ERROR, bad, check=check))


def of_one_rail(record):
    parts = {finding.part.short for finding in record.findings}
    return {each: worst(found.verdict for found in record.findings if found.part.short == each) for each in parts}


def printed(old, new):
    text = rdma_links.printed("ib_write_bw", 391.87, "mlx5_0")
    assert old in text
    return {"stdout": text.replace(old, new)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exit_code": 1}, "not believed: it printed a result and exit code 1"),
        ({"exit_code": -11}, "not believed: it printed a result and was ended by signal 11"),
        (printed(": mlx5_0", ": mlx5_9"), "it used mlx5_9, not the requested mlx5_0"),
        (printed(" 1048576 ", " 2 "), "it transferred 2 bytes at a time, not the requested 1048576"),
        ({"duration_s": 0.1}, "it ended after 0.1 s, not after the requested 10 s"),
    ],
)
def test_a_result_that_is_not_of_what_was_asked(change, why):
    record = said(change)
    assert (record.verdict, of_one_rail(record)["mlx5_0"]) == (Verdict.ERROR, Verdict.ERROR)
    assert why in record.message


def test_two_sizes():
    lines = rdma_links.printed("ib_write_bw", 12.0, "mlx5_0").splitlines()
    row = next(line for line in lines if line.strip().startswith("1048576"))
    more = row.replace("1048576", "2097152").replace("12.0", "391.87")
    text = "\n".join(each for line in lines for each in ([line, more] if line is row else [line]))
    record = said({"stdout": text}, "rdma_bandwidth.share_of_rate")
    assert of_one_rail(record)["mlx5_0"] is Verdict.FAIL


def test_more_than_the_port_carries():
    record = said({}, "rdma_bandwidth.write", value=3915.5)
    assert of_one_rail(record)["mlx5_0"] is Verdict.ERROR
    assert "3916 Gb/s is more than the 400 Gb/s that are possible (rate of mlx5_0): not believed" in record.message


GB = 10**9 // 4  # in the words of four bytes that a port counts
BEFORE = 10**11  # more than 32 bits hold


def counted(sent, received, before=BEFORE):
    """What run_many.py reports of a port that moved so many words in between."""
    return before, before, before + sent, before + received


def with_counters(client, server):
    """A good run of 10 s at 391.87 Gb/s, 490 GB, with what the ports of both ends counted."""
    made = link(
        "ib_write_bw", "mlx5_0", "gpu02", 391.87, peer_best=391.87, client_counted=client, server_counted=server
    )
    return {"plan": made.plan, "link": made.link}


@pytest.mark.parametrize("end", ["client", "server"])
def test_ports_that_moved_nothing(end):
    good, bad = counted(500 * GB, 500 * GB), counted(GB // 5, GB // 5)
    change = with_counters(bad if end == "client" else good, bad if end == "server" else good)
    whose = "port_xmit_data of mlx5_0" if end == "client" else "port_rcv_data of gpu02 mlx5_0"
    record = said(change)
    assert of_one_rail(record)["mlx5_0"] is Verdict.ERROR
    assert f", and {whose} counted 0.2 GB: another port was used, or nothing was transferred" in record.message


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (counted(500 * GB, 0), counted(0, 500 * GB)),  # each in the direction of the data
        ((), ()),  # soft-RoCE, and drivers without these counters
        ((0, 0, 0, 0), (0, 0, 0, 0)),  # drivers whose counters are always 0
        ((2**32 - 9, 5, 2**32 - 1, 5), (5, 5, 5, 5000)),  # 32 bits: at their full scale, or begun again
        ((9 * 10**9, 9 * 10**9, 7, 7), (9 * 10**9, 9 * 10**9, 7, 7)),  # reset in between
        ((-1, -1, -1, -1), (1, 2, 3)),
    ],
    ids=["both ends", "none", "always 0", "32 bits", "reset", "not four"],
)
def test_counters_that_cannot_tell_are_no_fault(client, server):
    assert said(with_counters(client, server)).verdict is Verdict.PASS


def test_inside_a_node_data_may_not_leave_the_adapter():
    made = link("ib_write_bw", "mlx5_0", "gpu02", 391.87, client_counted=counted(9, 9), server_counted=counted(9, 9))
    assert unlike_counted(made, parse(made.stdout))
    inside = having(made, path=Path.INSIDE)
    assert not unlike_counted(inside, parse(inside.stdout))


def test_what_the_counters_cannot_confirm_is_told():
    told = [finding.text for finding in said(with_counters((), ())).findings if "mlx5_0" in finding.part.short]
    assert told == ["measured; the ports' own counters cannot confirm it"]


@pytest.mark.long
def test_counters_of_a_run(tmp_path):
    with LoadFleet(tmp_path / "fleet", 2) as fleet:
        for node in fleet.nodes:
            for device in ("mlx5_0", "mlx5_1"):
                folder = node.folder / f"tree/sys/class/infiniband/{device}/ports/1/counters"
                for name in ("port_xmit_data", "port_rcv_data"):
                    (folder / name).unlink()  # a link into the trees of both nodes
                    (folder / name).write_text(f"{BEFORE}\n")
                node.adapter(device, counted=1.02)
        fleet["gpu2"].adapter("mlx5_1", counted=0.001)
        bad = fleet.run(tmp_path / "bad", asked=("node", "rdma_bandwidth"))
    assert bad.verdicts("rdma_bandwidth.complete") == {"gpu1": "error", "gpu2": "error"}
    for record in bad.records:
        if record.check == "rdma_bandwidth.complete":
            assert of_one_rail(record) == {"mlx5_0": Verdict.PASS, "mlx5_1": Verdict.ERROR}
            assert "another port was used, or nothing was transferred" in record.message
