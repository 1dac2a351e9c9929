"""What sets a node apart when numbers are compared: its rack, its firmware, the lot of its boards."""

import pytest

from nodegate.judge.characteristics import traits_of
from nodegate.node import Node
from nodegate.unknown import Unknown, Why

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
