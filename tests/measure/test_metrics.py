"""The numbers that a node's evidence gives, each with its unit and conditions: tests/golden/metrics.txt.

Of the first case of a measurement all are there, of the others those that differ from it and those that it lacks. To
accept other numbers read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from fleet.machine import Machine
from support import burning, copies, nccl
from support.attempts import attempts
from support.copies import copied, each_pair_of, of_gpu, pair, ran_by_others, together

from nodegate.measure.burn import run as burn
from nodegate.measure.copies import result as copies_result
from nodegate.measure.measurement import Measured
from nodegate.measure.nccl.result import parse

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics.txt"
H100 = Machine.hgx_h100()
WHATS = ("all_reduce", "all_reduce ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")


def copied_again():
    slow, good = copies.document(H100), copies.document(H100)
    copies.rate("host_to_device", 27.0, gpu=0)(slow)
    return copies_result.parse(attempts([[copies.ran(slow)], [copies.ran(good)]]))


def burnt_again():
    slow, good = burning.document(H100), burning.document(H100)
    slow["gpus"][0]["phases"][0]["tflops"] = 600.0
    return burn.parse(attempts([[burning.ran(slow)], [burning.ran(good)]]))


def burnt_by_others():
    others = burning.ran_by_others("healthy.txt"), burning.ran_by_others("one-device.txt", "tensor cores")
    return burn.parse(attempts([[burning.ran(burning.document(H100)), *others]]))


def beside(recording, change=lambda found: None):
    return copied(change, ran_by_others(recording))


def swapped(found):
    found["gpus"][0]["pci"], found["gpus"][1]["pci"] = "00000000:1B:00.0", "00000000:19:00.0"


def launched(*several):
    return parse(attempts([[nccl.ran(what, **told) for what in WHATS] for told in several]))


ELSEWHERE = {"cpus": "0-7", "numa_node": "0", "error": "no CPU next to it may be used"}
SLOW, CRASH = {"faults": {"*": "slow"}}, {"faults": {"*": "crash"}}
CASES: Mapping[str, Callable[[], Measured]] = {
    "copies": copied,
    "copies: one pair is slow: the lowest partner of both": lambda: copied(pair(5, 3, gb_per_s=190.0)),
    "copies: pairs through the host and pairs that failed": lambda: copied(
        together(each_pair_of(3, direct=False, gb_per_s=22.0), pair(0, 1, error="cuMemcpyPeerAsync: 719"))
    ),
    "copies: host memory on another NUMA node is another condition": lambda: copied(of_gpu(3, place=ELSEWHERE)),
    "copies: a suspect again": copied_again,
    "copies: nvbandwidth": lambda: beside("slow-gpu.json"),
    "copies: nvbandwidth counts in another order": lambda: beside("slow-gpu.json", swapped),
    "copies: addresses that are not ours: the order of the bus": lambda: beside(
        "slow-gpu.json", of_gpu(2, pci={"why": "failed"})
    ),
    "copies: a case of nvbandwidth failed": lambda: beside("case-fails.json"),
    "burn": lambda: burning.burnt(H100),
    "burn: a suspect again": burnt_again,
    "burn: gpu_burn": burnt_by_others,
    "nccl": lambda: launched({}),
    "nccl: again": lambda: launched(SLOW, {}),
    "nccl: a second attempt that crashed": lambda: launched(SLOW, CRASH),
    "nccl: another NCCL": lambda: launched({}, {"nccl": "2.21.5"}),
}


def lines(found):
    for metric in found.metrics:
        values = ", ".join(f"{value:.6g}" for value in metric.values)
        where = dict(sorted(metric.conditions.items())) | dict(metric.over_runs)
        yield f"{metric.device or 'node'} {metric.name} = {values} {metric.unit} ({metric.better}) {where}"


def test_the_numbers_of_a_node():
    said: list[str] = []
    usual: dict[str, list[str]] = {}
    for name, made in CASES.items():
        found, kind = list(lines(made())), name.partition(":")[0]
        first = usual.setdefault(kind, [])
        whats = {line.partition(" = ")[0] for line in found}
        gone = [line.partition(" = ")[0] for line in first if line.partition(" = ")[0] not in whats]
        said += [f"# {name}", *(line for line in found if line not in first), *(f"no {what}" for what in gone), ""]
        usual[kind] = first or found
    text = "\n".join(said)
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
