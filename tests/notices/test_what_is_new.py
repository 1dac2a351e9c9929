"""What a target is sent over several runs: what is new to it, what is gone once, and nothing where nothing changed."""

import pytest
from support.notice_runs import record, report, told
from support.notice_servers import Server, serving

from nodegate.notices import box
from nodegate.notices.target import parse
from nodegate.notices.tell import tell_event

NODES = {"gpu001": "good", "gpu002": "good"}
BAD = {**NODES, "gpu001": "xid"}


@pytest.fixture
def server():
    with serving(Server()) as found:
        yield found


@pytest.fixture
def target(server):
    return parse(f"webhook:{server.url}")


def counts(server):
    """Of the notices since it was last asked: new/still/gone/unseen of each."""
    said = [each.json["counts"] for each in server.got]
    server.got.clear()
    return " ".join("/".join(str(each[name]) for name in ("new", "still", "gone", "unseen")) for each in said)


@pytest.mark.parametrize(
    "nights",
    [
        pytest.param([(NODES, "0/0/0/0"), (NODES, ""), (NODES, "")], id="a healthy fleet is told of once"),
        pytest.param([(BAD, "1/0/0/0"), (BAD, ""), (NODES, "0/0/1/0"), (NODES, "")], id="resolved once"),
        pytest.param([(BAD, "1/0/0/0"), ({**BAD, "gpu002": "slow"}, "1/1/0/0")], id="new beside old"),
        pytest.param([(BAD, "1/0/0/0"), ({"gpu003": "good"}, ""), (BAD, ""), (NODES, "0/0/1/0")], id="other nodes"),
        pytest.param([({"gpu003": "xid"}, "1/0/0/0"), (BAD, "1/0/0/0"), ({**BAD, "gpu003": "xid"}, "")], id="by parts"),
        pytest.param([(BAD, "1/0/0/0"), ({**BAD, "gpu001": "busy"}, ""), (BAD, "")], id="a busy night"),
        pytest.param(
            [(BAD, "1/0/0/0"), ({**BAD, "gpu001": "busy", "gpu002": "slow"}, "1/0/0/1"), (BAD, "0/1/1/0")],
            id="busy while another fails",
        ),
        pytest.param(
            [(BAD, "1/0/0/0"), ({**BAD, "gpu001": "lost"}, "1/0/0/1"), (BAD, "0/1/1/0")], id="unreachable, and back"
        ),
        pytest.param(
            [({"gpu001": "slow"}, "1/0/0/0"), ({"gpu001": "waived"}, ""), ({"gpu001": "slow"}, "1/0/0/0")],
            id="a waiver is not a repair",
        ),
        pytest.param([(BAD, "1/0/0/0"), (dict.fromkeys(NODES, "busy"), "0/0/0/1")] * 1, id="nothing judged"),
    ],
)
def test_nights(nights, server, target, tmp_path):
    for day, (fates, expected) in enumerate(nights):
        assert told(tmp_path, [target], report(day, **fates)) == []
        assert counts(server) == expected, f"night {day}"


def test_a_run_that_was_interrupted_is_always_sent(server, target, tmp_path):
    for day in range(2):
        told(tmp_path, [target], report(day, finished=False, **NODES))
    assert counts(server) == "0/0/0/0 0/0/0/0"
    told(tmp_path, [target], report(2, finished=False, **BAD))
    (got,) = server.got
    assert got.json["result"] == "interrupted"
    assert "the run ended before every check was judged" in got.json["text"]


def test_each_target_knows_what_it_was_sent(server, target, tmp_path):
    other = parse(f"webhook:{server.url}/other")
    told(tmp_path, [target], report(0, **BAD))
    told(tmp_path, [target, other, other], report(1, **BAD))
    assert [each.path[-5:] for each in server.got] == [target.address[-5:], "other"]
    assert counts(server) == "1/0/0/0 1/0/0/0"


def damage_record(folder):
    record(folder).write_bytes(b"SQLite format 3\0" + b"x" * 5000)


def lose_record(folder):
    record(folder).rename(folder / "away")
    (folder / "fleet.sqlite").mkdir()


def damage_memory(folder):
    (file,) = (folder / "notices").glob("*.json")
    file.write_text('{"target":"x"')


def damage_memory_by_type(folder):
    (file,) = (folder / "notices").glob("*.json")
    file.write_text(file.read_text().replace('"condition":"', '"condition":5,"x":"'))


@pytest.mark.parametrize("damage", [damage_record, lose_record, damage_memory, damage_memory_by_type])
def test_what_cannot_be_read_is_all_told(damage, server, target, tmp_path):
    told(tmp_path, [target], report(0, **BAD))
    damage(tmp_path)
    assert told(tmp_path, [target], report(1, **BAD)) == []
    assert counts(server) == "1/0/0/0 1/0/0/0"


def test_an_older_run_is_told_whole_and_changes_nothing(server, target, tmp_path):
    told(tmp_path, [target], report(5, **BAD))
    told(tmp_path, [target], report(1, **NODES))
    told(tmp_path, [target], report(6, **BAD))
    assert counts(server) == "1/0/0/0 0/0/0/0"


def test_an_event_is_always_sent_and_changes_nothing(server, target, tmp_path):
    told(tmp_path, [target], report(0, **BAD))
    for _ in range(2):
        why = {"reason": "no node is idle\n<b>", "nodes": "gpu[001-002]"}
        assert tell_event("not-run", why, [target], record(tmp_path), "zh") == []
    assert [each.json["result"] for each in server.got[1:]] == ["not-run", "not-run"]
    title, *lines = server.got[1].json["text"].split("\n")
    assert title.startswith("nodegate nightly")
    assert title.endswith("夜间检查没有运行")
    assert lines == ["原因: no node is idle <b>", "节点: gpu[001-002]"]
    server.got.clear()
    told(tmp_path, [target], report(1, **BAD))
    assert counts(server) == ""


def test_one_serial_number_on_two_nodes_hides_none(server, target, tmp_path):
    """Made-up boards have the number in the node's name as serial number: both names have the same."""
    told(tmp_path, [target], report(0, gpu001="xid", gpu0001="xid"))
    told(tmp_path, [target], report(1, gpu001="xid", gpu0001="xid"))
    assert counts(server) == "2/0/0/0"


def test_what_is_kept_for_a_target_is_bounded(monkeypatch, tmp_path):
    """The oldest goes, and then the target is sent everything."""
    monkeypatch.setattr(box, "MOST_WAITING", 2)
    nobody = Server()
    with serving(nobody):
        target = parse(f"webhook:{nobody.url}")
    for day, fates in enumerate((BAD, NODES, BAD, NODES, BAD)):
        assert told(tmp_path, [target], report(day, **fates))
    assert len(list((tmp_path / "notices").glob("*.waiting"))) == 2
    with serving(Server(), nobody.port) as server:
        told(tmp_path, [target], report(9, **BAD))
    assert [each.json["run"] for each in server.got] == ["night-3", "night-4", "night-9"]
    assert counts(server).endswith("1/0/0/0")
