"""What the checks of copies say of one node with one fault, word for word, and of what only looks faulty."""

import pytest
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.copies import (
    ALONE,
    AT_ONCE,
    CopiesCase,
    each_pair_of,
    every_pair,
    link,
    memory,
    of_gpu,
    of_link,
    pair,
    ran_by_others,
    rate,
    together,
)
from support.judging import every_gpu

from nodegate.subjects import pcie

NONE, GEN4_SLOT = "", every_gpu("link_gen_max", 4)
NOT_TOLD = {name: unread("not supported", "NVML 3") for name in ("link_gen", "link_width")}
CUDA = "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_READY"


def dead(found):
    of_gpu(3, error=CUDA, copies=[], data=[], link={"error": "NVML 15: GPU is lost"})(found)
    found["peers"]["copies"] = [each for each in found["peers"]["copies"] if 3 not in {each["from"], each["to"]}]


def stopped(found):
    of_gpu(3, error="no answer within 20 s, at cuStreamSynchronize")(found)
    del found["gpus"][3]["copies"][1:], found["gpus"][3]["data"][:]


def without(found):
    del found["gpus"][3]


def only_one(found):
    del found["gpus"][1:]
    found["gpus"][0]["copies"] = [each for each in found["gpus"][0]["copies"] if each["when"] == ALONE]
    found["peers"]["copies"] = []


def no_pairs(found):
    found["peers"] = {"pairs": "none", "copies": []}


def place(above, gpu):
    return lambda found: found["gpus"][gpu]["place"].update(above=above)


def wrong(place, **values):
    return lambda found: found["gpus"][3]["data"][place].update(values)


def at_once(*rates):
    return together(rate("host_to_device", rates[0], when=AT_ONCE), rate("device_to_host", rates[1], when=AT_ONCE))


def each(change, *given, **named):
    return together(*(change(*given, gpu=gpu, **named) for gpu in range(8)))


OLD_LINKS = together(each(rate, "host_to_device", 26.0), each(link, link_gen=[4, 4, 4]))
LOSES_A_FIFTH = together(rate("read", 2480.0), rate("copy", 2400.0), rate("triad", 2410.0))
USUALLY_LOW = together(*(each(rate, what, 2900.0) for what in ("read", "copy", "triad")))


ELSEWHERE = of_gpu(0, place={"cpus": "", "numa_node": "", "error": "sysfs lists no CPU next to it: ''"})
LOST_INSIDE = wrong(1, wrong_words=1, first_word=0)
NOT_JOINED = pair(3, 5, direct=False, gb_per_s=20.0)
CASES = of("copies.complete")(
    CopiesCase("healthy", PASS),
    CopiesCase("a GPU that never started", ERROR, dead),
    CopiesCase("a GPU that stops", FAIL, stopped),
    CopiesCase("a GPU that is left out", ERROR, without),
    CopiesCase("host memory elsewhere is told, and no fault", PASS, ELSEWHERE),
)
CASES += of("copies.data")(
    CopiesCase("healthy", PASS),
    CopiesCase("a word lost on the way in", FAIL, wrong(0, wrong_words=3, first_word=7)),
    CopiesCase("a word lost on the way out", FAIL, wrong(5, what="device_to_host", wrong_words=1, first_word=None)),
    CopiesCase("a word lost inside", FAIL, LOST_INSIDE),
    CopiesCase("a word lost between two GPUs", FAIL, pair(5, 3, wrong_words=4, first_word=2)),
    CopiesCase("wrong once, right when measured again", FAIL, LOST_INSIDE, again=(lambda found: None,)),
    CopiesCase("nothing compared", ERROR, dead),
    CopiesCase("a count that is not told", ERROR, wrong(0, wrong_words={"why": "failed"})),
    CopiesCase("a pair whose count is not told", ERROR, pair(5, 3, wrong_words="x")),
)
CASES += of("copies.host_to_device")(
    CopiesCase("healthy", PASS),
    CopiesCase("a link of eight lanes", FAIL, together(rate("host_to_device", 27.0), link(link_width=[8, 8, 8]))),
    CopiesCase("slow behind a whole link", FAIL, rate("host_to_device", 27.0)),
    CopiesCase("slow once", PASS, rate("host_to_device", 27.0), again=(lambda found: None, lambda found: None)),
    CopiesCase("slower than the fleet", FAIL, rate("host_to_device", 51.5), nodes=9),
    CopiesCase("half a link where nothing says what is right", WARN, each(rate, "host_to_device", 27.0), limits=NONE),
    CopiesCase("an older platform", NOT_JUDGED, OLD_LINKS, machine=GEN4_SLOT, limits=NONE),
    CopiesCase("a link that NVML did not tell", PASS, of_gpu(0, link={"error": "NVML 999"})),
    CopiesCase("no rate from one GPU", ERROR, dead),
    CopiesCase("a rate that physics does not allow", ERROR, rate("host_to_device", 80.0)),
)
CASES += of("copies.device_to_host")(
    CopiesCase("healthy", PASS),
    CopiesCase("slow in one direction", FAIL, rate("device_to_host", 13.0)),
    CopiesCase("no rate from one GPU", ERROR, dead),
)
CASES += of("copies.host_at_once")(
    CopiesCase("healthy, in a fleet", PASS, nodes=9),
    CopiesCase("a node that is slow at once", FAIL, at_once(20.0, 41.0), nodes=9),
    CopiesCase("no fleet to compare with", NOT_JUDGED),
    CopiesCase("a GPU that shares its uplink, with no fleet to tell", NOT_JUDGED, at_once(20.0, 41.0)),
    CopiesCase("one GPU", SKIP, only_one),
    CopiesCase("no rate from one GPU", ERROR, dead, nodes=9),
)
CASES += of("copies.host_both_ways")(
    CopiesCase("healthy", PASS),
    CopiesCase("slow only when both go", FAIL, rate("both_ways", 41.0)),
    CopiesCase("one way in turn on every node", PASS, each(rate, "both_ways", 56.0)),
    CopiesCase("more than the link carries", ERROR, rate("both_ways", 140.0)),
    CopiesCase("no rate from one GPU", ERROR, dead),
    CopiesCase("left out of a short run", SKIP, lambda found: found.update(both_ways=False)),
)
UNTOLD = {ALONE: {}, "unread": NOT_TOLD}
FOUR = {"link_gen": [4, 4, 4], "link_width": [16, 16, 16]}
GEN3 = ["0000:38:00.0", "8.0 GT/s PCIe", "8.0 GT/s PCIe", "16", "16"]
GEN4 = ["0000:39:00.0", "16.0 GT/s PCIe", "16.0 GT/s PCIe", "16", "16"]
DOWN = ["0000:38:00.0", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "16", "16"]
OLD_RATES = each(rate, "host_to_device", 12.6)
VIRTUAL, SECRET = each(of_link, virtualization=1), each(of_link, confidential=1)
ONE_SLOWER = together(rate("host_to_device", 12.6), VIRTUAL)
CASES += of("copies.host_to_device")(
    CopiesCase("confidential computing on all GPUs", NOT_JUDGED, together(each(rate, "host_to_device", 6.2), SECRET)),
    CopiesCase("a PCIe Gen3 host under switches of Gen4", WARN, together(OLD_RATES, each(place, [GEN4, GEN3]))),
    CopiesCase("a port that trained down is no design", FAIL, together(OLD_RATES, each(place, [GEN4, DOWN]))),
    CopiesCase("a virtual machine on such a host", WARN, together(OLD_RATES, VIRTUAL)),
    CopiesCase("one GPU of a virtual machine is slower than the others", FAIL, ONE_SLOWER),
    CopiesCase("slower than a Gen3 host can be", FAIL, together(each(rate, "host_to_device", 6.0), VIRTUAL)),
)
CASES += of("copies.link")(
    CopiesCase("healthy", PASS),
    CopiesCase("a link that stays at Gen1", FAIL, link(link_gen=[1, 1, 1])),
    CopiesCase("a link that was at Gen1 for a moment", PASS, link(link_gen=[1, 5, 5])),
    CopiesCase("lanes lost at work", FAIL, link(link_width=[8, 8, 16])),
    CopiesCase("a Gen4 slot", PASS, each(of_link, **dict.fromkeys((ALONE, AT_ONCE), FOUR)), machine=GEN4_SLOT),
    CopiesCase(
        "a link that NVML does not tell", SKIP, lambda found: [each.update(link=UNTOLD) for each in found["gpus"]]
    ),
    CopiesCase("NVML returned no sample", ERROR, of_gpu(3, link={"error": "no answer within 20 s"})),
)
CASES += of("copies.device_memory")(
    CopiesCase("healthy", PASS),
    CopiesCase("a slow memory", FAIL, rate("device", 1100.0)),
    CopiesCase("no rate from one GPU", ERROR, dead),
)
CASES += of("copies.memory_bandwidth")(
    CopiesCase("healthy", PASS),
    CopiesCase("a memory that lost a fifth of its rate", FAIL, LOSES_A_FIFTH),
    CopiesCase("one kernel far behind", FAIL, rate("triad", 1000.0)),
    CopiesCase("lower than usual, within what good boards give", PASS, USUALLY_LOW),
    CopiesCase("faster than the memory can be", ERROR, rate("read", 3500.0)),
    CopiesCase("no rate from one GPU", ERROR, dead),
    CopiesCase("recorded by a release without kernels", SKIP, lambda found: found.pop("kernel_bytes")),
)
WRONG = {"wrong_words": 68, "bits": 64, "wrong": [["addresses", 0x1F4C0D400, 0xF4C0D400, 0xF4C0D440]]}
CASES += of("copies.memory_pattern")(
    CopiesCase("healthy", PASS),
    CopiesCase("a bit that is always 1", FAIL, memory(**WRONG)),
    CopiesCase("wrong once, right when measured again", FAIL, memory(**WRONG), again=(lambda found: None,)),
    CopiesCase("not all patterns within the time", ERROR, memory(passes=12)),
    CopiesCase("all patterns in another attempt", PASS, memory(passes=12), again=(lambda found: None,)),
    CopiesCase("half of the memory in use", ERROR, memory(bytes=42 << 30)),
    CopiesCase("counts that are none", ERROR, memory(wrong_words=-1)),
    CopiesCase("a GPU whose memory was not tested", ERROR, together(dead, of_gpu(3, memory={}))),
    CopiesCase("left out of a short run", SKIP, lambda found: found.update(pattern_s=0.0)),
)
CASES += of("copies.peer")(
    CopiesCase("healthy", PASS),
    CopiesCase("a bad link shows at both of its ends", FAIL, pair(5, 3, gb_per_s=190.0)),
    CopiesCase("a GPU that is slow with everybody", FAIL, each_pair_of(3, gb_per_s=190.0)),
    CopiesCase("noise, all slow", FAIL, together(every_pair(gb_per_s=300.0), pair(5, 3, gb_per_s=295.0))),
    CopiesCase("a pair that fails", FAIL, pair(3, 5, error="cuMemcpyPeerAsync: 719 CUDA_ERROR_LAUNCH_FAILED")),
    CopiesCase("a pair that was not tried", ERROR, pair(3, 5, begun=False, error="no time was left")),
    CopiesCase("a pair that failed once", PASS, pair(3, 5, error="no answer in time"), again=(lambda found: None,)),
    CopiesCase("GPUs that cannot reach each other though the platform joins them", FAIL, NOT_JOINED),
    CopiesCase("a platform that does not join its GPUs", SKIP, every_pair(direct=False, gb_per_s=20.0), limits=NONE),
    CopiesCase("a GPU that took no part", ERROR, dead),
    CopiesCase("a short run", SKIP, no_pairs),
    CopiesCase("one GPU", SKIP, only_one),
)
CASES += of("copies.nvbandwidth")(
    CopiesCase("not installed", SKIP),
    CopiesCase("healthy", PASS, others=(ran_by_others("healthy.json"),)),
    CopiesCase("a slow GPU", FAIL, others=(ran_by_others("slow-gpu.json"),)),
    CopiesCase("wrong data, and every case Passed", FAIL, others=(ran_by_others("wrong-data.json"),)),
    CopiesCase("a case that failed", ERROR, others=(ran_by_others("case-fails.json"),)),
    CopiesCase("no CUDA", ERROR, others=(ran_by_others("no-cuda.json"),)),
)


test_case = asserting(CASES)


@pytest.mark.parametrize(
    ("rate_gb_per_s", "newest", "words"),
    [
        (55.4, 5, "what a Gen5 x16 link gives"),
        (27.0, 5, "what a Gen4 x16 or Gen5 x8 link gives"),
        (26.0, 4, "what a Gen4 x16 link gives"),
        (13.2, 5, "what a Gen3 x16, Gen4 x8 or Gen5 x4 link gives"),
        (12.4, 3, "what a Gen3 x16 link gives"),
        (20.0, 4, "less than a Gen4 x16 link gives"),
        (346.0, 5, "more than PCIe Gen5 x16 can carry"),
        (110.0, 6, "what a Gen6 x16 link gives"),
        (5.0, 0, "more than PCIe Gen1 x16 can carry"),
    ],
)
def test_a_rate_in_the_words_of_pcie(rate_gb_per_s, newest, words):
    assert pcie.link_of(rate_gb_per_s, newest) == words


def test_a_link_that_is_not_known_carries_nothing_that_is_known():
    assert pcie.capacity(5, 8) == pytest.approx(31.5, abs=0.01)
    assert pcie.capacity(9, 16) is None
    assert pcie.capacity(5, 0) is None
