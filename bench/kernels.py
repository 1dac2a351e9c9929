"""What nodegate's own kernels are made of, and how fast they can be: from the machine code of their inner loops.

    python -m bench.kernels --nvdisasm PATH        # writes the table of docs/reference/kernels.md

ptxas is in the test group (nvidia-cuda-nvcc-cu12). nvdisasm is in the CUDA toolkit, and in the wheel of triton:
`pip download --no-deps triton`, then unzip triton/backends/nvidia/bin/nvdisasm.

A multiprocessor has four schedulers, each starts one instruction of a warp a cycle. The bound of a loop is the longest
of: its instructions, its multiplications, its bytes of shared memory (128 a cycle). It leaves out waiting.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from nodegate.node_side.load import products, ptx
from tests.support.cuda import ptxas

SCHEDULERS, WARPS = 4, ptx.THREADS // 32
SHARED_BYTES = 128  # a cycle and multiprocessor
# k of one round of the loop: 64 bytes of a row, or 8 columns.
DEPTH = {dtype: 64 // size if dtype == products.TENSOR else 8 for dtype, size in products.BYTES.items()}
# Bytes of shared memory of an instruction of a warp.
_BYTES = (("LDSM.16.M88.4", 512), ("LDS.128", 512), ("LDGSTS.E.BYPASS.128", 512), ("STS.64", 256), ("STS", 128))
_INSTRUCTION = re.compile(r"\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)")
_MULTIPLIES = re.compile(r"HMMA|FFMA|DFMA")


@dataclass(frozen=True)
class Board:
    """A board under load: its multiprocessors and clock, and its multiplications (FMA) a cycle and multiprocessor."""

    name: str
    architecture: str
    multiprocessors: int
    ghz: float
    fma: dict[str, float]


# FMA a cycle: data sheet TFLOPS / (2 x multiprocessors x boost clock). mma.sync on Hopper reaches 63 %
# of wgmma (arXiv 2402.13499). B200: mma.sync 381 TFLOPS in FlashAttention 2 (Dao-AILab/flash-attention issue 1589).
BOARDS = (
    Board("A100 SXM", "sm_80", 108, 1.30, {"bf16": 1024, "fp32": 64, "fp64": 32}),
    Board("L40S", "sm_89", 142, 1.90, {"bf16": 512, "fp32": 128, "fp64": 2}),
    Board("H100 SXM", "sm_90", 132, 1.60, {"bf16": 1290, "fp32": 128, "fp64": 64}),
    Board("B200", "sm_100", 148, 1.80, {"bf16": 1024, "fp32": 128, "fp64": 64}),
    Board("RTX PRO 6000", "sm_120", 188, 2.20, {"bf16": 512, "fp32": 128, "fp64": 2}),
)


def loop_of(dtype: str, architecture: str, nvdisasm: str) -> Counter[str]:
    """The instructions of a kernel's inner loop, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(products.product(dtype))
        subprocess.run([ptxas(), "-arch", architecture, "-o", code, source], check=True)
        listed = subprocess.run([nvdisasm, "-c", code], capture_output=True, text=True, check=True).stdout
    lines = listed.splitlines()
    labels = {line.strip()[:-1]: at for at, line in enumerate(lines) if re.fullmatch(r"\s*\.L_x_\d+:\s*", line)}
    loops: list[Counter[str]] = []
    for at, line in enumerate(lines):
        target = re.search(r"\bBRA(?:\.\w+)*\s.*`\((\.L_x_\d+)\)", line)
        if target and labels.get(target[1], at) < at:
            body = (_INSTRUCTION.search(each) for each in lines[labels[target[1]] : at + 1])
            loops.append(Counter(each[1] for each in body if each))
    return max(loops, key=lambda each: sum(count for name, count in each.items() if _MULTIPLIES.match(name)))


def bounds(dtype: str, found: Counter[str], board: Board) -> dict[str, float]:
    """Cycles of one round of the loop of a block, by what takes them."""
    rows, columns = products.tile(dtype)
    shared = sum(count * _bytes(name) for name, count in found.items()) * WARPS
    return {
        "instructions": found.total() * WARPS / SCHEDULERS,
        "multiplications": rows * columns * DEPTH[dtype] / board.fma[dtype],
        "shared memory": shared / SHARED_BYTES,
    }


def _bytes(instruction: str) -> int:
    return next((size for name, size in _BYTES if instruction.startswith(name)), 0)


def row(dtype: str, board: Board, nvdisasm: str) -> str:
    """One line of the table."""
    found = loop_of(dtype, board.architecture, nvdisasm)
    cycles = bounds(dtype, found, board)
    what = max(cycles, key=lambda each: cycles[each])
    rows, columns = products.tile(dtype)
    tflops = 2e-3 * rows * columns * DEPTH[dtype] / cycles[what] * board.multiprocessors * board.ghz
    multiplies = sum(count for name, count in found.items() if _MULTIPLIES.match(name))
    each = " | ".join(f"{value:.0f}" for value in cycles.values())
    whose = f"{dtype} | {board.name} ({board.architecture}) | {multiplies} of {found.total()}"
    return f"| {whose} | {each} | {what} | {tflops:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="what bounds nodegate's own kernels")
    parser.add_argument("--nvdisasm", default="nvdisasm", help="NVIDIA's disassembler")
    nvdisasm = parser.parse_args().nvdisasm
    print("| type | board | multiply | instructions | multiplications | shared memory | bound by | TFLOPS at most |")
    print("|---|---|---|---|---|---|---|---|")
    for dtype in ("bf16", "fp32", "fp64"):
        for board in BOARDS:
            if dtype in board.fma:
                print(row(dtype, board, nvdisasm))


if __name__ == "__main__":
    main()
