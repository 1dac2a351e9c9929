"""What the checks of copies say of one node with one fault, word for word, and of what only looks faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.copies import (
    ALONE,
    AT_ONCE,
    CopiesCase,
    checks,
    each_pair_of,
    every_pair,
    judged,
    link,
    of_gpu,
    pair,
    ran_by_others,
    rate,
    together,
)

from nodegate.subjects import pcie
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.copies import Document

    from nodegate.demo.machine import Machine

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
GPU3 = "GPU 3 (0000:3d:00.0)"
NONE = ""
NOT_TOLD = {name: {"why": "not supported", "detail": "NVML 3"} for name in ("link_gen", "link_width")}
AGAIN = "measure this node again; see the evidence file for what the GPU said"
BEHIND = "look behind the link: the PCIe switch above it, IOMMU and ACS settings, memory channels of its CPU"
LOST = (
    "take the node out: data is corrupted on the way; reseat board and riser, test the host's memory, replace the board"
)
LOST_BETWEEN = (
    "take the node out: data is corrupted between GPUs; run field diagnostics, then replace boards or baseboard"
)
LOST_INSIDE = "take the node out: this GPU corrupts data; run field diagnostics and replace the board (RMA)"
PATH = "look at the path between them: nvidia-smi topo -m, NVLink errors, the log of nvidia-fabricmanager"
REPLACE = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
RESEAT = "power-cycle the node; if it stays, reseat the board or riser"
FROM_IN = "expected at least 50.41 GB/s (9% from 55.4 GB/s, h100.yaml memory.host_to_device_gb_per_s: test)"
FROM_OUT = "expected at least 50.14 GB/s (9% from 55.1 GB/s, h100.yaml memory.device_to_host_gb_per_s: test)"
FROM_PEER = "expected at least 345.9 GB/s (8% from 376 GB/s, h100.yaml memory.peer_gb_per_s: test)"
SHARED = "look at what GPUs share: PCIe switch uplinks, memory channels, IOMMU and ACS settings"
UNKNOWN = "and the platform is unknown"
BY_HAND = "run nvbandwidth on the node by hand and look at what it says"
GEN5 = "what a Gen5 x16 link gives, and NVML read Gen5 x16 meanwhile"
CUDA = "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_READY"


def dead(found: Document) -> None:
    of_gpu(3, error=CUDA, copies=[], data=[], link={"error": "NVML 15: GPU is lost"})(found)
    found["peers"]["copies"] = [each for each in found["peers"]["copies"] if 3 not in {each["from"], each["to"]}]


def stopped(found: Document) -> None:
    of_gpu(3, error="no answer within 20 s, at cuStreamSynchronize")(found)
    del found["gpus"][3]["copies"][1:], found["gpus"][3]["data"][:]


def without(found: Document) -> None:
    del found["gpus"][3]


def only_one(found: Document) -> None:
    del found["gpus"][1:]
    found["gpus"][0]["copies"] = [each for each in found["gpus"][0]["copies"] if each["when"] == ALONE]
    found["peers"]["copies"] = []


def no_pairs(found: Document) -> None:
    found["peers"] = {"pairs": "none", "copies": []}


def wrong(place: int, **values: object) -> Callable[[Document], object]:
    return lambda found: found["gpus"][3]["data"][place].update(values)


def at_once(*rates: float) -> Callable[[Document], object]:
    return together(rate("host_to_device", rates[0], when=AT_ONCE), rate("device_to_host", rates[1], when=AT_ONCE))


def every_gpu(what: str, gb_per_s: float) -> Callable[[Document], object]:
    return together(*(rate(what, gb_per_s, gpu=gpu) for gpu in range(8)))


def gen4_slot(machine: Machine) -> None:
    for index in range(8):
        machine.set_gpu(index, "link_gen_max", 4)


COMPLETE = (
    CopiesCase(
        "healthy",
        "copies.complete",
        PASS,
        "GPU 0 (0000:19:00.0): copied device to host, host to device, inside (and 7 more)",
    ),
    CopiesCase(
        "a GPU that never started",
        "copies.complete",
        ERROR,
        f"{GPU3}: its part in the copies is unknown ({CUDA}) - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a GPU that stops",
        "copies.complete",
        FAIL,
        (
            f"{GPU3}: stopped answering during copies (after device to host): no answer within 20 s, at "
            f"cuStreamSynchronize - {REPLACE}"
        ),
        stopped,
    ),
    CopiesCase(
        "a GPU that is left out",
        "copies.complete",
        ERROR,
        (f"GPU 3 (0000:3d:00.0, serial 1650001000003): its part in the copies is unknown (it took none) - {AGAIN}"),
        without,
    ),
    CopiesCase(
        "host memory elsewhere is told, and no fault",
        "copies.complete",
        PASS,
        (
            "GPU 0 (0000:19:00.0): copied device to host, host to device, inside; its host memory may lie "
            "on another NUMA node (sysfs lists no CPU beside it: '') (and 7 more)"
        ),
        of_gpu(0, place={"cpus": "", "numa_node": "", "error": "sysfs lists no CPU beside it: ''"}),
    ),
)
DATA = (
    CopiesCase(
        "healthy",
        "copies.data",
        PASS,
        "GPU 0 (0000:19:00.0): 3 copies of 512 MiB compared, every word right (and 8 more)",
    ),
    CopiesCase(
        "a word lost on the way in",
        "copies.data",
        FAIL,
        (f"{GPU3}: host to device, alone: 3 of 134217728 words arrived wrong, the first at byte 28 - {LOST}"),
        wrong(0, wrong_words=3, first_word=7),
    ),
    CopiesCase(
        "a word lost on the way out",
        "copies.data",
        FAIL,
        f"{GPU3}: device to host, at once: 1 of 134217728 words arrived wrong - {LOST}",
        wrong(2, what="device_to_host", wrong_words=1, first_word=None),
    ),
    CopiesCase(
        "a word lost inside",
        "copies.data",
        FAIL,
        f"{GPU3}: inside, alone: 1 of 134217728 words arrived wrong, the first at byte 0 - {LOST_INSIDE}",
        wrong(1, wrong_words=1, first_word=0),
    ),
    CopiesCase(
        "a word lost between two GPUs",
        "copies.data",
        FAIL,
        f"GPU 5 -> GPU 3: 4 of 134217728 words arrived wrong, the first at byte 8 - {LOST_BETWEEN}",
        pair(5, 3, wrong_words=4, first_word=2),
    ),
    CopiesCase(
        "wrong once, right when measured again",
        "copies.data",
        FAIL,
        f"{GPU3}: inside, alone: 1 of 134217728 words arrived wrong, the first at byte 0 - {LOST_INSIDE}",
        wrong(1, wrong_words=1, first_word=0),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "nothing compared", "copies.data", ERROR, f"{GPU3}: whether data arrives is unknown ({CUDA}) - {AGAIN}", dead
    ),
    CopiesCase(
        "a count that is not told",
        "copies.data",
        ERROR,
        f"{GPU3}: whether data arrives (host to device) is unknown (failed) - {AGAIN}",
        wrong(0, wrong_words={"why": "failed"}),
    ),
    CopiesCase(
        "a pair whose count is not told",
        "copies.data",
        ERROR,
        (
            "GPU 5 -> GPU 3: whether data arrives is unknown (failed: expected a whole number, the node "
            f"sent x) - {AGAIN}"
        ),
        pair(5, 3, wrong_words="x"),
    ),
)
IN = (
    CopiesCase(
        "healthy",
        "copies.host_to_device",
        PASS,
        f"GPU 0: host_to_device 55.4 GB/s, expected at least 50.41 GB/s; {GEN5} (and 7 more)",
    ),
    CopiesCase(
        "a link of eight lanes",
        "copies.host_to_device",
        FAIL,
        (
            f"GPU 3: host_to_device 27 GB/s, {FROM_IN}; 51.3 % below the median 55.4 GB/s of 7 other devices "
            f"of this node; what a Gen4 x16 or Gen5 x8 link gives, and NVML read Gen5 x8 meanwhile - {RESEAT}"
        ),
        together(rate("host_to_device", 27.0), link(link_width=[8, 8, 8])),
    ),
    CopiesCase(
        "slow behind a whole link",
        "copies.host_to_device",
        FAIL,
        (
            f"GPU 3: host_to_device 27 GB/s, {FROM_IN}; 51.3 % below the median 55.4 GB/s of 7 other devices "
            "of this node; what a Gen4 x16 or Gen5 x8 link gives, and NVML read Gen5 x16 meanwhile - "
            f"{BEHIND}"
        ),
        rate("host_to_device", 27.0),
    ),
    CopiesCase(
        "slow once",
        "copies.host_to_device",
        PASS,
        f"GPU 0: host_to_device 55.4 GB/s, expected at least 50.41 GB/s; {GEN5} (and 7 more)",
        rate("host_to_device", 27.0),
        again=(lambda found: None, lambda found: None),
    ),
    CopiesCase(
        "slower than the fleet",
        "copies.host_to_device",
        FAIL,
        (
            "GPU 3: host_to_device 51.5 GB/s, 7.0 % below the median 55.4 GB/s of 8 other nodes, GPU 3 of "
            f"each; {GEN5} - {BEHIND}"
        ),
        rate("host_to_device", 51.5),
        nodes=9,
    ),
    CopiesCase(
        "half a link where nothing says what is right",
        "copies.host_to_device",
        WARN,
        (
            "GPU 0: host_to_device 27 GB/s, not judged: no baseline has memory.host_to_device_gb_per_s "
            f"{UNKNOWN}; less than half of what its Gen5 x16 link carries; what a Gen4 x16 or Gen5 x8 link "
            f"gives, and NVML read Gen5 x16 meanwhile - {BEHIND} (and 7 more)"
        ),
        every_gpu("host_to_device", 27.0),
        limits=NONE,
    ),
    CopiesCase(
        "an older platform",
        "copies.host_to_device",
        SKIP,
        (
            "GPU 0: host_to_device 26 GB/s, not judged: no baseline has memory.host_to_device_gb_per_s "
            f"{UNKNOWN}; what a Gen4 x16 link gives, and NVML read Gen4 x16 meanwhile (and 7 more)"
        ),
        together(every_gpu("host_to_device", 26.0), *(link(gpu, link_gen=[4, 4, 4]) for gpu in range(8))),
        machine=gen4_slot,
        limits=NONE,
    ),
    CopiesCase(
        "a link that NVML did not tell",
        "copies.host_to_device",
        PASS,
        (
            "GPU 0: host_to_device 55.4 GB/s, expected at least 50.41 GB/s; what a Gen5 x16 link gives, and "
            "NVML read no link meanwhile (and 7 more)"
        ),
        of_gpu(0, link={"error": "NVML 999"}),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.host_to_device",
        ERROR,
        f"{GPU3}: host_to_device is unknown ({CUDA}) - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a rate that physics does not allow",
        "copies.host_to_device",
        WARN,
        (
            "GPU 3: host_to_device 80 GB/s, too good to be true: physics allows 63 GB/s; more than PCIe "
            f"Gen5 x16 can carry, and NVML read Gen5 x16 meanwhile - {BEHIND}"
        ),
        rate("host_to_device", 80.0),
    ),
)
OUT = (
    CopiesCase(
        "healthy",
        "copies.device_to_host",
        PASS,
        f"GPU 0: device_to_host 55.1 GB/s, expected at least 50.14 GB/s; {GEN5} (and 7 more)",
    ),
    CopiesCase(
        "slow in one direction",
        "copies.device_to_host",
        FAIL,
        (
            f"GPU 3: device_to_host 13 GB/s, {FROM_OUT}; 76.4 % below the median 55.1 GB/s of 7 other "
            "devices of this node; what a Gen3 x16, Gen4 x8 or Gen5 x4 link gives, and NVML read Gen5 x16 "
            f"meanwhile - {BEHIND}"
        ),
        rate("device_to_host", 13.0),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.device_to_host",
        ERROR,
        f"{GPU3}: device_to_host is unknown ({CUDA}) - {AGAIN}",
        dead,
    ),
)
TOGETHER = (
    CopiesCase(
        "healthy, in a fleet",
        "copies.host_at_once",
        PASS,
        "GPU 0: host_to_device_at_once 42 GB/s, 8 other nodes have 42 in the middle (and 15 more)",
        nodes=9,
    ),
    CopiesCase(
        "a node that is slow at once",
        "copies.host_at_once",
        FAIL,
        (
            "GPU 3: host_to_device_at_once 20 GB/s, 52.4 % below the median 42 GB/s of 8 other nodes, GPU 3 "
            f"of each - {SHARED}"
        ),
        at_once(20.0, 41.0),
        nodes=9,
    ),
    CopiesCase(
        "no fleet to compare with",
        "copies.host_at_once",
        SKIP,
        (
            "GPU 0: host_to_device_at_once 42 GB/s, not judged: no baseline has "
            f"memory.host_to_device_at_once_gb_per_s {UNKNOWN} - {SHARED} (and 15 more)"
        ),
    ),
    CopiesCase(
        "a GPU that shares its uplink, with no fleet to tell",
        "copies.host_at_once",
        SKIP,
        (
            "GPU 0: host_to_device_at_once 42 GB/s, not judged: no baseline has "
            f"memory.host_to_device_at_once_gb_per_s {UNKNOWN} - {SHARED} (and 15 more)"
        ),
        at_once(20.0, 41.0),
    ),
    CopiesCase("one GPU", "copies.host_at_once", SKIP, "only one GPU", only_one),
    CopiesCase(
        "no rate from one GPU",
        "copies.host_at_once",
        ERROR,
        f"{GPU3}: host_to_device_at_once is unknown ({CUDA}) - {AGAIN} (and 1 more)",
        dead,
        nodes=9,
    ),
)
LINK = (
    CopiesCase("healthy", "copies.link", PASS, "GPU 0 (0000:19:00.0): PCIe generation during copies 5 (and 31 more)"),
    CopiesCase(
        "a link that stays at Gen1",
        "copies.link",
        FAIL,
        f"{GPU3}: PCIe generation during copies 1, expected at least 5 (GPU and slot have it) - {RESEAT}",
        link(link_gen=[1, 1, 1]),
    ),
    CopiesCase(
        "a link that was at Gen1 for a moment",
        "copies.link",
        PASS,
        "GPU 0 (0000:19:00.0): PCIe generation during copies 5 (and 31 more)",
        link(link_gen=[1, 5, 5]),
    ),
    CopiesCase(
        "lanes lost at work",
        "copies.link",
        FAIL,
        f"{GPU3}: PCIe lanes during copies 8, expected at least 16 (before the copies) - {RESEAT}",
        link(link_width=[8, 8, 16]),
    ),
    CopiesCase(
        "a Gen4 slot",
        "copies.link",
        PASS,
        "GPU 0 (0000:19:00.0): PCIe generation during copies 4 (and 31 more)",
        together(
            *(
                of_gpu(
                    gpu, link={when: {"link_gen": [4, 4, 4], "link_width": [16, 16, 16]} for when in (ALONE, AT_ONCE)}
                )
                for gpu in range(8)
            )
        ),
        machine=gen4_slot,
    ),
    CopiesCase(
        "a link that NVML does not tell",
        "copies.link",
        SKIP,
        ("GPU 0 (0000:19:00.0): PCIe generation during copies is not told here (not supported: NVML 3) (and 31 more)"),
        together(
            *(
                of_gpu(
                    gpu,
                    link={
                        ALONE: {},
                        "unread": NOT_TOLD,
                    },
                )
                for gpu in range(8)
            )
        ),
    ),
    CopiesCase(
        "NVML gave no sample",
        "copies.link",
        ERROR,
        (
            f"{GPU3}: PCIe generation during copies is unknown (failed: NVML gave no sample during the "
            "copies) - see the evidence file for what the node answered (and 3 more)"
        ),
        of_gpu(3, link={"error": "no answer within 20 s"}),
    ),
)
MEMORY = (
    CopiesCase(
        "healthy", "copies.device_memory", PASS, "GPU 0: device 2490 GB/s, expected at least 2341 GB/s (and 7 more)"
    ),
    CopiesCase(
        "a slow memory",
        "copies.device_memory",
        FAIL,
        (
            "GPU 3: device 2200 GB/s, expected at least 2341 GB/s (6% from 2490 GB/s, h100.yaml "
            "memory.device_gb_per_s: test); 11.6 % below the median 2490 GB/s of 7 other devices of this "
            "node - compare memory clock and ECC errors with a good GPU; replace the board"
        ),
        rate("device", 1100.0),
    ),
    CopiesCase(
        "no rate from one GPU", "copies.device_memory", ERROR, f"{GPU3}: device is unknown ({CUDA}) - {AGAIN}", dead
    ),
)
PEERS = (
    CopiesCase(
        "healthy",
        "copies.peer",
        PASS,
        "GPU 0: peer 376 GB/s, expected at least 345.9 GB/s (its lowest: GPU 0 -> GPU 1) (and 7 more)",
    ),
    CopiesCase(
        "a bad link shows at both of its ends",
        "copies.peer",
        FAIL,
        (
            f"GPU 3: peer 190 GB/s, {FROM_PEER}; 49.5 % below the median 376 GB/s of 7 other devices of this "
            f"node (its lowest: GPU 5 -> GPU 3) - {PATH} (and 1 more)"
        ),
        pair(5, 3, gb_per_s=190.0),
    ),
    CopiesCase(
        "a GPU that is slow with everybody",
        "copies.peer",
        FAIL,
        (
            f"GPU 0: peer 190 GB/s, {FROM_PEER} (its lowest: GPU 0 -> GPU 3) - GPU 3 gives no partner more "
            f"than 190 GB/s: look at its NVLinks first; {RESEAT} (and 7 more)"
        ),
        each_pair_of(3, gb_per_s=190.0),
    ),
    CopiesCase(
        "noise, all slow",
        "copies.peer",
        FAIL,
        f"GPU 0: peer 300 GB/s, {FROM_PEER} (its lowest: GPU 0 -> GPU 1) - {PATH} (and 7 more)",
        together(every_pair(gb_per_s=300.0), pair(5, 3, gb_per_s=295.0)),
    ),
    CopiesCase(
        "a pair that fails",
        "copies.peer",
        FAIL,
        f"GPU 3 -> GPU 5: the copy failed: cuMemcpyPeerAsync: 719 CUDA_ERROR_LAUNCH_FAILED - {PATH}",
        pair(3, 5, error="cuMemcpyPeerAsync: 719 CUDA_ERROR_LAUNCH_FAILED"),
    ),
    CopiesCase(
        "a pair that was not tried",
        "copies.peer",
        ERROR,
        f"GPU 3 -> GPU 5: peer is unknown (no time was left) - {AGAIN}",
        pair(3, 5, begun=False, error="no time was left"),
    ),
    CopiesCase(
        "a pair that failed once",
        "copies.peer",
        PASS,
        "GPU 0: peer 376 GB/s, expected at least 345.9 GB/s (its lowest: GPU 0 -> GPU 1) (and 7 more)",
        pair(3, 5, error="no answer in time"),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "GPUs that cannot reach each other though the platform joins them",
        "copies.peer",
        FAIL,
        f"GPU 3 -> GPU 5: copies go through the host's memory: the GPUs cannot reach each other - {PATH}",
        pair(3, 5, direct=False, gb_per_s=20.0),
    ),
    CopiesCase(
        "a platform that does not join its GPUs",
        "copies.peer",
        SKIP,
        "no GPU of this node reaches another directly: copies go through the host's memory",
        every_pair(direct=False, gb_per_s=20.0),
        limits=NONE,
    ),
    CopiesCase("a GPU that took no part", "copies.peer", ERROR, f"{GPU3}: peer is unknown ({CUDA}) - {AGAIN}", dead),
    CopiesCase("a short run", "copies.peer", SKIP, "copies between GPUs are left out in a run this short", no_pairs),
    CopiesCase("one GPU", "copies.peer", SKIP, "only one GPU", only_one),
)
OTHER = (
    CopiesCase(
        "not installed",
        "copies.nvbandwidth",
        SKIP,
        "nvbandwidth was not run: it is not installed here, or this is no delivery",
    ),
    CopiesCase(
        "healthy",
        "copies.nvbandwidth",
        PASS,
        "GPU 0: host_to_device 55.6 GB/s, expected at least 50.41 GB/s (and 11 more)",
        others=(ran_by_others("healthy.json"),),
    ),
    CopiesCase(
        "a slow GPU",
        "copies.nvbandwidth",
        FAIL,
        (
            f"GPU 2: host_to_device 27.8 GB/s, {FROM_IN}; 50.0 % below the median 55.6 GB/s of 3 other "
            f"devices of this node - {RESEAT} (and 5 more)"
        ),
        others=(ran_by_others("slow-gpu.json"),),
    ),
    CopiesCase(
        "wrong data, and every case Passed",
        "copies.nvbandwidth",
        FAIL,
        f"nvbandwidth: data arrived wrong at 2 places - {LOST}",
        others=(ran_by_others("wrong-data.json"),),
    ),
    CopiesCase(
        "a case that failed",
        "copies.nvbandwidth",
        ERROR,
        f"nvbandwidth: device_to_device_memcpy_write_ce is unknown (it ended as Error) - {BY_HAND}",
        others=(ran_by_others("case-fails.json"),),
    ),
    CopiesCase(
        "no CUDA",
        "copies.nvbandwidth",
        ERROR,
        (
            "nvbandwidth: its result is unknown (nvbandwidth ran no case: [CUDA_ERROR_SYSTEM_NOT_READY] "
            "system not yet initialized in expression cuInit(0) in int main(int, char**)() : "
            "nvbandwidth.cpp:240) - run nvbandwidth -j on the node by hand and look at what it says"
        ),
        others=(ran_by_others("no-cuda.json"),),
    ),
)
TABLES = (COMPLETE, DATA, IN, OUT, TOGETHER, LINK, MEMORY, PEERS, OTHER)


@pytest.mark.parametrize("case", [case for table in TABLES for case in table], ids=str)
def test_case(case: CopiesCase) -> None:
    record = judged(case)
    assert record.message == case.message
    assert record.verdict is case.verdict
    for finding in record.findings:
        if finding.verdict in (WARN, FAIL, ERROR):
            assert finding.message.endswith(f" - {finding.action}")
            assert finding.action


def test_each_check_has_a_case_that_passes_one_that_is_bad_and_one_that_cannot_be_judged() -> None:
    for check in checks():
        tried = {case.verdict for table in TABLES for case in table if case.check == check}
        assert {PASS, ERROR} <= tried, check
        assert tried & {WARN, FAIL}, check


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
def test_a_rate_in_the_words_of_pcie(rate_gb_per_s: float, newest: int, words: str) -> None:
    assert pcie.link_of(rate_gb_per_s, newest) == words


def test_a_link_that_is_not_known_carries_nothing_that_is_known() -> None:
    assert pcie.capacity(5, 8) == pytest.approx(31.5, abs=0.01)
    assert pcie.capacity(9, 16) is None
    assert pcie.capacity(5, 0) is None
