"""Our kernels for memory: NVIDIA's assembler takes them without spills, and what they say does what it should."""

import re

import numpy as np
import pytest
from support.cuda import assembled, ptxas
from support.ptx_machine import Machine

from nodegate.node_side.load import memory_kernels as kernels
from nodegate.node_side.load import operands

TEXT = kernels.text()
ARCHITECTURES = ("sm_50", "sm_70", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
SEED, OTHER, FLIP = 0x0C091E51, 0x5EED0002, 0xFFFFFFFF
HIGH = 5 << 32  # a number whose upper half is not zero: beyond 16 GiB
REGISTERS = 40  # with 40, six blocks of 256 threads are on a multiprocessor: 1536 threads, 98 KiB of loads under way


@pytest.mark.skipif(not ptxas(), reason="no ptxas here (package nvidia-cuda-nvcc-cu12)")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_assembler_takes_every_kernel_without_spills_and_with_few_registers(architecture, tmp_path):
    said = assembled(TEXT, architecture, tmp_path)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
    assert max(map(int, re.findall(r"Used (\d+) registers", said))) <= REGISTERS


TILES, BLOCKS = 5, 2


def tiles(name, count):
    """So many operands of five tiles, then room for sums; run by two blocks. Returns all words, and those of each."""
    size = TILES * kernels.TILE
    memory = bytearray(count * size + 4 * BLOCKS * kernels.THREADS)
    words = np.frombuffer(memory, np.uint32)
    words[: count * size // 4] = np.random.default_rng(7).integers(0, 1 << 32, count * size // 4, np.uint32)
    addresses = [each * size for each in range(count)] + ([count * size] if name == kernels.READ else [])
    with np.errstate(over="ignore"):
        for block in range(BLOCKS):
            Machine(TEXT, memory).launch(kernels.name(name), (block, 0), (BLOCKS, 1), [*addresses, TILES])
    return words, size // 4


def test_read_reads_every_word_once():
    words, size = tiles(kernels.READ, 1)
    assert words[size:].sum(dtype=np.uint32) == words[:size].sum(dtype=np.uint32)


def test_read_adds_to_the_sums_that_are_there():
    memory = bytearray(kernels.TILE + 4 * kernels.THREADS)
    words = np.frombuffer(memory, np.uint32)
    words[: kernels.TILE // 4] = 1
    for _ in range(3):
        Machine(TEXT, memory).launch(kernels.name(kernels.READ), (0, 0), (1, 1), [0, kernels.TILE, 1])
    assert set(words[kernels.TILE // 4 :]) == {3 * kernels.TILE // 4 // kernels.THREADS}


def test_copy_copies_every_word():
    words, size = tiles(kernels.COPY, 2)
    assert (words[:size] == words[size : 2 * size]).all()


def test_triad_adds_three_times_the_second_to_the_first():
    words, size = tiles(kernels.TRIAD, 3)
    first, second, result = (words[each * size :][:size] for each in range(3))
    assert (result == first + np.uint32(3) * second).all()


QUADS = 1000
ROOM = 4 * 4 * QUADS
FOUND, SUMS = ROOM, ROOM + kernels.FOUND_BYTES


def word(rule, number, key, other):
    """The word of this number by a rule.

    HASH: a hash of its number and `key`. WALK: one bit, which moves on with each word. ADDRESS: even words hold the
    lower half of their address, odd ones the upper. All of these with the bits of `other` turned. TRIAD: what triad
    makes of two hashes, with the keys `key` and `other`.
    """
    if rule == kernels.WALK:
        return (1 << ((number + key) & 31)) ^ other
    if rule == kernels.ADDRESS:
        return ((number >> 30 if number & 1 else number << 2) & 0xFFFFFFFF) ^ other
    low, high = number & 0xFFFFFFFF, number >> 32
    hashed = operands.word(low, (key + high * kernels._HIGH) & 0xFFFFFFFF)
    if rule == kernels.TRIAD:
        return (hashed + kernels.FACTOR * operands.word(low, (other + high * kernels._HIGH) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return hashed ^ other


def expected(rule, first, key, other):
    return np.array([word(rule, first + each, key, other) for each in range(4 * QUADS)], np.uint32)


def launch(kernel, memory, first, key, other):
    more = [FOUND, SUMS] if "check" in kernel else []
    with np.errstate(over="ignore"):
        for block in range(BLOCKS):
            params = [0, first, QUADS, key, other, *more]
            Machine(TEXT, memory).launch(kernel, (block, 0), (BLOCKS, 1), params)


def room():
    return bytearray(SUMS + 4 * BLOCKS * kernels.THREADS)


@pytest.mark.parametrize("first", [0, (1 << 30) - 8, HIGH + 4096])
@pytest.mark.parametrize(("rule", "key"), [(kernels.HASH, SEED), (kernels.WALK, 30), (kernels.ADDRESS, 0)])
@pytest.mark.parametrize("other", [0, FLIP])
def test_what_is_written_is_the_pattern_and_a_check_finds_it_right(rule, key, other, first):
    memory = room()
    launch(kernels.name("write", rule), memory, first, key, other)
    words = np.frombuffer(memory, np.uint32)
    assert (words[: 4 * QUADS] == expected(rule, first, key, other)).all()
    launch(kernels.name("check", rule), memory, first, key, other)
    assert kernels.found_in(words[FOUND // 4 : SUMS // 4].tolist()) == kernels.Found(0, 0, [])
    assert words[SUMS // 4 :].sum(dtype=np.uint32) == words[: 4 * QUADS].sum(dtype=np.uint32)


def test_a_check_of_what_triad_made():
    memory = room()
    words = np.frombuffer(memory, np.uint32)
    words[: 4 * QUADS] = expected(kernels.TRIAD, HIGH, SEED, OTHER)
    launch(kernels.name("check", kernels.TRIAD), memory, HIGH, SEED, OTHER)
    assert words[FOUND // 4] == 0


def test_wrong_words_are_counted_and_kept_with_number_and_both_values():
    memory = room()
    launch(kernels.name("write", kernels.ADDRESS), memory, HIGH, 0, 0)
    words = np.frombuffer(memory, np.uint32)
    right = words.copy()
    for at, bit in ((5, 0x10), (1027, 0x80000000), (3999, 0x10)):
        words[at] ^= bit
    launch(kernels.name("check", kernels.ADDRESS), memory, HIGH, 0, 0)
    found = kernels.found_in(words[FOUND // 4 : SUMS // 4].tolist())
    assert (found.words, found.bits) == (3, 0x80000010)
    assert {(each.number - HIGH, each.expected, each.found) for each in found.kept} == {
        (at, int(right[at]), int(words[at])) for at in (5, 1027, 3999)
    }


def test_no_more_is_kept_than_there_is_room_for():
    memory = room()
    launch(kernels.name("check", kernels.ADDRESS), memory, 0, 0, FLIP)
    words = np.frombuffer(memory, np.uint32)
    found = kernels.found_in(words[FOUND // 4 : SUMS // 4].tolist())
    assert (found.words, len(found.kept)) == (4 * QUADS, kernels.KEPT)
    assert words[SUMS // 4 :].sum(dtype=np.uint32) == expected(kernels.ADDRESS, 0, 0, FLIP).sum(dtype=np.uint32)
