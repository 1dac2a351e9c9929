"""nodegate's own kernels for the memory of a GPU, as PTX text: read, copy and triad, and patterns written and checked.

* `read`, `copy`, `triad` are for the clock: each thread has four loads of 16 bytes under way (triad: eight), a block
  takes 16 KiB at a time, and as many blocks as all multiprocessors hold share the whole. `read` adds up all words;
  triad is a = b + 3 c in whole numbers, so that its result is exact.
* `write` and `check` are for patterns: a word is made from its number alone, by one of three rules. `check` counts
  what differs, collects the bits that do, and keeps the first words that its threads met, as they were read.

Verified as those of products.py are (tests/node_side/test_memory_kernels.py). No GPU has run them.
"""

from typing import List, NamedTuple

from nodegate.node_side.load import ptx

THREADS = ptx.THREADS
VECTOR = 16  # bytes of one load
IN_FLIGHT = 4  # loads of a thread, of each operand
TILE = THREADS * VECTOR * IN_FLIGHT  # bytes that a block takes at a time
BLOCKS = 8  # for each multiprocessor: 2048 threads, all that it holds
READ, COPY, TRIAD = "read", "copy", "triad"
OPERANDS = {READ: 1, COPY: 2, TRIAD: 3}  # how often a byte is moved
# By a hash of a word's number and a key; by one bit, which moves on with each word; by the address: even words hold its
# lower half, odd ones the upper. All of these with the bits of `other` turned.
HASH, WALK, ADDRESS = "hash", "walk", "address"
RULES = (HASH, WALK, ADDRESS)
FACTOR = 3  # of triad
MOST_QUADS = 1 << 28  # of one check: its counts are words of 32 bits
_HIGH = 0x7FEB352D

KEPT = 16  # wrong words that a check keeps
_HEAD_WORDS, _ENTRY_WORDS = 4, 4
FOUND_BYTES = 4 * (_HEAD_WORDS + KEPT * _ENTRY_WORDS)


class Wrong(NamedTuple):
    """A word that was not what had been written: its number, and both as they were."""

    number: int
    expected: int
    found: int


class Found(NamedTuple):
    """What a check found."""

    words: int
    bits: int
    kept: "List[Wrong]"


def found_in(words: "List[int]") -> Found:
    """The answer of one check, from its words in memory."""
    kept = []
    for each in range(min(words[2], KEPT)):
        low, high, expected, found = words[_HEAD_WORDS + _ENTRY_WORDS * each :][:_ENTRY_WORDS]
        kept.append(Wrong(high << 32 | low, expected, found))
    return Found(words[0], words[1], kept)


def text() -> str:
    """The module with all of these kernels, for every GPU."""
    kernels = [_read(), _copy(), _triad()]
    for rule in RULES:
        work = [*_words(rule), f"st.global.v4.u32 [%p], {ptx.braced('w', 4)};"]
        kernels.append(ptx.entry(name("write", rule), _PATTERN_PARAMS, [*_quads(work), "ret;"]))
    kernels += [_check(rule) for rule in (*RULES, TRIAD)]
    return ptx.head() + "".join(kernels)


def name(kernel: str, rule: str = "") -> str:
    """The name of a kernel in the module."""
    return "nodegate_" + "_".join(filter(None, (kernel, rule)))


# ---- for the clock ----


def _tiles(pointers: "List[str]", work: "List[str]") -> "List[str]":
    """The work for each tile of this block, with the pointers at the place of this thread in it."""
    lines = [
        ".reg .pred %past; .reg .b32 %tile, %tiles, %thread, %blocks; .reg .b64 %offset, %place, %stride;",
        "mov.u32 %tile, %ctaid.x;",
        "mov.u32 %thread, %tid.x;",
        "mov.u32 %blocks, %nctaid.x;",
        "ld.param.u32 %tiles, [p_tiles];",
        f"mul.wide.u32 %offset, %tile, {TILE};",
        f"mul.wide.u32 %place, %thread, {VECTOR};",
        "add.u64 %offset, %offset, %place;",
        f"mul.wide.u32 %stride, %blocks, {TILE};",
    ]
    for each in pointers:
        lines += [f"ld.param.u64 %{each}, [p_{each}];", f"add.u64 %{each}, %{each}, %offset;"]
    on = [f"add.u64 %{each}, %{each}, %stride;" for each in pointers]
    return [*lines, *ptx.loop("tile", "tiles", "blocks", [*work, *on])]


def _loads(register: str, pointer: str) -> "List[str]":
    return [
        f"ld.global.nc.v4.u32 {ptx.braced(register, 4, 4 * each)}, [%{pointer}+{each * THREADS * VECTOR}];"
        for each in range(IN_FLIGHT)
    ]


def _stores(register: str, pointer: str) -> "List[str]":
    return [
        f"st.global.v4.u32 [%{pointer}+{each * THREADS * VECTOR}], {ptx.braced(register, 4, 4 * each)};"
        for each in range(IN_FLIGHT)
    ]


def _read() -> str:
    """Each thread adds its words to a sum of its own in [sums]: no two threads wait for one another."""
    words = 4 * IN_FLIGHT
    lines = [f".reg .b32 %a<{words}>, %s<4>, %old; .reg .b64 %in, %sums;"]
    lines += [f"mov.u32 %s{each}, 0;" for each in range(4)]
    adds = [f"add.u32 %s{each % 4}, %s{each % 4}, %a{each};" for each in range(words)]
    lines += _tiles(["in"], [*_loads("a", "in"), *adds])
    lines += [f"add.u32 %s0, %s0, %s{each};" for each in range(1, 4)]
    lines += [
        "mov.u32 %tile, %ctaid.x;",
        f"mad.lo.u32 %tile, %tile, {THREADS}, %thread;",
        "mul.wide.u32 %offset, %tile, 4;",
        "ld.param.u64 %sums, [p_sums];",
        "add.u64 %sums, %sums, %offset;",
        "ld.global.u32 %old, [%sums];",
        "add.u32 %s0, %s0, %old;",
        "st.global.u32 [%sums], %s0;",
        "ret;",
    ]
    return ptx.entry(name(READ), ["u64 p_in", "u64 p_sums", "u32 p_tiles"], lines)


def _copy() -> str:
    lines = [f".reg .b32 %a<{4 * IN_FLIGHT}>; .reg .b64 %in, %out;"]
    lines += _tiles(["in", "out"], [*_loads("a", "in"), *_stores("a", "out")])
    return ptx.entry(name(COPY), ["u64 p_in", "u64 p_out", "u32 p_tiles"], [*lines, "ret;"])


def _triad() -> str:
    words = 4 * IN_FLIGHT
    lines = [f".reg .b32 %a<{words}>, %b<{words}>; .reg .b64 %in, %more, %out;"]
    adds = [f"mad.lo.u32 %a{each}, %b{each}, {FACTOR}, %a{each};" for each in range(words)]
    lines += _tiles(["in", "more", "out"], [*_loads("a", "in"), *_loads("b", "more"), *adds, *_stores("a", "out")])
    return ptx.entry(name(TRIAD), ["u64 p_in", "u64 p_more", "u64 p_out", "u32 p_tiles"], [*lines, "ret;"])


# ---- patterns ----

_PATTERN_PARAMS = ["u64 p_data", "u64 p_first", "u32 p_quads", "u32 p_key", "u32 p_other"]


def _quads(work: "List[str]") -> "List[str]":
    """The work for each quad of this thread: %p is where it is, %high and %low the number of its first word."""
    found = ["mul.wide.u32 %number, %i, 4;", "add.u64 %number, %number, %first;", "cvt.u32.u64 %low, %number;"]
    found += ["shr.u64 %number, %number, 32;", "cvt.u32.u64 %high, %number;"]
    place = [f"mul.wide.u32 %offset, %i, {VECTOR};", "add.u64 %p, %data, %offset;"]
    return [
        ".reg .pred %past, %same; .reg .b32 %i, %quads, %step, %thread, %block, %key, %other, %low, %high, %h, %t, %k;",
        ".reg .b32 %w<4>; .reg .b64 %data, %first, %number, %offset, %p;",
        *(*ptx.numbered("i"), *ptx.STEP, *ptx.loaded(_PATTERN_PARAMS)),
        *ptx.loop("i", "quads", "step", [*place, *found, *work]),
    ]


def _words(rule: str) -> "List[str]":
    """The four words of a quad in %w0 to %w3, from %low and %high, the number of the first (a multiple of four)."""
    lines: List[str] = []
    for each in range(4):
        out = f"%w{each}"
        if rule == WALK:
            lines += [f"add.u32 %t, %low, {each};", "add.u32 %t, %t, %key;", "and.b32 %t, %t, 31;"]
            lines += ["mov.u32 %h, 1;", f"shl.b32 {out}, %h, %t;"]
        elif rule == ADDRESS and each % 2:
            lines += ["shl.b32 %t, %high, 2;", "shr.u32 %h, %low, 30;", f"or.b32 {out}, %t, %h;"]
        elif rule == ADDRESS:
            lines += ["shl.b32 %t, %low, 2;", f"add.u32 {out}, %t, {4 * each};"]
        else:
            lines += _hash(each, "%key", out)
        if rule == TRIAD:
            lines += [*_hash(each, "%other", "%h"), f"mad.lo.u32 {out}, %h, {FACTOR}, {out};"]
        else:
            lines.append(f"xor.b32 {out}, {out}, %other;")
    return lines


def _hash(each: int, key: str, out: str) -> "List[str]":
    lines = [f"mad.lo.u32 %k, %high, 0x{_HIGH:08X}, {key};", f"add.u32 {out}, %low, {each};"]
    return lines + ptx.hashed(out, "%k")


def _check(rule: str) -> str:
    """[found]: wrong words, the bits that differed, how many were kept, 0; then what was kept. [sums]: as in `read`.

    A thread keeps the first wrong word that it meets, if there is room.
    """
    lines = [
        ".reg .pred %full; .reg .b32 %a<4>, %wrong, %bits, %sum, %at, %low_of, %high_of, %was, %found_word, %diff;",
        ".reg .b64 %found, %entry, %sums;",
        *[f"mov.u32 %{each}, 0;" for each in ("wrong", "bits", "sum", "low_of", "high_of", "was", "found_word")],
    ]
    work = [*_words(rule), f"ld.global.v4.u32 {ptx.braced('a', 4)}, [%p];"]
    for each in range(4):
        work += [f"add.u32 %sum, %sum, %w{each};", f"setp.eq.u32 %same, %a{each}, %w{each};", f"@%same bra GOOD{each};"]
        work += [f"xor.b32 %diff, %a{each}, %w{each};", "or.b32 %bits, %bits, %diff;", "setp.eq.u32 %full, %wrong, 0;"]
        work += [f"@%full add.u32 %low_of, %low, {each};", "@%full mov.u32 %high_of, %high;"]
        work += [f"@%full mov.u32 %was, %w{each};", f"@%full mov.u32 %found_word, %a{each};"]
        work += ["add.u32 %wrong, %wrong, 1;", f"GOOD{each}:"]
    lines += [
        *_quads(work),
        f"mad.lo.u32 %t, %block, {THREADS}, %thread;",
        "mul.wide.u32 %offset, %t, 4;",
        "ld.param.u64 %sums, [p_sums];",
        "add.u64 %sums, %sums, %offset;",
        "st.global.u32 [%sums], %sum;",
        "setp.eq.u32 %same, %wrong, 0;",
        "@%same bra DONE;",
        "ld.param.u64 %found, [p_found];",
        "red.global.add.u32 [%found], %wrong;",
        "red.global.or.b32 [%found+4], %bits;",
        "atom.global.add.u32 %at, [%found+8], 1;",
        f"setp.ge.u32 %full, %at, {KEPT};",
        "@%full bra DONE;",
        f"mul.wide.u32 %entry, %at, {4 * _ENTRY_WORDS};",
        "add.u64 %entry, %entry, %found;",
        f"st.global.v4.u32 [%entry+{4 * _HEAD_WORDS}], {{%low_of, %high_of, %was, %found_word}};",
        "DONE:",
        "ret;",
    ]
    return ptx.entry(name("check", rule), [*_PATTERN_PARAMS, "u64 p_found", "u64 p_sums"], lines)
