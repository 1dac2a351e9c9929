"""The product of bf16 matrices for Hopper (compute capability 9.0 alone): wgmma, fed by the tensor memory accelerator.

C[i][j] = sum over k of A[i][k] * B[j][k], as in node_side/load/ptx.py. A block computes tiles of 128 x 256, one after
the other. Its ninth warp is the producer: one thread of it lets the accelerator (cp.async.bulk.tensor) bring 64 columns
of k of A and of B into a stage of a ring of four in shared memory, every row of 128 bytes swizzled. Two warpgroups are
the consumers: each multiplies 64 rows by all 256 columns, with its sums in 128 registers a thread.

A stage has two barriers. `full`: the producer says how many bytes come, the accelerator counts them. `empty`: each of
the eight warps arrives once its multiplications from that stage are done. The stages go on over the tiles: while the
consumers write a tile, the next one is on its way.

No wait is without end: a thread that waits for a barrier longer than any copy takes writes to `marker` why it gave up,
and ends. So a mistake here cannot hang a GPU. Nor is a GPU blamed for one: node_side/load/proof.py has the kernel
compute what ptx.py's computes, on the very board and in a process of its own, before a burn uses it.

Verified (tests/node_side/test_hopper.py): ptxas, and an interpreter that knows wgmma's descriptors and registers, the
swizzle, barriers with their phases and bytes, and what each warp may rely on. Not verified: no GPU has run it.
"""

from typing import List, NamedTuple, Tuple

KERNEL = "nodegate_wgmma"
CAPABILITY = (9, 0)
DTYPE = "bf16"
THREADS = 288  # two warpgroups that multiply, a warp that fetches
ROWS, COLUMNS, DEPTH = 128, 256, 64  # a tile; the elements of k in a stage: 128 bytes, as wide as the swizzle
STAGES = 4
GIVEN_UP = {1: "a free stage", 2: "operands"}  # marker -> what was waited for too long

_SIZE = 2  # bytes of an element
_A_BYTES, _B_BYTES = ROWS * DEPTH * _SIZE, COLUMNS * DEPTH * _SIZE
_STAGE = _A_BYTES + _B_BYTES
_RING = STAGES * _STAGE
_ALIGN = 1024  # the swizzle repeats after 8 rows of 128 bytes
SHARED = _RING + _ALIGN + 2 * 8 * STAGES
_WARPS, _PRODUCER = 8, 8  # that arrive at `empty`; the number of the one that fetches
TRIES = 200_000  # of at most 10 us: 2 s; of at least some 20 ns: 4 ms, where a copy takes 2 us
_HINT_NS = 10_000
_GROUP = 16  # rows of tiles that are done together: blocks at work share what they read

# A descriptor of a matrix in shared memory (PTX ISA, "Matrix Descriptor Format"), without its address: the leading
# offset is not used with a swizzle, 1024 bytes from 8 rows to the next 8, swizzle of 128 bytes. Offsets count 16 bytes.
_DESCRIPTOR = 1 << 16 | (1024 >> 4) << 32 | 1 << 62
_MMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
_SUMS = 128
_GIVE_UP = ("ld.param.u64 %marker, [p_marker];", "red.global.or.b32 [%marker], %why;")

# cuda.h: CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion
_BFLOAT16, _SWIZZLE_128B, _L2_256B = 9, 3, 3


class Map(NamedTuple):
    """What cuTensorMapEncodeTiled takes: the innermost dimension first; strides in bytes, of all but that one."""

    kind: int
    address: int
    sides: Tuple[int, ...]
    strides: Tuple[int, ...]
    box: Tuple[int, ...]
    swizzle: int
    promotion: int


def maps(left: int, right: int, n: int) -> "Tuple[Map, Map]":
    """How the accelerator reads A and B: boxes of one stage from an n x n matrix, row by row."""
    return _map(left, n, ROWS), _map(right, n, COLUMNS)


def _map(address: int, n: int, rows: int) -> Map:
    return Map(_BFLOAT16, address, (n, n), (n * _SIZE,), (DEPTH, rows), _SWIZZLE_128B, _L2_256B)


def grid(n: int, multiprocessors: int) -> "Tuple[int, int]":
    """Blocks: one on every multiprocessor, no more than there are tiles."""
    return min((n // ROWS) * (n // COLUMNS), multiprocessors), 1


def rows_together(n: int) -> int:
    """The kernel's parameter p_group: how many rows of tiles make a group, a divisor of all of them."""
    return next(rows for rows in (_GROUP, 8, 4, 2, 1) if n // ROWS % rows == 0)


def product() -> str:
    """The module: nodegate_wgmma(map of A, map of B, C, n, p_group, marker)."""
    params = ["align 64 .b8 p_a[128]", "align 64 .b8 p_b[128]", "u64 p_c", "u32 p_n", "u32 p_group", "u64 p_marker"]
    declared = ",\n".join(f"  .param .{each}" for each in params)
    body = "".join(f"{each}\n" if each.endswith(":") else f"  {each}\n" for each in _lines())
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 stages[];\n"
    return f"{head}.visible .entry {KERNEL}(\n{declared}\n)\n.maxntid {THREADS}, 1, 1\n{{\n{body}}}\n"


def _lines() -> "List[str]":
    return [
        ".reg .pred %other, %ready, %more, %keep, %first, %release, %wrap, %always;",
        ".reg .b32 %t, %lane, %warp, %base, %full, %empty, %bar, %slot, %slots, %parity, %tries, %why, %at, %u, %v;",
        ".reg .b32 %n, %k, %tile, %tiles, %step, %group, %columns, %row, %column;",
        ".reg .b64 %map_a, %map_b, %a, %b, %x, %y, %pc, %pitch, %wide, %marker; .reg .f32 %c<128>;",
        *_start(),
        f"setp.eq.u32 %other, %warp, {_PRODUCER};",
        "@%other bra PRODUCE;",
        *_consume(),
        "GIVE_UP:",  # with nothing left in flight; a place that both sides share would make ptxas serialise wgmma
        "wgmma.wait_group.sync.aligned 0;",
        *_GIVE_UP,
        "END:",
        "ret;",
        "PRODUCE:",
        *_produce(),
        "GIVE_UP_FETCHING:",
        *_GIVE_UP,
        "END_FETCHING:",
        "ret;",
    ]


def _start() -> "List[str]":
    """Barriers, and what both sides count with: tiles, stages (slot) and the parity of their phases."""
    lines = [
        "mov.u32 %t, %tid.x;",
        "shr.u32 %warp, %t, 5;",
        "shfl.sync.idx.b32 %warp, %warp, 0, 31, 0xFFFFFFFF;",  # so ptxas knows that a warp does not part
        "and.b32 %lane, %t, 31;",
        "mov.u32 %base, stages;",
        f"add.u32 %base, %base, {_ALIGN - 1};",
        f"and.b32 %base, %base, {2**32 - _ALIGN:#x};",
        f"add.u32 %full, %base, {_RING};",
        f"add.u32 %empty, %full, {8 * STAGES};",
        "setp.ne.u32 %other, %t, 0;",
        "@%other bra READY;",
    ]
    for name, count in (("full", 1), ("empty", _WARPS)):
        lines += [f"mbarrier.init.shared::cta.b64 [%{name}+{8 * each}], {count};" for each in range(STAGES)]
    return [
        *lines,
        "fence.mbarrier_init.release.cluster;",
        "fence.proxy.async.shared::cta;",
        "READY:",
        "bar.sync 0;",
        "ld.param.u32 %n, [p_n];",
        "ld.param.u32 %group, [p_group];",
        f"shr.u32 %columns, %n, {COLUMNS.bit_length() - 1};",
        f"shr.u32 %tiles, %n, {ROWS.bit_length() - 1};",
        "mul.lo.u32 %tiles, %tiles, %columns;",
        "mov.u32 %tile, %ctaid.x;",
        "mov.u32 %step, %nctaid.x;",
        "mov.u32 %slot, 0;",
    ]


def _place() -> "List[str]":
    """The first row and column of a tile: down a group of rows of tiles, then to its next column, then the next group.

    A group has %group times %columns tiles.
    """
    return [
        "mul.lo.u32 %u, %group, %columns;",
        "div.u32 %row, %tile, %u;",
        "rem.u32 %u, %tile, %u;",
        "div.u32 %column, %u, %group;",
        "rem.u32 %u, %u, %group;",
        "mad.lo.u32 %row, %row, %group, %u;",
        f"mul.lo.u32 %row, %row, {ROWS};",
        f"mul.lo.u32 %column, %column, {COLUMNS};",
    ]


def _wait(name: str, why: int, give_up: str, *, by_warp: bool) -> "List[str]":
    """Wait for the phase of barrier %bar whose parity is %parity; a warp goes on as one, or gives up as one."""
    together = ["vote.sync.all.pred %ready, %ready, 0xFFFFFFFF;"] if by_warp else []
    return [
        f"mov.u32 %tries, {TRIES};",
        f"mov.u32 %why, {why};",
        f"{name}:",
        f"mbarrier.try_wait.parity.shared::cta.b64 %ready, [%bar], %parity, {_HINT_NS};",
        *together,
        f"@%ready bra {name}_OVER;",
        "sub.u32 %tries, %tries, 1;",
        "setp.ne.u32 %more, %tries, 0;",
        f"@%more bra {name};",
        f"bra {give_up};",
        f"{name}_OVER:",
    ]


def _next_stage() -> "List[str]":
    """One stage further; after the last the first again, in the next phase."""
    return [
        "add.u32 %slot, %slot, 1;",
        f"setp.eq.u32 %wrap, %slot, {STAGES};",
        "@%wrap mov.u32 %slot, 0;",
        "@%wrap xor.b32 %parity, %parity, 1;",
    ]


def _produce() -> "List[str]":
    """One thread: wait until the stage was read, say how many bytes come, start both copies.

    A fresh barrier counts as one whose phase of parity 1 is over: the first round of the ring waits for nothing.
    """
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    return [
        "setp.ne.u32 %other, %lane, 0;",
        "@%other bra END_FETCHING;",
        "mov.b64 %x, p_a;",
        "cvta.param.u64 %map_a, %x;",
        "mov.b64 %x, p_b;",
        "cvta.param.u64 %map_b, %x;",
        "mov.u32 %parity, 1;",
        "FETCH_TILE:",
        "setp.ge.u32 %other, %tile, %tiles;",
        "@%other bra END_FETCHING;",
        *_place(),
        "mov.u32 %k, 0;",
        "FETCH:",
        "mad.lo.u32 %bar, %slot, 8, %empty;",
        *_wait("FREE", 1, "GIVE_UP_FETCHING", by_warp=False),
        "mad.lo.u32 %bar, %slot, 8, %full;",
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {_STAGE};",
        f"mad.lo.u32 %at, %slot, {_STAGE}, %base;",
        f"{copy} [%at], [%map_a, {{%k, %row}}], [%bar];",
        f"add.u32 %at, %at, {_A_BYTES};",
        f"{copy} [%at], [%map_b, {{%k, %column}}], [%bar];",
        *_next_stage(),
        f"add.u32 %k, %k, {DEPTH};",
        "setp.lt.u32 %more, %k, %n;",
        "@%more bra FETCH;",
        "add.u32 %tile, %tile, %step;",
        "bra FETCH_TILE;",
    ]


def _consume() -> "List[str]":
    """Wait for a stage, multiply from it; then the stage before was read: its barrier learns of it."""
    lines = [
        "shr.u32 %u, %warp, 2;",
        f"mad.lo.u32 %u, %u, {_A_BYTES // 2}, %base;",
        f"add.u32 %v, %base, {_A_BYTES};",
    ]
    for source, name in (("u", "a"), ("v", "b")):
        lines += [
            f"shr.u32 %{source}, %{source}, 4;",
            f"cvt.u64.u32 %{name}, %{source};",
            f"or.b64 %{name}, %{name}, {_DESCRIPTOR:#x};",
        ]
    lines += [
        "setp.eq.u32 %first, %lane, 0;",
        "setp.eq.u32 %always, %n, %n;",
        "mov.u32 %parity, 0;",
        "mov.u32 %slots, %empty;",
        "TILE:",
        "setp.ge.u32 %other, %tile, %tiles;",
        "@%other bra END;",
        "mov.u32 %k, 0;",
        "STEP:",
        "mad.lo.u32 %bar, %slot, 8, %full;",
        *_wait("FILLED", 2, "GIVE_UP", by_warp=True),
        "mul.wide.u32 %x, %slot, " + f"{_STAGE >> 4};",
        "add.u64 %y, %b, %x;",
        "add.u64 %x, %a, %x;",
        "setp.ne.u32 %keep, %k, 0;",
        "wgmma.fence.sync.aligned;",
    ]
    sums = "{" + ", ".join(f"%c{each}" for each in range(_SUMS)) + "}"
    for part in range(DEPTH * _SIZE // 32):  # 32 bytes of k at a time; the first of a tile does not add
        keep = "%always" if part else "%keep"
        step = [f"add.u64 %{each}, %{each}, {32 >> 4};" for each in ("x", "y")] if part else []
        lines += [*step, f"{_MMA} {sums}, %x, %y, {keep}, 1, 1, 0, 0;"]
    return [
        *lines,
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 1;",
        "and.pred %release, %first, %keep;",
        "@%release mbarrier.arrive.shared::cta.b64 _, [%slots];",
        "mad.lo.u32 %slots, %slot, 8, %empty;",
        *_next_stage(),
        f"add.u32 %k, %k, {DEPTH};",
        "setp.lt.u32 %more, %k, %n;",
        "@%more bra STEP;",
        "wgmma.wait_group.sync.aligned 0;",
        "@%first mbarrier.arrive.shared::cta.b64 _, [%slots];",
        *_write(),
        "add.u32 %tile, %tile, %step;",
        "bra TILE;",
    ]


def _write() -> "List[str]":
    """Warp w of a warpgroup has 16 of its 64 rows: a thread row lane / 4 and 8 below, two columns of each 8."""
    lines = [
        *_place(),
        "mad.lo.u32 %row, %warp, 16, %row;",
        "shr.u32 %u, %lane, 2;",
        "add.u32 %row, %row, %u;",
        "and.b32 %u, %lane, 3;",
        "mad.lo.u32 %column, %u, 2, %column;",
        "mul.wide.u32 %wide, %row, %n;",
        "cvt.u64.u32 %pitch, %column;",
        "add.u64 %wide, %wide, %pitch;",
        f"mul.lo.u64 %wide, %wide, {_SIZE};",
        "ld.param.u64 %pc, [p_c];",
        "add.u64 %pc, %pc, %wide;",
        f"mul.wide.u32 %pitch, %n, {8 * _SIZE};",
    ]
    for below in (0, 2):
        for eight in range(COLUMNS // 8):
            low = 4 * eight + below
            lines.append(f"cvt.rn.bf16x2.f32 %u, %c{low + 1}, %c{low};")
            lines.append(f"st.global.u32 [%pc+{8 * eight * _SIZE}], %u;")
        lines.append("add.u64 %pc, %pc, %pitch;")
    return lines
