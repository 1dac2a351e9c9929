"""Kernels of nodegate as PTX text, which the driver compiles for its GPU: fill, compare, and what all have in common.

The products are in products.py, with what is verified of all of them, and what is not.
"""

from typing import Iterable, List

THREADS = 256
FILL, COMPARE = "nodegate_fill", "nodegate_compare"


def common() -> str:
    """The module with `fill` and `compare`, for every GPU."""
    return head() + _fill() + _compare()


def head(version: str = "6.0", target: str = "sm_50") -> str:
    """How a module begins; by default one for every GPU."""
    return f".version {version}\n.target {target}\n.address_size 64\n"


def entry(name: str, params: "List[str]", lines: "Iterable[str]") -> str:
    """A kernel of blocks of THREADS threads; `params` are "u32 p_n" or the like."""
    declared = ",\n".join(f"  .param .{each.split()[0]} {each.split()[1]}" for each in params)
    body = "".join(f"{line}\n" if line.endswith(":") else f"  {line}\n" for line in lines)
    return f".visible .entry {name}(\n{declared}\n)\n.maxntid {THREADS}, 1, 1\n{{\n{body}}}\n"


def braced(register: str, count: int, first: int = 0) -> str:
    """A vector of registers that follow one another."""
    return "{" + ", ".join(f"%{register}{first + each}" for each in range(count)) + "}"


def hashed(word: str, key: str) -> "List[str]":
    """Replace a word by its hash with a key, by murmur3's finalizer; %t is overwritten."""
    lines = [f"mul.lo.u32 {word}, {word}, 0x9E3779B1;", f"add.u32 {word}, {word}, {key};"]
    for shift, factor in ((16, "0x85EBCA6B"), (13, "0xC2B2AE35"), (16, "")):
        lines += [f"shr.u32 %t, {word}, {shift};", f"xor.b32 {word}, {word}, %t;"]
        lines += [f"mul.lo.u32 {word}, {word}, {factor};"] if factor else []
    return lines


def loaded(params: "List[str]") -> "List[str]":
    """Each parameter in a register of its name: that of "u32 p_n" in %n."""
    return [f"ld.param.{each[:3]} %{each[6:]}, [{each[4:]}];" for each in params]


def numbered(register: str) -> "List[str]":
    """The number of a thread in its grid; %block and %thread are overwritten."""
    lines = ["mov.u32 %block, %ctaid.x;", "mov.u32 %thread, %tid.x;"]
    return [*lines, f"mad.lo.u32 %{register}, %block, {THREADS}, %thread;"]


def loop(index: str, count: str, step: str, work: "List[str]") -> "List[str]":
    """Do the work while an index is below a count, and go on by a step; then TOLD follows."""
    head = ["NEXT:", f"setp.ge.u32 %past, %{index}, %{count};", "@%past bra TOLD;"]
    return [*head, *work, f"add.u32 %{index}, %{index}, %{step};", "bra NEXT;", "TOLD:"]


STEP = ("mov.u32 %step, %nctaid.x;", f"mul.lo.u32 %step, %step, {THREADS};")  # to a thread's next number: all threads


def _fill() -> str:
    """Pairs of 32-bit words: word = hash(position, seed) & and | or, with masks for even and odd words.

    `word` in node_side/load/operands.py is the hash in Python.
    """
    params = ["u64 p_out", "u32 p_pairs", "u32 p_seed", "u32 p_and0", "u32 p_or0", "u32 p_and1", "u32 p_or1"]
    lines = [
        ".reg .pred %past; .reg .b32 %block, %thread, %pair, %pairs, %seed, %h0, %h1, %t, %and<2>, %or<2>;",
        ".reg .b64 %out, %offset;",
        *numbered("pair"),
        *loaded(params),
        "setp.ge.u32 %past, %pair, %pairs;",
        "@%past bra DONE;",
        "mul.wide.u32 %offset, %pair, 8;",
        "add.u64 %out, %out, %offset;",
        "shl.b32 %h0, %pair, 1;",
        "add.u32 %h1, %h0, 1;",
    ]
    for h, number in (("%h0", 0), ("%h1", 1)):
        lines += [*hashed(h, "%seed"), *(f"{mask}.b32 {h}, {h}, %{mask}{number};" for mask in ("and", "or"))]
    return entry(FILL, params, [*lines, "st.global.v2.u32 [%out], {%h0, %h1};", "DONE:", "ret;"])


def _compare() -> str:
    """Adds the number of differing words to [count] and lowers [place] to the position of the first of them."""
    params = ["u64 p_left", "u64 p_right", "u32 p_quads", "u64 p_count", "u64 p_place"]
    work = [
        "mul.wide.u32 %offset, %i, 16;",
        "add.u64 %p, %left, %offset;",
        "add.u64 %q, %right, %offset;",
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p];",
        "ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%q];",
        "shl.b32 %word, %i, 2;",
    ]
    for each in range(4):
        work += [f"setp.eq.u32 %same, %a{each}, %b{each};", "@!%same add.u32 %n, %n, 1;"]
        work += ["@!%same min.u32 %first, %first, %word;", "add.u32 %word, %word, 1;"]
    lines = [
        ".reg .pred %past, %same; .reg .b32 %block, %thread, %i, %quads, %step, %n, %first, %word, %a<4>, %b<4>;",
        ".reg .b64 %left, %right, %p, %q, %offset, %count, %place;",
        *(*numbered("i"), *STEP, *loaded(params)),
        "mov.u32 %n, 0;",
        "mov.u32 %first, 0xFFFFFFFF;",
        *loop("i", "quads", "step", work),
        "setp.eq.u32 %same, %n, 0;",
        "@%same bra DONE;",
        "red.global.add.u32 [%count], %n;",
        "red.global.min.u32 [%place], %first;",
        "DONE:",
        "ret;",
    ]
    return entry(COMPARE, params, lines)
