"""Our kernels: NVIDIA's assembler takes them without spills, and what they say computes what it should."""

import re

import numpy as np
import pytest
from support.cuda import assembled, ptxas
from support.ptx_machine import Machine

from nodegate.node_side.load import operands, products, ptx

N = 256
TEXTS = {"common": ptx.common(), **{dtype: products.product(dtype) for dtype in products.BYTES}}
ARCHITECTURES = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
OLDER = ("sm_50", "sm_70", "sm_75")

without_ptxas = pytest.mark.skipif(not ptxas(), reason="no ptxas here (package nvidia-cuda-nvcc-cu12)")


@without_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", TEXTS)
def test_the_assembler_takes_every_kernel_without_spilling_registers(name, architecture, tmp_path):
    said = assembled(TEXTS[name], architecture, tmp_path)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
    assert max(map(int, re.findall(r"Used (\d+) registers", said))) <= 255


@without_ptxas
@pytest.mark.parametrize("architecture", OLDER)
@pytest.mark.parametrize("name", ["common", "fp32", "fp64"])
def test_the_kernels_without_tensor_cores_are_for_older_gpus_too(name, architecture, tmp_path):
    assert set(re.findall(r"(\d+) bytes spill", assembled(TEXTS[name], architecture, tmp_path))) == {"0"}


def memory_of(dtype):
    rows = [
        [operands.row(dtype, row, N, seed) for row in range(N)] for seed in (operands.SEED_LEFT, operands.SEED_RIGHT)
    ]
    matrices = [np.array(each) for each in rows]
    if dtype == "bf16":
        raw = [(each.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes() for each in matrices]
    else:
        raw = [each.astype(np.float64 if dtype == "fp64" else np.float32).tobytes() for each in matrices]
    return bytearray(raw[0] + raw[1] + b"\xff" * len(raw[0])), matrices


def multiply(dtype, text, memory, block, *, late=True):
    size = len(memory) // 3
    rows, columns = products.tile(dtype)
    shared = products.TENSOR_SHARED if dtype == products.TENSOR else 0
    grid = (N // columns, N // rows)
    with np.errstate(over="ignore", invalid="ignore"):
        Machine(text, memory, late=late).launch(products.PRODUCT, block, grid, [0, size, 2 * size, N], shared=shared)
    return np.array(operands.values(dtype, bytes(memory[2 * size :]))).reshape(N, N)


@pytest.mark.parametrize(
    ("dtype", "block", "late"),
    [
        ("bf16", (0, 1), True),
        ("bf16", (0, 0), False),
        ("fp32", (1, 0), True),
        ("fp64", (2, 1), True),
    ],
)
def test_a_block_computes_its_tile_of_the_product_and_writes_nothing_else(dtype, block, late):
    memory, (left, right) = memory_of(dtype)
    before = bytes(memory)
    result = multiply(dtype, TEXTS[dtype], memory, block, late=late)
    rows, columns = products.tile(dtype)
    inside = np.zeros((N, N), bool)
    inside[block[1] * rows :, block[0] * columns :][:rows, :columns] = True
    for i, j in [*np.argwhere(inside)[::97]]:
        assert operands.deviation(dtype, list(left[i]), list(right[j]), result[i, j]) < 1.0
    tolerance = 2.0**-8 * np.abs(left @ right.T) + 1e-3
    assert (np.abs(result - left @ right.T) <= tolerance)[inside].all()
    size = len(memory) // 3
    untouched = np.repeat(~inside.ravel(), products.BYTES[dtype])
    assert (np.frombuffer(memory, np.uint8)[2 * size :][untouched] == 0xFF).all()
    assert memory[: 2 * size] == before[: 2 * size]


@pytest.mark.parametrize("dtype", products.BYTES)
def test_the_operands_on_the_gpu_are_those_that_the_host_computes(dtype):
    count = 1024
    memory = bytearray(count * 4 + 64)
    masks = operands.MASKS[dtype]
    machine = Machine(TEXTS["common"], memory)
    with np.errstate(over="ignore"):
        for block in range(3):
            params = [0, count // 2, operands.SEED_LEFT, *masks]
            machine.launch(ptx.FILL, (block, 0), (3, 1), params)
    elements = count * 4 // products.BYTES[dtype]
    expected = operands.row(dtype, 0, elements, operands.SEED_LEFT)
    assert operands.values(dtype, bytes(memory[: count * 4])) == expected
    assert memory[count * 4 :] == bytes(64)
    magnitudes = np.abs(expected)
    assert magnitudes.min() >= 0.125
    assert magnitudes.max() < 2
    assert abs(np.mean(expected)) < 0.2
    assert len(set(expected)) > min(elements, 1024) // 2


def test_comparing_counts_every_differing_word_and_tells_the_first():
    words = 8192
    memory = bytearray(words * 8 + 16)
    left = np.frombuffer(memory, np.uint32)
    left[: 2 * words] = np.tile(np.arange(words, dtype=np.uint32), 2)
    left[2 * words + 1] = 0xFFFFFFFF
    for wrong in (words + 5, words + 1027, words + 8191):
        left[wrong] ^= 0x10
    params = [0, words * 4, words // 4, words * 8, words * 8 + 4]
    for block in range(2):
        Machine(TEXTS["common"], memory).launch(ptx.COMPARE, (block, 0), (2, 1), params)
    assert left[2 * words : 2 * words + 2].tolist() == [3, 5]


@pytest.mark.parametrize("dtype", products.BYTES)
def test_an_element_is_held_to_what_rounding_can_make_of_it(dtype):
    left = operands.row(dtype, 3, 8192, operands.SEED_LEFT)
    right = operands.row(dtype, 5, 8192, operands.SEED_RIGHT)
    exact = float(np.dot(left, right))
    assert operands.deviation(dtype, left, right, exact) < 0.1
    assert operands.deviation(dtype, left, right, exact * 1.02) > 1
    assert operands.deviation(dtype, left, right, float("nan")) > 1
    assert operands.deviation(dtype, left, right, exact + left[0] * right[0]) > (0 if dtype == "bf16" else 1)
