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
    memory,
    of_gpu,
    of_link,
    pair,
    ran_by_others,
    rate,
    together,
)

from nodegate.records.verdict import Verdict
from nodegate.subjects import pcie

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine
    from support.copies import Document

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
GPU3 = "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
NONE = ""
ALL = "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7"
NOT_TOLD = {name: {"why": "not supported", "detail": "NVML 3"} for name in ("link_gen", "link_width")}
AGAIN = "measure this node again; see the evidence file for what the GPU reported"
BEHIND = "look behind the link: the PCIe switch above it, IOMMU and ACS settings, memory channels of its CPU"
LOST = "drain the node; reseat board and riser, test the host's memory, then replace the board"
LOST_BETWEEN = "drain the node; run field diagnostics, then replace boards or baseboard"
LOST_INSIDE = "drain the node; run field diagnostics and replace the board (RMA)"
PATH = "look at the path between them: nvidia-smi topo -m, NVLink errors, the log of nvidia-fabricmanager"
REPLACE = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
RESEAT = "power-cycle the node; if it stays, reseat the board or riser"
FROM_IN = "expected at least 50.41 GB/s (9 % below 55.4 GB/s, h100.yaml memory.host_to_device_gb_per_s: test)"
FROM_OUT = "expected at least 50.14 GB/s (9 % below 55.1 GB/s, h100.yaml memory.device_to_host_gb_per_s: test)"
FROM_PEER = "expected at least 345.9 GB/s (8 % below 376 GB/s, h100.yaml memory.peer_gb_per_s: test)"
SHARED = "look at what GPUs share: PCIe switch uplinks, memory channels, IOMMU and ACS settings"
UNKNOWN = "and the platform is not known"
BY_HAND = "run nvbandwidth on the node by hand and check its output"
GPU0 = "GPU 0 (0000:19:00.0, S/N 1650001000000)"
LOW = FROM_IN.replace("50.41", "50.4")
OLD = "what a Gen3 x16, Gen4 x8 or Gen5 x4 link gives, while the link ran at Gen5 x16"
OF_THE_HOST = "if this host is built so (GCP A2, AWS p4d), give the platform its own limit, else look at its slots"
GEN5 = "what a Gen5 x16 link gives, while the link ran at Gen5 x16"
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


def place(gpu: int, above: list[list[str]]) -> Callable[[Document], object]:
    return lambda found: found["gpus"][gpu]["place"].update(above=above)


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
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: copied device to host, host "
            "to device, both ways, inside the GPU"
        ),
    ),
    CopiesCase(
        "a GPU that never started",
        "copies.complete",
        ERROR,
        f"{GPU3}: could not read copy rates: {CUDA} - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a GPU that stops",
        "copies.complete",
        FAIL,
        (
            f"{GPU3}: stopped responding during copies (after device to host): no answer within 20 s, at "
            f"cuStreamSynchronize - {REPLACE}"
        ),
        stopped,
    ),
    CopiesCase(
        "a GPU that is left out",
        "copies.complete",
        ERROR,
        (f"{GPU3}: took no part in the copies - {AGAIN}"),
        without,
    ),
    CopiesCase(
        "host memory elsewhere is told, and no fault",
        "copies.complete",
        PASS,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): copied device to host, host to device, both ways, "
            "inside the GPU; its host memory may be on another NUMA node (sysfs lists no CPU next to it: '')"
        ),
        of_gpu(0, place={"cpus": "", "numa_node": "", "error": "sysfs lists no CPU next to it: ''"}),
    ),
)
DATA = (
    CopiesCase(
        "healthy",
        "copies.data",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 6 copies of up to 4096 MiB "
            "compared, every word correct"
        ),
    ),
    CopiesCase(
        "a word lost on the way in",
        "copies.data",
        FAIL,
        (
            f"{GPU3}: 3 wrong words of 134217728 copied host to device (first at byte 28): silent data "
            f"corruption - {LOST}"
        ),
        wrong(0, wrong_words=3, first_word=7),
    ),
    CopiesCase(
        "a word lost on the way out",
        "copies.data",
        FAIL,
        (
            f"{GPU3}: 1 wrong word of 134217728 copied device to host with all GPUs at once: silent data "
            f"corruption - {LOST}"
        ),
        wrong(5, what="device_to_host", wrong_words=1, first_word=None),
    ),
    CopiesCase(
        "a word lost inside",
        "copies.data",
        FAIL,
        (
            f"{GPU3}: 1 wrong word of 134217728 copied inside the GPU (first at byte 0): silent data "
            f"corruption - {LOST_INSIDE}"
        ),
        wrong(1, wrong_words=1, first_word=0),
    ),
    CopiesCase(
        "a word lost between two GPUs",
        "copies.data",
        FAIL,
        (
            "GPU 5 to GPU 3 (0000:9d:00.0, S/N 1650001000005): 4 wrong words of 134217728 copied (first at "
            f"byte 8): silent data corruption - {LOST_BETWEEN}"
        ),
        pair(5, 3, wrong_words=4, first_word=2),
    ),
    CopiesCase(
        "wrong once, right when measured again",
        "copies.data",
        FAIL,
        (
            f"{GPU3}: 1 wrong word of 134217728 copied inside the GPU (first at byte 0): silent data "
            f"corruption - {LOST_INSIDE}"
        ),
        wrong(1, wrong_words=1, first_word=0),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "nothing compared",
        "copies.data",
        ERROR,
        f"{GPU3}: could not read comparison of copied data: {CUDA} - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a count that is not told",
        "copies.data",
        ERROR,
        f"{GPU3}: could not read comparison of copied data (host to device): failed - {AGAIN}",
        wrong(0, wrong_words={"why": "failed"}),
    ),
    CopiesCase(
        "a pair whose count is not told",
        "copies.data",
        ERROR,
        (
            "GPU 5 to GPU 3 (0000:9d:00.0, S/N 1650001000005): could not read comparison of copied data: "
            f"failed: expected a whole number, the node sent x - {AGAIN}"
        ),
        pair(5, 3, wrong_words="x"),
    ),
)
IN = (
    CopiesCase(
        "healthy",
        "copies.host_to_device",
        PASS,
        (f"8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: host to device 55.4 GB/s; {GEN5}"),
    ),
    CopiesCase(
        "a link of eight lanes",
        "copies.host_to_device",
        FAIL,
        (
            f"{GPU3}: host to device 27 GB/s, expected at least 50.4 GB/s (9 % below 55.4 GB/s, h100.yaml "
            "memory.host_to_device_gb_per_s: test); 51.3 % below the median 55.4 GB/s of 7 other GPUs of "
            f"this node; what a Gen4 x16 or Gen5 x8 link gives, while the link ran at Gen5 x8 - {RESEAT}"
        ),
        together(rate("host_to_device", 27.0), link(link_width=[8, 8, 8])),
    ),
    CopiesCase(
        "slow behind a whole link",
        "copies.host_to_device",
        FAIL,
        (
            f"{GPU3}: host to device 27 GB/s, expected at least 50.4 GB/s (9 % below 55.4 GB/s, h100.yaml "
            "memory.host_to_device_gb_per_s: test); 51.3 % below the median 55.4 GB/s of 7 other GPUs of "
            f"this node; what a Gen4 x16 or Gen5 x8 link gives, while the link ran at Gen5 x16 - {BEHIND}"
        ),
        rate("host_to_device", 27.0),
    ),
    CopiesCase(
        "slow once",
        "copies.host_to_device",
        PASS,
        (f"8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: host to device 55.4 GB/s; {GEN5}"),
        rate("host_to_device", 27.0),
        again=(lambda found: None, lambda found: None),
    ),
    CopiesCase(
        "slower than the fleet",
        "copies.host_to_device",
        FAIL,
        (
            f"{GPU3}: host to device 51.5 GB/s, expected at least 54 GB/s (the other nodes); 7.0 % below "
            f"the median 55.4 GB/s of 8 other nodes, GPU 3 of each; {GEN5} - {BEHIND}"
        ),
        rate("host_to_device", 51.5),
        nodes=9,
    ),
    CopiesCase(
        "half a link where nothing says what is right",
        "copies.host_to_device",
        WARN,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device 27 GB/s, expected at least 31.5 GB/s "
            "(half of what its Gen5 x16 link carries); what a Gen4 x16 or Gen5 x8 link gives, while the "
            f"link ran at Gen5 x16 - {BEHIND} (and 7 more)"
        ),
        every_gpu("host_to_device", 27.0),
        limits=NONE,
    ),
    CopiesCase(
        "an older platform",
        "copies.host_to_device",
        NOT_JUDGED,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device 26 GB/s; no limit "
            f"memory.host_to_device_gb_per_s, {UNKNOWN}; what a Gen4 x16 link gives, while the link ran at "
            "Gen4 x16 - add a limit for this platform: nodegate baseline learn, or --baseline (and 7 more)"
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
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device 55.4 GB/s; what a Gen5 x16 link gives "
            "(NVML did not read the link)"
        ),
        of_gpu(0, link={"error": "NVML 999"}),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.host_to_device",
        ERROR,
        f"{GPU3}: could not read copy rate (host to device): {CUDA} - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a rate that physics does not allow",
        "copies.host_to_device",
        ERROR,
        (
            f"{GPU3}: could not read host to device: 80 GB/s is more than the 63 GB/s that are possible "
            "(peak of h100.yaml memory.host_to_device_gb_per_s: test): not believed - look at the evidence file and at "
            "the baseline; one of the two is wrong"
        ),
        rate("host_to_device", 80.0),
    ),
)
OUT = (
    CopiesCase(
        "healthy",
        "copies.device_to_host",
        PASS,
        (f"8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: device to host 55.1 GB/s; {GEN5}"),
    ),
    CopiesCase(
        "slow in one direction",
        "copies.device_to_host",
        FAIL,
        (
            f"{GPU3}: device to host 13 GB/s, expected at least 50.1 GB/s (9 % below 55.1 GB/s, h100.yaml "
            "memory.device_to_host_gb_per_s: test); 76.4 % below the median 55.1 GB/s of 7 other GPUs of "
            "this node; what a Gen3 x16, Gen4 x8 or Gen5 x4 link gives, while the link ran at Gen5 x16 - "
            f"{BEHIND}"
        ),
        rate("device_to_host", 13.0),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.device_to_host",
        ERROR,
        f"{GPU3}: could not read copy rate (device to host): {CUDA} - {AGAIN}",
        dead,
    ),
)
TOGETHER = (
    CopiesCase(
        "healthy, in a fleet",
        "copies.host_at_once",
        PASS,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device with all GPUs at once 42 GB/s; median "
            "42 GB/s of 8 other nodes, GPU 0 of each"
        ),
        nodes=9,
    ),
    CopiesCase(
        "a node that is slow at once",
        "copies.host_at_once",
        FAIL,
        (
            f"{GPU3}: host to device with all GPUs at once 20 GB/s, expected at least 41 GB/s (the other "
            f"nodes); 52.4 % below the median 42 GB/s of 8 other nodes, GPU 3 of each - {SHARED}"
        ),
        at_once(20.0, 41.0),
        nodes=9,
    ),
    CopiesCase(
        "no fleet to compare with",
        "copies.host_at_once",
        NOT_JUDGED,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device with all GPUs at once 42 GB/s; no "
            f"limit memory.host_to_device_at_once_gb_per_s, {UNKNOWN} - add a limit for this platform: "
            "nodegate baseline learn, or --baseline (and 15 more)"
        ),
    ),
    CopiesCase(
        "a GPU that shares its uplink, with no fleet to tell",
        "copies.host_at_once",
        NOT_JUDGED,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): host to device with all GPUs at once 42 GB/s; no "
            f"limit memory.host_to_device_at_once_gb_per_s, {UNKNOWN} - add a limit for this platform: "
            "nodegate baseline learn, or --baseline (and 15 more)"
        ),
        at_once(20.0, 41.0),
    ),
    CopiesCase("one GPU", "copies.host_at_once", SKIP, "node: only one GPU", only_one),
    CopiesCase(
        "no rate from one GPU",
        "copies.host_at_once",
        ERROR,
        (f"{GPU3}: could not read copy rate (host to device with all GPUs at once): {CUDA} - {AGAIN} (and 1 more)"),
        dead,
        nodes=9,
    ),
)
BOTH_WAYS = (
    CopiesCase("healthy", "copies.host_both_ways", PASS, f"{ALL}: host copies both ways 94 GB/s"),
    CopiesCase(
        "slow only when both go",
        "copies.host_both_ways",
        FAIL,
        (
            f"{GPU3}: host copies both ways 41 GB/s, expected at least 50.4 GB/s (derived: 40 % of the peak of "
            "h100.yaml memory.host_to_device_gb_per_s: test of 126 GB/s; h100.yaml derived.host_both_ways_percent: "
            f"test); 56.4 % below the median 94 GB/s of 7 other GPUs of this node - {BEHIND}"
        ),
        rate("both_ways", 41.0),
    ),
    CopiesCase(
        "one way in turn on every node",
        "copies.host_both_ways",
        PASS,
        f"{ALL}: host copies both ways 56 GB/s",
        together(*(rate("both_ways", 56.0, gpu=gpu) for gpu in range(8))),
    ),
    CopiesCase(
        "more than the link carries",
        "copies.host_both_ways",
        ERROR,
        (
            f"{GPU3}: could not read host copies both ways: 140 GB/s is more than the 126 GB/s that are possible (peak "
            "of h100.yaml memory.host_to_device_gb_per_s: test): not believed - look at the evidence file and at the "
            "baseline; one of the two is wrong"
        ),
        rate("both_ways", 140.0),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.host_both_ways",
        ERROR,
        f"{GPU3}: could not read copy rate (host copies both ways): {CUDA} - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "left out of a short run",
        "copies.host_both_ways",
        SKIP,
        "node: simultaneous copies in both directions are skipped in a run this short",
        lambda found: found.update(both_ways=False),
    ),
)
GEN3 = ["0000:38:00.0", "8.0 GT/s PCIe", "8.0 GT/s PCIe", "16", "16"]
GEN4 = ["0000:39:00.0", "16.0 GT/s PCIe", "16.0 GT/s PCIe", "16", "16"]
DOWN = ["0000:38:00.0", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "16", "16"]
OLD_RATES = tuple(rate("host_to_device", 12.6, gpu=gpu) for gpu in range(8))
BY_DESIGN = (
    CopiesCase(
        "confidential computing on all GPUs",
        "copies.host_to_device",
        NOT_JUDGED,
        (
            f"{GPU0}: host to device 6.2 GB/s; the baseline is stored for path ce, measured with bounce buffers, "
            f"{UNKNOWN}; what a Gen2 x16, Gen3 x8, Gen4 x4 or Gen5 x2 link gives, while the link ran at Gen5 x16; "
            "confidential computing is on: copies go through encrypted bounce buffers - add a limit for this platform: "
            "nodegate baseline learn, or --baseline (and 7 more)"
        ),
        together(
            *(rate("host_to_device", 6.2, gpu=gpu) for gpu in range(8)),
            *(of_link(gpu, confidential=1) for gpu in range(8)),
        ),
    ),
    CopiesCase(
        "a PCIe Gen3 host under switches of Gen4",
        "copies.host_to_device",
        WARN,
        (
            f"{GPU0}: host to device 12.6 GB/s, {LOW}; {OLD}; the port above it, 0000:38:00.0, has no more than "
            f"Gen3 x16 - {OF_THE_HOST} (and 7 more)"
        ),
        together(*OLD_RATES, *(place(gpu, [GEN4, GEN3]) for gpu in range(8))),
    ),
    CopiesCase(
        "a port that trained down is no design",
        "copies.host_to_device",
        FAIL,
        f"{GPU0}: host to device 12.6 GB/s, {LOW}; {OLD} - {BEHIND} (and 7 more)",
        together(*OLD_RATES, *(place(gpu, [GEN4, DOWN]) for gpu in range(8))),
    ),
    CopiesCase(
        "a virtual machine on such a host",
        "copies.host_to_device",
        WARN,
        (
            f"{GPU0}: host to device 12.6 GB/s, {LOW}; {OLD}; a virtual machine (pass-through) does not show its "
            f"host's PCIe: one of Gen3 gives as much - {OF_THE_HOST} (and 7 more)"
        ),
        together(*OLD_RATES, *(of_link(gpu, virtualization=1) for gpu in range(8))),
    ),
    CopiesCase(
        "one GPU of a virtual machine is slower than the others",
        "copies.host_to_device",
        FAIL,
        (
            f"{GPU3}: host to device 12.6 GB/s, {LOW}; 77.3 % below the median 55.4 GB/s of 7 other GPUs of this "
            f"node; {OLD} - {BEHIND}"
        ),
        together(rate("host_to_device", 12.6), *(of_link(gpu, virtualization=1) for gpu in range(8))),
    ),
    CopiesCase(
        "slower than a Gen3 host can be",
        "copies.host_to_device",
        FAIL,
        (
            f"{GPU0}: host to device 6 GB/s, {LOW}; what a Gen2 x16, Gen3 x8, Gen4 x4 or Gen5 x2 link gives, while "
            f"the link ran at Gen5 x16 - {BEHIND} (and 7 more)"
        ),
        together(
            *(rate("host_to_device", 6.0, gpu=gpu) for gpu in range(8)),
            *(of_link(gpu, virtualization=1) for gpu in range(8)),
        ),
    ),
)
LINK = (
    CopiesCase(
        "healthy",
        "copies.link",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation during copies 5"),
    ),
    CopiesCase(
        "a link that stays at Gen1",
        "copies.link",
        FAIL,
        (f"{GPU3}: PCIe generation during copies 1, expected at least 5 (what the GPU and slot support) - {RESEAT}"),
        link(link_gen=[1, 1, 1]),
    ),
    CopiesCase(
        "a link that was at Gen1 for a moment",
        "copies.link",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation during copies 5"),
        link(link_gen=[1, 5, 5]),
    ),
    CopiesCase(
        "lanes lost at work",
        "copies.link",
        FAIL,
        (f"{GPU3}: PCIe link width during copies 8 lanes, expected at least 16 lanes (before the copies) - {RESEAT}"),
        link(link_width=[8, 8, 16]),
    ),
    CopiesCase(
        "a Gen4 slot",
        "copies.link",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation during copies 4"),
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
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: does not report PCIe "
            "generation during copies (not supported: NVML 3) (and 3 more)"
        ),
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
        "NVML returned no sample",
        "copies.link",
        ERROR,
        (
            f"{GPU3}: could not read PCIe generation during copies: failed: NVML returned no sample during the "
            "copies - see the evidence file for what the node answered (and 3 more)"
        ),
        of_gpu(3, link={"error": "no answer within 20 s"}),
    ),
)
MEMORY = (
    CopiesCase(
        "healthy",
        "copies.device_memory",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: memory bandwidth (copy engine) 2490 GB/s",
    ),
    CopiesCase(
        "a slow memory",
        "copies.device_memory",
        FAIL,
        (
            f"{GPU3}: memory bandwidth (copy engine) 2200 GB/s, expected at least 2341 GB/s (6 % below 2490 GB/s, "
            "h100.yaml memory.device_gb_per_s: test); 11.6 % below the median 2490 GB/s of 7 other GPUs of "
            "this node - compare memory clock and ECC errors with a good GPU; replace the board"
        ),
        rate("device", 1100.0),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.device_memory",
        ERROR,
        f"{GPU3}: could not read memory bandwidth (copy engine): {CUDA} - {AGAIN}",
        dead,
    ),
)
BY_KERNELS = (
    CopiesCase(
        "healthy",
        "copies.memory_bandwidth",
        PASS,
        f"{ALL}: memory bandwidth (read) 3060 GB/s",
    ),
    CopiesCase(
        "a memory that lost a fifth of its rate",
        "copies.memory_bandwidth",
        FAIL,
        (
            f"{GPU3}: memory bandwidth (read) 2480 GB/s, expected at least 2512 GB/s "
            "(derived: 75 % of the peak of h100.yaml memory.device_gb_per_s: test of 3350 GB/s; h100.yaml "
            "derived.memory_kernels_percent: test); 19.0 % below the median 3060 GB/s of 7 other GPUs of this "
            "node - compare memory clock and ECC errors with a good GPU; replace the board (and 2 more)"
        ),
        together(rate("read", 2480.0), rate("copy", 2400.0), rate("triad", 2410.0)),
    ),
    CopiesCase(
        "one kernel far behind",
        "copies.memory_bandwidth",
        FAIL,
        (
            f"{GPU3}: memory bandwidth (triad) 1000 GB/s, expected at least 2512 GB/s "
            "(derived: 75 % of the peak of h100.yaml memory.device_gb_per_s: test of 3350 GB/s; h100.yaml "
            "derived.memory_kernels_percent: test); 66.6 % below the median 2990 GB/s of 7 other GPUs of this "
            "node - compare memory clock and ECC errors with a good GPU; replace the board"
        ),
        rate("triad", 1000.0),
    ),
    CopiesCase(
        "lower than usual, within what good boards give",
        "copies.memory_bandwidth",
        PASS,
        f"{ALL}: memory bandwidth (read) 2900 GB/s",
        together(*(rate(what, 2900.0, gpu=gpu) for what in ("read", "copy", "triad") for gpu in range(8))),
    ),
    CopiesCase(
        "faster than the memory can be",
        "copies.memory_bandwidth",
        ERROR,
        (
            f"{GPU3}: could not read memory bandwidth (read): 3500 GB/s is more than the 3350 GB/s that are possible "
            "(peak of h100.yaml memory.device_gb_per_s: test): not believed - look at the evidence file and at the "
            "baseline; one of the two is wrong"
        ),
        rate("read", 3500.0),
    ),
    CopiesCase(
        "no rate from one GPU",
        "copies.memory_bandwidth",
        ERROR,
        f"{GPU3}: could not read memory bandwidth (read): {CUDA} - {AGAIN} (and 2 more)",
        dead,
    ),
    CopiesCase(
        "recorded by a release without kernels",
        "copies.memory_bandwidth",
        SKIP,
        "node: these copies were made by a release without memory kernels",
        lambda found: found.pop("kernel_bytes"),
    ),
)
WRONG = {"wrong_words": 68, "bits": 64, "wrong": [["addresses", 0x1F4C0D400, 0xF4C0D400, 0xF4C0D440]]}
PATTERNS = (
    CopiesCase(
        "healthy",
        "copies.memory_pattern",
        PASS,
        (f"{ALL}: 68 patterns written to 84 GiB, 98.8 % of its memory, and read back correctly"),
    ),
    CopiesCase(
        "a bit that is always 1",
        "copies.memory_pattern",
        FAIL,
        (
            f"{GPU3}: 68 wrong words in its memory (bit 6): byte 0x1f4c0d400 held 0xf4c0d440 for 0xf4c0d400: silent "
            f"data corruption - {LOST_INSIDE}"
        ),
        memory(**WRONG),
    ),
    CopiesCase(
        "wrong once, right when measured again",
        "copies.memory_pattern",
        FAIL,
        (
            f"{GPU3}: 68 wrong words in its memory (bit 6): byte 0x1f4c0d400 held 0xf4c0d440 for 0xf4c0d400: silent "
            f"data corruption - {LOST_INSIDE}"
        ),
        memory(**WRONG),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "not all patterns within the time",
        "copies.memory_pattern",
        ERROR,
        f"{GPU3}: could not read wrong words: only 12 of 68 patterns were written and checked in time - {AGAIN}",
        memory(passes=12),
    ),
    CopiesCase(
        "all patterns in another attempt",
        "copies.memory_pattern",
        PASS,
        (f"{ALL}: 68 patterns written to 84 GiB, 98.8 % of its memory, and read back correctly"),
        memory(passes=12),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "half of the memory in use",
        "copies.memory_pattern",
        ERROR,
        (
            f"{GPU3}: could not read memory tested: 49.4 % of its memory could be tested, at least 90 % should "
            "(h100.yaml memory.tested_percent: test) - free the GPU's memory, then measure this node again"
        ),
        memory(bytes=42 << 30),
    ),
    CopiesCase(
        "counts that are none",
        "copies.memory_pattern",
        ERROR,
        f"{GPU3}: could not read wrong words: failed: expected a count, the node sent -1 - {AGAIN}",
        memory(wrong_words=-1),
    ),
    CopiesCase(
        "a GPU whose memory was not tested",
        "copies.memory_pattern",
        ERROR,
        f"{GPU3}: could not read test of its memory: {CUDA} - {AGAIN}",
        together(dead, of_gpu(3, memory={})),
    ),
    CopiesCase(
        "left out of a short run",
        "copies.memory_pattern",
        SKIP,
        "node: the whole memory is tested only at delivery",
        lambda found: found.update(pattern_s=0.0),
    ),
)
PEERS = (
    CopiesCase(
        "healthy",
        "copies.peer",
        PASS,
        "2 alike: GPU 0, GPU 1: GPU 0 to GPU 1 376 GB/s",
    ),
    CopiesCase(
        "a bad link shows at both of its ends",
        "copies.peer",
        FAIL,
        (
            f"{GPU3}: GPU 5 to GPU 3 190 GB/s, expected at least 346 GB/s (8 % below 376 GB/s, h100.yaml "
            "memory.peer_gb_per_s: test); 49.5 % below the median 376 GB/s of 7 other GPUs of this node - "
            f"{PATH} (and 1 more)"
        ),
        pair(5, 3, gb_per_s=190.0),
    ),
    CopiesCase(
        "a GPU that is slow with everybody",
        "copies.peer",
        FAIL,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): GPU 0 to GPU 3 190 GB/s, expected at least 346 GB/s "
            "(8 % below 376 GB/s, h100.yaml memory.peer_gb_per_s: test) - GPU 3 gives no partner more than "
            f"190 GB/s: look at its NVLinks first; {RESEAT} (and 7 more)"
        ),
        each_pair_of(3, gb_per_s=190.0),
    ),
    CopiesCase(
        "noise, all slow",
        "copies.peer",
        FAIL,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): GPU 0 to GPU 1 300 GB/s, expected at least 346 GB/s "
            f"(8 % below 376 GB/s, h100.yaml memory.peer_gb_per_s: test) - {PATH} (and 7 more)"
        ),
        together(every_pair(gb_per_s=300.0), pair(5, 3, gb_per_s=295.0)),
    ),
    CopiesCase(
        "a pair that fails",
        "copies.peer",
        FAIL,
        (
            "GPU 3 to GPU 5 (0000:3d:00.0, S/N 1650001000003): copy failed: cuMemcpyPeerAsync: 719 "
            f"CUDA_ERROR_LAUNCH_FAILED - {PATH}"
        ),
        pair(3, 5, error="cuMemcpyPeerAsync: 719 CUDA_ERROR_LAUNCH_FAILED"),
    ),
    CopiesCase(
        "a pair that was not tried",
        "copies.peer",
        ERROR,
        (f"GPU 3 to GPU 5 (0000:3d:00.0, S/N 1650001000003): could not read copy rate: no time was left - {AGAIN}"),
        pair(3, 5, begun=False, error="no time was left"),
    ),
    CopiesCase(
        "a pair that failed once",
        "copies.peer",
        PASS,
        "2 alike: GPU 0, GPU 1: GPU 0 to GPU 1 376 GB/s",
        pair(3, 5, error="no answer in time"),
        again=(lambda found: None,),
    ),
    CopiesCase(
        "GPUs that cannot reach each other though the platform joins them",
        "copies.peer",
        FAIL,
        (
            "GPU 3 to GPU 5 (0000:3d:00.0, S/N 1650001000003): no direct copies: data goes through the "
            f"host's memory - {PATH}"
        ),
        pair(3, 5, direct=False, gb_per_s=20.0),
    ),
    CopiesCase(
        "a platform that does not join its GPUs",
        "copies.peer",
        SKIP,
        "node: no peer access between the GPUs: copies are staged through host memory",
        every_pair(direct=False, gb_per_s=20.0),
        limits=NONE,
    ),
    CopiesCase(
        "a GPU that took no part",
        "copies.peer",
        ERROR,
        f"{GPU3}: could not read copy rate (GPU to GPU): {CUDA} - {AGAIN}",
        dead,
    ),
    CopiesCase(
        "a short run", "copies.peer", SKIP, "node: copies between GPUs are skipped in a run this short", no_pairs
    ),
    CopiesCase("one GPU", "copies.peer", SKIP, "node: only one GPU", only_one),
)
OTHER = (
    CopiesCase(
        "not installed",
        "copies.nvbandwidth",
        SKIP,
        "node: nvbandwidth was not run: it is not installed, or the profile is not delivery",
    ),
    CopiesCase(
        "healthy",
        "copies.nvbandwidth",
        PASS,
        f"4 alike: GPU 0, GPU 1, GPU 2, GPU 3: host to device 55.6 GB/s; {GEN5}",
        others=(ran_by_others("healthy.json"),),
    ),
    CopiesCase(
        "a slow GPU",
        "copies.nvbandwidth",
        FAIL,
        (
            "GPU 2 (0000:3b:00.0, S/N 1650001000002): host to device 27.8 GB/s, expected at least 50.4 "
            "GB/s (9 % below 55.4 GB/s, h100.yaml memory.host_to_device_gb_per_s: test); 50.0 % below the "
            "median 55.6 GB/s of 3 other GPUs of this node; what a Gen4 x16 or Gen5 x8 link gives, while the link "
            f"ran at Gen5 x16 - {BEHIND} (and 5 more)"
        ),
        others=(ran_by_others("slow-gpu.json"),),
    ),
    CopiesCase(
        "wrong data, and every case Passed",
        "copies.nvbandwidth",
        FAIL,
        f"nvbandwidth: copied data wrong at 2 places - {LOST}",
        others=(ran_by_others("wrong-data.json"),),
    ),
    CopiesCase(
        "a case that failed",
        "copies.nvbandwidth",
        ERROR,
        f"nvbandwidth: could not read device_to_device_memcpy_write_ce: it ended as Error - {BY_HAND}",
        others=(ran_by_others("case-fails.json"),),
    ),
    CopiesCase(
        "no CUDA",
        "copies.nvbandwidth",
        ERROR,
        (
            "nvbandwidth: could not read result: nvbandwidth ran no case: [CUDA_ERROR_SYSTEM_NOT_READY] "
            "system not yet initialized in expression cuInit(0) in int main(int, char**)() : "
            "nvbandwidth.cpp:240 - run nvbandwidth -j on the node by hand and check its output"
        ),
        others=(ran_by_others("no-cuda.json"),),
    ),
)
TABLES = (COMPLETE, DATA, IN, OUT, TOGETHER, BOTH_WAYS, BY_DESIGN, LINK, MEMORY, BY_KERNELS, PATTERNS, PEERS, OTHER)


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
