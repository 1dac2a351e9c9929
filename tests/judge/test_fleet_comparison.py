"""The fleet comparison: who differs from most nodes of its platform, when nobody can say, and what sets nodes apart."""

import pytest

from fuzz.growth import cpu_s
from nodegate.errors import NotJudged
from nodegate.judge.characteristics import traits_of
from nodegate.judge.fleet import Difference, Fleet
from nodegate.node import Node
from nodegate.records import part
from nodegate.records.run import Drift
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown, Why

UNREAD = Unknown(Why.TIMEOUT)


def fleet(values, platform="p"):
    return Fleet({name: (platform, {"driver": value}) for name, value in values.items()})


def test_the_odd_one_is_named_with_what_most_nodes_have():
    odd = fleet({"a": "550", "b": "550", "c": "550", "d": "535"})
    assert odd.compare("d") == (Difference("driver", "535", "550", 3, 4),)
    (said,) = odd.compare("d")
    finding = said.finding(part.setting("driver"), action="")
    assert (finding.verdict, finding.code) == (Verdict.WARN, "driver")
    assert finding.message == "driver: 535, expected 550 (3 of 4 nodes)"
    assert odd.compare("a") == ()
    assert odd.agreeing("a") == ("driver",)


@pytest.mark.parametrize(
    ("values", "platform", "node", "why"),
    [
        ({"a": "550", "b": "535"}, "p", "a", "2 of platform p in this run, 3 are needed"),
        ({"a": "1", "b": "1", "c": "2"}, "", "c", "platform is unknown"),
        ({"a": "1", "b": "1", "c": "1"}, "p", "zzz", "zzz|not|unknown"),
    ],
)
def test_who_is_not_compared(values, platform, node, why):
    with pytest.raises(NotJudged, match=why):
        fleet(values, platform).compare(node)


def test_a_tie_has_no_majority_and_every_node_hears_of_it():
    tie = fleet({"a": "550", "b": "550", "c": "535", "d": "535"})
    (said,) = tie.compare("a")
    assert said.majority == ""
    finding = said.finding(part.setting("driver"), action="")
    assert finding.message == "driver: 550; no value is common to most of 4 nodes (2 x 535, 2 x 550)"
    assert tie.agreeing("a") == ()
    (said,) = fleet({"a": "1", "b": "1", "c": "2", "d": "3"}).compare("a")
    assert said.majority == "", "the largest group is none until it is more than half"


def test_what_could_not_be_read_is_no_value():
    some = fleet({"a": "550", "b": "550", "c": "550", "d": UNREAD, "e": UNREAD, "f": UNREAD, "g": UNREAD})
    assert some.compare("d") == ()
    assert some.agreeing("d") == ()
    assert some.agreeing("a") == ("driver",)
    few = fleet({"a": "550", "b": "535", "c": UNREAD})
    assert (few.compare("a"), few.agreeing("a")) == ((), ())


def test_platforms_are_not_mixed():
    mixed = Fleet(
        {f"h{i}": ("h100", {"vbios": "96"}) for i in range(3)} | {f"l{i}": ("l40s", {"vbios": "95"}) for i in range(3)}
    )
    assert mixed.compare("h0") == ()
    assert mixed.drift() == ()


def test_the_drift_table_names_the_nodes_of_each_odd_value():
    odd = fleet({"a": "550", "b": "550", "c": "550", "d": "535", "e": "535", "f": "580", "g": UNREAD})
    assert odd.drift() == (Drift("p", "driver", "", 0, 6, {"535": ("d", "e"), "550": ("a", "b", "c"), "580": ("f",)}),)
    clear = fleet({"a": "550", "b": "550", "c": "550", "d": "535"})
    assert clear.drift() == (Drift("p", "driver", "550", 3, 4, {"535": ("d",)}),)


def test_hostile_values_cannot_make_the_message_long():
    wild = fleet({f"n{i}": f"v{i}" for i in range(200)})
    assert len(str(wild.compare("n1")[0])) < 200


def odd_ones(known):
    compared = Fleet(known)
    return {name for name in known if compared.compare(name)}


def test_a_fleet_of_1250_nodes_is_quick():
    names = [f"gpu{i:04d}" for i in range(1250)]
    values = {name: f"v{index}" for index, name in enumerate(f"c{i}" for i in range(20))}
    big = {name: ("p", dict(values)) for name in names}
    big["gpu0700"][1]["c3"] = "other"
    assert cpu_s(odd_ones, big) < 2  # measured: 0.1 s
    assert odd_ones(big) == {"gpu0700"}
    assert [row.characteristic for row in Fleet(big).drift()] == ["c3"]


# What sets a node apart when numbers are compared: its rack, its firmware, the lot of its boards


LOT = {f"GPU {at}": f"165292200{at}111" for at in range(8)}


def traits(expected=None, known=None, serials=None):
    return traits_of(Node("gpu01", expected=expected or {}), known or {}, serials or {})


def test_places_come_first():
    found = traits({"rack": "r7", "leaf": 3, "gpus": 8}, {"GPU VBIOS": "96.00.74"})
    assert list(found.items()) == [("rack", "r7"), ("leaf", "3"), ("GPU VBIOS", "96.00.74")]


def test_what_could_not_be_read_sets_nobody_apart():
    assert traits(known={"GPU VBIOS": Unknown(Why.MISSING, "")}) == {}


@pytest.mark.parametrize(
    ("serials", "lot"),
    [
        (LOT, {"GPU serials": "165292..."}),
        ({**LOT, "GPU 3": "1700000000000", "chassis": "7XK0001"}, {"GPU serials": "165292..."}),
        ({**LOT, **{f"GPU {at}": f"170{at}00000000" for at in range(4)}}, {}),
        ({"GPU 0": "N/A", "GPU 1": "123"}, {}),
        ({}, {}),
    ],
    ids=["one lot", "one board replaced", "half replaced", "no numbers", "none"],
)
def test_the_lot_of_most_of_its_gpus(serials, lot):
    assert traits(serials=serials) == lot
