"""What the burn checks say where the kernel for Hopper multiplied: whose fault a wrong result is, and who used what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.burning import BurnCase, document, judged

from nodegate.baseline.baseline import Baselines
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn.run import Burn
from nodegate.node import Node
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.records.finding import LimitKind
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.burning import Document

H100 = Node("gpu01", expected={"platform": "hgx-h100-8"})
PROVEN = {"used": True, "reason": "equal to mma.sync in 200 products of 8192 x 8192", "faster": 1.5}
NOT_PROVEN = {"used": False, "reason": "slower than mma.sync", "faster": 0.9}
GPU3 = "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
ALL = "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: "
RMA = "take the node out of work; run field diagnostics and replace the board (RMA)"
RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
CUBLAS = (
    "give the burn a cuBLAS (nodegate_cublas or --tools) and burn this node again: what is wrong with it too is the GPU"
)
DOUBT = "by the kernel for Hopper, which too few GPUs of this node show to be right: its fault or the GPU's"
PLACE = {"iteration": 4711, "at_s": 31.2, "row": 17, "column": 4096, "words": 12}
WRONG = "12 wrong results in bf16 (first in product 4711 after 31 s at row 17, column 4096)"
GAVE_UP = "nodegate_wgmma: -1 gave up waiting for operands"


def by_kernel(*wrong: int, kernel: str = "wgmma", of: int = 8, **values: object) -> Callable[[Document], object]:
    """A burn by own kernels; on the GPUs `wrong` something is changed in bf16."""

    def change(found: Document) -> None:
        found.update(path="ptx", library="", gpus=found["gpus"][:of])
        for gpu in found["gpus"]:
            gpu.update(path="ptx", wgmma=PROVEN if kernel == "wgmma" else NOT_PROVEN)
            for phase in gpu["phases"]:
                phase["kernel"] = kernel if phase["dtype"] == "bf16" else "fma"
        for index in wrong:
            found["gpus"][index]["phases"][0].update(values)

    return change


def gave_up(*where: int) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        by_kernel()(found)
        for index in where:
            found["gpus"][index]["error"] = GAVE_UP

    return change


TYPES = "worked to the end of 60 s in bf16, fp32, fp64"
CASES = (
    BurnCase(
        "it was used",
        "burn.complete",
        Verdict.PASS,
        f"{ALL}{TYPES}; bf16 by wgmma (equal to mma.sync in 200 products of 8192 x 8192)",
        by_kernel(),
    ),
    BurnCase(
        "it was not used",
        "burn.complete",
        Verdict.PASS,
        f"{ALL}{TYPES}; bf16 by mma.sync (not wgmma: slower than mma.sync)",
        by_kernel(kernel="mma.sync"),
    ),
    BurnCase(
        "one GPU is wrong and seven are right with it: the GPU",
        "burn.results",
        Verdict.FAIL,
        f"{GPU3}: {WRONG}: silent data corruption - {RMA}",
        by_kernel(3, mismatches=12, first_mismatch=PLACE),
    ),
    BurnCase(
        "six of eight are wrong with it: two show that it is right",
        "burn.results",
        Verdict.FAIL,
        f"GPU 0 (0000:19:00.0, S/N 1650001000000): {WRONG}: silent data corruption - {RMA} (and 5 more)",
        by_kernel(*range(6), mismatches=12, first_mismatch=PLACE),
    ),
    BurnCase(
        "all are wrong with it: nobody knows whose fault it is",
        "burn.results",
        Verdict.ERROR,
        f"GPU 0 (0000:19:00.0, S/N 1650001000000): could not read bf16 result comparison: {WRONG}, {DOUBT} - {CUBLAS} "
        "(and 7 more)",
        by_kernel(*range(8), mismatches=12, first_mismatch=PLACE),
    ),
    BurnCase(
        "all have wrong elements in the first result",
        "burn.results",
        Verdict.ERROR,
        "GPU 0 (0000:19:00.0, S/N 1650001000000): could not read bf16 result comparison: 3 of 32 elements wrong in the "
        f"first bf16 result, {DOUBT} - {CUBLAS} (and 7 more)",
        by_kernel(*range(8), reference_errors=3),
    ),
    BurnCase(
        "wrong with mma.sync: the GPU, whoever else is",
        "burn.results",
        Verdict.FAIL,
        f"GPU 0 (0000:19:00.0, S/N 1650001000000): {WRONG}: silent data corruption - {RMA} (and 7 more)",
        by_kernel(*range(8), kernel="mma.sync", mismatches=12, first_mismatch=PLACE),
    ),
    BurnCase(
        "it gave up on one GPU",
        "burn.complete",
        Verdict.FAIL,
        f"{GPU3}: stopped working under load: {GAVE_UP} - {RESET}",
        gave_up(3),
    ),
    BurnCase(
        "it gave up on all",
        "burn.complete",
        Verdict.ERROR,
        f"GPU 0 (0000:19:00.0, S/N 1650001000000): could not read burn result: {GAVE_UP}, {DOUBT} - {CUBLAS} "
        "(and 7 more)",
        gave_up(*range(8)),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: BurnCase) -> None:
    record = judged(case)
    assert record.message == case.message
    assert record.verdict is case.verdict


def burn_of(change: Callable[[Document], object]) -> Burn:
    found = document(Machine.hgx_h100("gpu01"))
    change(found)
    return Burn((burn_document.decode(json.dumps(found)),), (), ())


def test_what_it_reaches_is_compared_with_nothing_else() -> None:
    by_it, by_other = burn_of(by_kernel()), burn_of(by_kernel(kernel="mma.sync"))
    for name in ("burn.bf16_tflops", "burn.sm_clock_mhz", "burn.power_w"):
        one, other = by_it.named(name)[0], by_other.named(name)[0]
        assert one.conditions == {**other.conditions, "kernel": "wgmma"}
        assert one.key != other.key
    assert by_it.named("burn.fp32_tflops")[0].key == by_other.named("burn.fp32_tflops")[0].key


@pytest.mark.parametrize(("tflops", "verdict"), [(640.0, Verdict.PASS), (250.0, Verdict.FAIL)])
def test_it_is_held_to_the_floor_of_own_kernels_which_proves_nothing(tflops: float, verdict: Verdict) -> None:
    burn = burn_of(by_kernel(*range(8), tflops=tflops))
    baseline = Baselines.read().for_node(H100, None, None)
    rates = [each for each in burn.rates() if each.name == "burn.bf16_tflops"]
    for _, found in assessments(rates, baseline=baseline, peers=Peers.of({}).of_node("gpu01")):
        assert found.verdict is verdict
        assert found.limit is not None
        assert found.limit.kind is LimitKind.FLOOR
