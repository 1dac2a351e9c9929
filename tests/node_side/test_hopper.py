"""Our kernel for Hopper: the assembler takes it, it computes what it should, and what is wrong in it is seen."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.cuda import ptxas
from support.hopper_machine import HopperMachine
from support.ptx_machine import to_bf16

from nodegate.node_side.load import hopper, operands

if TYPE_CHECKING:
    from pathlib import Path

TEXT = hopper.product()
SEEDS = (operands.SEED_LEFT, operands.SEED_RIGHT)


def run(
    text: str = TEXT,
    *,
    n: int = 256,
    block: int = 0,
    blocks: int = 1,
    arrival: str = "mixed",
    seed: int = 0,
    swizzle: int | None = None,
) -> tuple[Any, Any, int]:
    """(the result, what it must be, the marker); elements that the block does not compute are NaN in the result."""
    rows = [np.array([operands.row("bf16", row, n, which, operands.EXACT) for row in range(n)]) for which in SEEDS]
    raw = [(each.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes() for each in rows]
    size = len(raw[0])
    memory = bytearray(raw[0] + raw[1] + b"\xff" * size + bytes(16))
    left, right = hopper.maps(0, size, n)
    if swizzle is not None:
        left, right = left._replace(swizzle=swizzle), right._replace(swizzle=swizzle)
    params = {
        "p_a": left,
        "p_b": right,
        "p_c": 2 * size,
        "p_n": n,
        "p_group": hopper.rows_together(n),
        "p_marker": 3 * size,
    }
    with np.errstate(all="ignore"):
        machine = HopperMachine(text, memory, arrival=arrival, seed=seed)
        machine.multiply(hopper.KERNEL, block, blocks, params, shared=hopper.SHARED)
    assert memory[: 2 * size] == raw[0] + raw[1]
    found = np.frombuffer(bytes(memory[2 * size : 3 * size]), np.uint16).reshape(n, n)
    exact = to_bf16((rows[0] @ rows[1].T).astype(np.float32)).reshape(n, n)
    return found, exact, int.from_bytes(memory[3 * size : 3 * size + 4], "little")


def assemble(text: str, folder: Path) -> str:
    source = folder / "kernel.ptx"
    source.write_text(text)
    argv = [ptxas(), "-v", "-arch", "sm_90a", "-o", "/dev/null", str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.skipif(not ptxas(), reason="no ptxas here (package nvidia-cuda-nvcc-cu12)")
def test_the_assembler_takes_it_without_spills_and_lets_multiplications_overlap(tmp_path: Path) -> None:
    said = assemble(TEXT, tmp_path)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
    registers = int(re.findall(r"Used (\d+) registers", said)[0])
    assert registers * hopper.THREADS <= 65536
    assert not re.search("serialized|injected", said)
    assert "injected" in assemble(TEXT.replace("  wgmma.fence.sync.aligned;\n", ""), tmp_path)


def test_a_block_has_the_shared_memory_that_hopper_gives() -> None:
    assert hopper.SHARED <= 232448  # CUDA programming guide, compute capability 9.0


@pytest.mark.parametrize("arrival", ["late", "early", "mixed"])
def test_two_tiles_one_after_the_other_are_the_product(arrival: str) -> None:
    found, exact, marker = run(arrival=arrival, seed=3)
    assert (found == exact).all()
    assert marker == 0


def test_a_block_computes_every_so_many_tiles_and_writes_nothing_else() -> None:
    n, blocks, block = 512, 3, 1
    found, exact, marker = run(n=n, block=block, blocks=blocks)
    mine = np.zeros((n, n), bool)
    for tile in range(block, 8, blocks):  # a group has all four rows of tiles: down, then to the right
        row, column = tile % 4 * hopper.ROWS, tile // 4 * hopper.COLUMNS
        mine[row : row + hopper.ROWS, column : column + hopper.COLUMNS] = True
    assert (found == exact)[mine].all()
    assert (found[~mine] == 0xFFFF).all()
    assert marker == 0


@pytest.mark.parametrize(("n", "multiprocessors"), [(256, 132), (512, 3), (8192, 132), (8192, 114), (2304, 132)])
def test_the_blocks_of_a_grid_have_every_tile_once(n: int, multiprocessors: int) -> None:
    tiles, group = n // hopper.ROWS * (n // hopper.COLUMNS), hopper.rows_together(n)
    blocks, one = hopper.grid(n, multiprocessors)
    assert one == 1
    assert blocks <= min(multiprocessors, tiles)
    per_group = group * (n // hopper.COLUMNS)
    done = [
        (tile // per_group * group + tile % per_group % group, tile % per_group // group)
        for block in range(blocks)
        for tile in range(block, tiles, blocks)
    ]
    assert sorted(done) == [(row, column) for row in range(n // hopper.ROWS) for column in range(n // hopper.COLUMNS)]


def test_the_operands_of_the_proof_are_exact_in_every_order() -> None:
    values = np.array(operands.row("bf16", 5, 8192, SEEDS[0], operands.EXACT))
    assert (values * 8 == np.round(values * 8)).all()
    assert np.abs(values).max() == 1.75
    assert len(set(values.tolist())) == 16
    assert 64 * 1.75**2 * 85_598 <= 2**24


MISTAKES = {
    "the parity of the producer": ("mov.u32 %parity, 1;", "mov.u32 %parity, 0;"),
    "the parity of the consumers": ("mov.u32 %parity, 0;", "mov.u32 %parity, 1;"),
    "the parity after a round": ("  @%wrap xor.b32 %parity, %parity, 1;\n", ""),
    "too few bytes": ("b64 _, [%bar], 49152;", "b64 _, [%bar], 32768;"),
    "too many bytes": ("b64 _, [%bar], 49152;", "b64 _, [%bar], 65536;"),
    "stages too near": ("mad.lo.u32 %at, %slot, 49152,", "mad.lo.u32 %at, %slot, 32768,"),
    "B over A": ("add.u32 %at, %at, 16384;", "add.u32 %at, %at, 8192;"),
    "too few arrivals": ("[%empty+8], 8;", "[%empty+8], 2;"),
    "too many arrivals": ("[%empty+8], 8;", "[%empty+8], 9;"),
    "a stage given away too early": ("wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"),
    "sums read too early": ("wait_group.sync.aligned 0;\n  @", "wait_group.sync.aligned 1;\n  @"),
    "no fence for the sums": ("  wgmma.fence.sync.aligned;\n", ""),
    "no fence for the barriers": ("  fence.mbarrier_init.release.cluster;\n", ""),
    "no barrier after their start": ("  bar.sync 0;\n", ""),
    "no group": ("  wgmma.commit_group.sync.aligned;\n", ""),
    "the stride of eight rows": ("0x4000004000010000", "0x4000002000010000"),
    "the swizzle of the descriptor": ("0x4000004000010000", "0x8000004000010000"),
    "no swizzle in the descriptor": ("0x4000004000010000", "0x0000004000010000"),
    "the next of k": ("add.u64 %x, %x, 2;", "add.u64 %x, %x, 4;"),
    "the next of k in one only": ("add.u64 %y, %y, 2;", "add.u64 %y, %y, 0;"),
    "the rows of a warpgroup": ("mad.lo.u32 %u, %u, 8192, %base;", "mad.lo.u32 %u, %u, 0, %base;"),
    "sums of the tile before": ("%x, %y, %keep,", "%x, %y, %always,"),
    "a sum too few": ("%x, %y, %always,", "%x, %y, %keep,"),
    "the order of two columns": ("%u, %c1, %c0;", "%u, %c0, %c1;"),
    "the rows of a warp": ("mad.lo.u32 %row, %warp, 16, %row;", "mad.lo.u32 %row, %warp, 8, %row;"),
    "the ring not aligned": ("add.u32 %base, %base, 1023;", "add.u32 %base, %base, 0;"),
    "the next step of k": ("add.u32 %k, %k, 64;", "add.u32 %k, %k, 128;"),
    "the wrong operand": ("[%map_b, {%k, %column}]", "[%map_a, {%k, %column}]"),
    "an operand that stays": ("[%map_b, {%k, %column}]", "[%map_b, {%k, %row}]"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_it_is_seen(what: str) -> None:
    right, wrong = MISTAKES[what]
    assert right in TEXT
    text = TEXT.replace(right, wrong).replace(f"%tries, {hopper.TRIES};", "%tries, 5;")
    assert any(_is_seen(text, arrival) for arrival in ("mixed", "early", "late"))


def _is_seen(text: str, arrival: str) -> bool:
    try:
        found, exact, marker = run(text, arrival=arrival)
    except (AssertionError, KeyError, IndexError):
        return True
    return marker > 0 or not (found == exact).all()


def test_a_swizzle_that_only_the_copies_lack_is_seen() -> None:
    found, exact, _ = run(swizzle=0)
    assert not (found == exact).all()


@pytest.mark.parametrize(
    ("what", "marker"), [(("[%empty+8], 8;", "[%empty+8], 9;"), 1), (("[%bar], 49152;", "[%bar], 65536;"), 2)]
)
def test_whoever_waits_in_vain_gives_up_and_says_for_what(what: tuple[str, str], marker: int) -> None:
    text = TEXT.replace(*what).replace(f"%tries, {hopper.TRIES};", "%tries, 5;")
    assert run(text)[2] & marker
    assert marker in hopper.GIVEN_UP
