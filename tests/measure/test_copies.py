"""Copies as they are run and read: our own program, nvbandwidth where it is there, documents from hostile nodes."""

from fleet.machine import Machine
from support.copies import copied, document, ran_by_others, wire

from nodegate.errors import CannotMeasure
from nodegate.measure.copies import run as copies
from nodegate.measure.copies.document import ALONE
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.program_run import MAX_KEPT
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun
from nodegate.unknown import Unknown

H100 = Machine.hgx_h100()
DELIVERY, BOOTCHECK = OF_PROFILE[Profile.DELIVERY], OF_PROFILE[Profile.BOOTCHECK]


# What a document says


# nvbandwidth beside it


def test_nvbandwidth_that_does_not_end_or_start_says_so():
    left = ProgramRun("nvbandwidth", timed_out=True, duration_s=300.0)
    found = copied(lambda _: None, left, ran_by_others("no-cuda.json"))
    reasons = [other.reason for other in found.others if isinstance(other, CannotMeasure)]
    assert reasons[0] == "nvbandwidth did not end within 300 s"
    assert "SYSTEM_NOT_READY" in reasons[1]


# What cannot be read


def test_hostile_values_become_unknown_and_never_zero():
    def nonsense(found):
        found["gpus"][0]["copies"][0].update(gb_per_s=-4, lowest="x", what=[], when={})
        found["gpus"][0]["copies"][1].update(gb_per_s=1e300)
        found["gpus"][0]["memory"].update(bytes=-1, passes="x", wrong=[7, ["a", 1, 2], ["a", -1, 2, 3], ["b", 1, 2, 3]])
        found["gpus"][1]["memory"] = "all"
        found["gpus"][0]["data"][0].update(wrong_words=-1, bytes="many", first_word="x")
        found["gpus"][1].update(pci="somewhere", index=-1, copies="none", data=7, link=[], place=3)
        found["gpus"][2]["link"][ALONE]["link_gen"] = [5, "x", 5]
        found["peers"]["copies"][0].update({"from": "x"})
        found["peers"]["copies"][1].update(gb_per_s="fast", direct="yes")

    found = copied(nonsense)
    first, second, third, *_ = found.runs[0].gpus
    assert isinstance(first.copies[0].gb_per_s, Unknown)
    assert isinstance(first.copies[1].gb_per_s, Unknown)
    assert isinstance(first.data[0].wrong_words, Unknown)
    assert isinstance(first.memory.bytes, Unknown)
    assert isinstance(first.memory.passes, Unknown)
    assert [str(each) for each in first.memory.wrong] == ["byte 0x1 held 0x00000003 for 0x00000002"]
    assert second.memory is None
    assert (second.index, second.copies, second.data) == (1, (), ())
    assert isinstance(third.links[ALONE].gen, Unknown)
    assert (0, 1) not in found.pairs
    assert found.best((0, 2)) is None


def test_the_document_of_the_largest_node_is_kept_whole():
    found = document(H100)
    found["gpus"] *= 8
    pairs = found["peers"]["copies"]
    found["peers"]["copies"] = [dict(pairs[at % 56], gb_per_s=300 + at * 0.0377) for at in range(64 * 63)]
    assert len(wire(found)) < MAX_KEPT


def test_it_takes_less_than_two_minutes_at_a_delivery():
    assert 60 < copies.takes_s(DELIVERY) < 120
    assert copies.takes_s(BOOTCHECK) < 30
