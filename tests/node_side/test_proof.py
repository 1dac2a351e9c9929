"""The kernel for Hopper is used where it proved itself on the board, and nowhere else; a burn never suffers from it."""

from __future__ import annotations

import array
import itertools
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from support import cuda

from lab.nvml.scenario import Scenario, healthy_h100
from nodegate.node_side.load import proof

if TYPE_CHECKING:
    from pathlib import Path

ENCODE = "cuTensorMapEncodeTiled"


def burnt(scenario: Scenario, folder: Path, **options: Any) -> list[dict[str, Any]]:
    document = cuda.burn(scenario, folder, **options)
    assert document["path"] == "ptx"
    for gpu in document["gpus"]:
        assert gpu["error"] == ""
        assert [each["reference_errors"] for each in gpu["phases"]] == [0] * len(gpu["phases"])
        assert [each["mismatches"] for each in gpu["phases"]] == [0] * len(gpu["phases"])
    gpus: list[dict[str, Any]] = document["gpus"]
    return gpus


def test_a_board_on_which_it_is_right_is_burned_with_it(tmp_path: Path) -> None:
    scenario = healthy_h100(2).set(None, "cuda.product_s.wgmma", 0.025)
    gpus = burnt(scenario, tmp_path, phases=[["bf16", 1], ["fp32", 1]])
    for gpu in gpus:
        assert [each["kernel"] for each in gpu["phases"]] == ["wgmma", "fma"]
        assert gpu["wgmma"] == {
            "used": True,
            "reason": f"equal to mma.sync in {proof.PRODUCTS} products of 256 x 256",
            "faster": 2.0,
        }
    assert gpus[0]["phases"][0]["tflops"] == pytest.approx(2e-12 * 256**3 / 0.025, rel=1e-3)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("cuda.wrong.wgmma", 1, "200 words of 200 products differ from mma.sync's, the first at row 3, column 4"),
        ("cuda.marker.wgmma", 2, "nodegate_wgmma: -1 gave up waiting for operands"),
        ("cuda.marker.wgmma", 3, "nodegate_wgmma: -1 gave up waiting for a free stage and operands"),
        ("cuda.sticky.wgmma", 700, "cuEventRecord: 700 CUDA_ERROR_ILLEGAL_ADDRESS"),
        (f"cuda.error.{ENCODE}", 801, f"{ENCODE}: 801 unknown error"),
        (f"cuda.crash.{ENCODE}", 1, f"ended by SIGSEGV, at {ENCODE}"),
        ("cuda.product_s.wgmma", 0.06, "slower than mma.sync"),
    ],
)
def test_where_it_is_not_right_mma_sync_burns_and_it_is_said_why(
    key: str, value: float, why: str, tmp_path: Path
) -> None:
    gpus = burnt(healthy_h100(3).set(1, key, value), tmp_path)
    assert [gpu["phases"][0]["kernel"] for gpu in gpus] == ["mma.sync"] * 3
    assert not any(gpu["wgmma"]["used"] for gpu in gpus)
    assert gpus[1]["wgmma"]["reason"] == why
    others = {gpus[0]["wgmma"]["reason"], gpus[2]["wgmma"]["reason"]}
    assert others == {"as GPU 1, which cannot use it: GPUs of a node are compared"}


def test_so_many_wrong_words_that_their_count_is_zero_again_are_wrong() -> None:
    """2**25 words of a product, 128 products: 2**32."""
    api = MagicMock(**{"memory.return_value": (1 << 40, 1 << 40), "attribute.return_value": 132})
    api.allocate.side_effect = itertools.count(1 << 20, 1 << 20)
    api.elapsed_s.side_effect = [2.0, 1.0]
    api.read.side_effect = lambda _, size: array.array("I", [0, 7] if size == 8 else [0]).tobytes()
    found = proof._proven(api, 0, proof.Job("GPU-1", "0000:18:00.0", 8192, 0.9, 30.0))
    assert (found["used"], "differ from mma.sync's" in str(found["reason"])) == (False, True)


def test_a_proof_that_hangs_costs_its_time_and_no_burn(tmp_path: Path) -> None:
    scenario = healthy_h100(1).set(0, f"cuda.hang.{ENCODE}", 1)
    gpu = burnt(scenario, tmp_path, start_limit_s=20.0)[0]
    assert gpu["phases"][0]["kernel"] == "mma.sync"
    assert gpu["wgmma"] == {"used": False, "reason": f"no answer within 5 s, at {ENCODE}"}


@pytest.mark.parametrize("capability", ["8.0", "8.9", "10.0", "12.0"])
def test_on_other_boards_there_is_no_choice(capability: str, tmp_path: Path) -> None:
    gpu = burnt(healthy_h100(1).set(0, "compute_capability", capability), tmp_path)[0]
    assert gpu["wgmma"] == {}
    assert gpu["phases"][0]["kernel"] == "mma.sync"


def test_where_bf16_is_not_burned_nothing_is_proven(tmp_path: Path) -> None:
    gpu = burnt(healthy_h100(1), tmp_path, phases=[["fp32", 1]])[0]
    assert gpu["wgmma"] == {}


def test_a_board_that_computes_wrong_with_both_is_found_by_the_host(tmp_path: Path) -> None:
    document = cuda.burn(healthy_h100(1).set(0, "cuda.wrong", 1), tmp_path)
    phase = document["gpus"][0]["phases"][0]
    assert phase["kernel"] == "wgmma"  # equal to mma.sync, which is as wrong
    assert phase["checksum"] != cuda.burn(healthy_h100(1), tmp_path)["gpus"][0]["phases"][0]["checksum"]


def test_gpus_whose_bits_are_compared_anew_use_the_older_kernel(tmp_path: Path) -> None:
    blas = str(cuda.library().with_name("libcublas.so.12"))
    scenario = healthy_h100(3).set(1, "cuda.wrong.cublas", 1)
    document = cuda.burn(scenario, tmp_path, path="cublas", library=blas)
    assert [gpu["phases"][0]["kernel"] for gpu in document["gpus"]] == [""] * 3
    assert [gpu["phases"][0]["kernel"] for gpu in document["again"]] == ["mma.sync"] * 3
