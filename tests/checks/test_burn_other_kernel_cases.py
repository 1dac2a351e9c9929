"""Burns by the kernel wgmma that nodegate once had: they are read, and a wrong result by it blames no GPU."""

import json

from fleet.changes import changes
from fleet.machine import Machine
from support.burning import BurnCase, document
from support.cases import ERROR, FAIL, PASS, asserting, of

from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn.run import Burn

PROVEN = {"used": True, "reason": "equal to mma.sync in 200 products of 8192 x 8192", "faster": 1.5}
GAVE_UP = "nodegate_wgmma: -1 gave up waiting for operands"


@changes
def by(found, kernel, *, gpu3=None, **of_phase):
    """A burn by own kernels; something is changed of GPU 3 and of its results in bf16."""
    found.update(path="ptx", library="")
    for gpu in found["gpus"]:
        gpu.update(path="ptx", wgmma=PROVEN)
        for phase in gpu["phases"]:
            phase["kernel"] = kernel if phase["dtype"] == "bf16" else "fma"
    found["gpus"][3].update(gpu3 or {})
    found["gpus"][3]["phases"][0].update(of_phase)


CASES = of("burn.complete")(
    BurnCase("all is right", PASS, by("wgmma")),
    BurnCase("it gave up waiting", ERROR, by("wgmma", gpu3={"error": GAVE_UP})),
)
CASES += of("burn.results")(
    BurnCase("wrong results", ERROR, by("wgmma", mismatches=12, first_mismatch=None)),
    BurnCase("wrong elements in the first result", ERROR, by("wgmma", reference_errors=3)),
    BurnCase("another first result than the others", ERROR, by("wgmma", checksum="0badf00d")),
    BurnCase("wrong with mma.sync: the GPU", FAIL, by("mma.sync", mismatches=12, first_mismatch=None)),
)


test_case = asserting(CASES)


def test_what_it_reached_is_compared_with_nothing_else():
    def burn_of(kernel):
        found = document(Machine.hgx_h100("gpu01"))
        by(kernel)(found)
        return Burn((burn_document.decode(json.dumps(found)),), (), ())

    by_it, by_ours = burn_of("wgmma"), burn_of("mma.sync")
    for name in ("burn.bf16_tflops", "burn.sm_clock_mhz", "burn.power_w"):
        one, other = by_it.named(name)[0], by_ours.named(name)[0]
        assert one.conditions == {**other.conditions, "kernel": "wgmma"}
        assert one.key != other.key
    assert by_it.named("burn.fp32_tflops")[0].key == by_ours.named("burn.fp32_tflops")[0].key
