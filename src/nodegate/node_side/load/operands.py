"""The content of the matrices, and what elements of their product must be: by the same arithmetic as the fill kernel.

A word is hash & and | or: the sign, the two lowest bits of the exponent and every bit of the fraction are random
(magnitudes from 1/8 to 2, mean 0), so that as many bits as possible toggle, and nothing overflows. In fp4 every bit is
random.
"""

import math
import struct
from typing import Dict, List, NamedTuple, Tuple

_32 = 0xFFFFFFFF
SEED_LEFT, SEED_RIGHT = 0x0B5EED01, 0x0B5EED02


# Bytes of an element; fp8 and fp4 have results of another type, all others of their own.
BYTES = {"fp8": 1, "bf16": 2, "fp32": 4, "fp64": 8}
RESULTS = {"fp8": "bf16", "fp4": "bf16"}


class Masks(NamedTuple):
    """Which bits of a hashed word stay and which are set, for even and for odd words."""

    and0: int
    or0: int
    and1: int
    or1: int


MASKS: Dict[str, Masks] = {
    "fp4": Masks(0xFFFFFFFF, 0x00000000, 0xFFFFFFFF, 0x00000000),
    "fp8": Masks(0x9F9F9F9F, 0x20202020, 0x9F9F9F9F, 0x20202020),
    "bf16": Masks(0x81FF81FF, 0x3E003E00, 0x81FF81FF, 0x3E003E00),
    "fp32": Masks(0x81FFFFFF, 0x3E000000, 0x81FFFFFF, 0x3E000000),
    "fp64": Masks(0xFFFFFFFF, 0x00000000, 0x803FFFFF, 0x3FC00000),
}

# (rounding of the result relative to itself, of one addition relative to the partial sum). Tensor cores cut sums where
# fp32 additions would round, and always downwards: they are given 2**-21 (assumed; NVIDIA publishes no figure). In fp8
# Hopper's keep some 14 bits for a few products (DeepSeek-V3, arXiv 2412.19437, 3.3.2): 2**-13, also for fp4 (assumed).
_ROUNDING: Dict[str, Tuple[float, float]] = {
    "fp4": (2.0**-8, 2.0**-13),
    "fp8": (2.0**-8, 2.0**-13),
    "bf16": (2.0**-8, 2.0**-21),
    "fp32": (2.0**-24, 2.0**-23),
    "fp64": (2.0**-53, 2.0**-52),
}


def word(position: int, seed: int) -> int:
    """The hashed word at a position: murmur3's finalizer (Austin Appleby, public domain)."""
    h = (position * 0x9E3779B1 + seed) & _32
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _32
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _32
    return h ^ (h >> 16)


def matrix_bytes(dtype: str, n: int) -> int:
    """What an n x n matrix takes."""
    return n * n // 2 if dtype == "fp4" else n * n * BYTES[dtype]


def row(dtype: str, number: int, n: int, seed: int) -> "List[float]":
    """One row of an n x n matrix."""
    count, masks = matrix_bytes(dtype, n) // n // 4, MASKS[dtype]
    words = []
    for position in range(number * count, (number + 1) * count):
        hashed = word(position, seed)
        words.append(hashed & masks.and1 | masks.or1 if position % 2 else hashed & masks.and0 | masks.or0)
    return values(dtype, struct.pack(f"<{len(words)}I", *words))


def _e4m3(byte: int) -> float:
    """The number that a byte is in OCP's fp8 format e4m3; its NaN is not written here."""
    exponent, fraction = byte >> 3 & 0xF, byte & 7
    size = math.ldexp(8 + fraction, exponent - 10) if exponent else math.ldexp(fraction, -9)
    return -size if byte & 0x80 else size


_OF_BYTE = [_e4m3(byte) for byte in range(256)]
_OF_NIBBLE = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)  # e2m1


def values(dtype: str, data: bytes) -> "List[float]":
    """Elements in memory as numbers."""
    if dtype == "fp8":
        return [_OF_BYTE[byte] for byte in data]
    if dtype == "fp4":
        return [_OF_NIBBLE[each] for byte in data for each in (byte & 0xF, byte >> 4)]
    if dtype == "bf16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return list(
            struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *[half << 16 for half in halves]))
        )
    size, code = (8, "d") if dtype == "fp64" else (4, "f")
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def deviation(dtype: str, left: "List[float]", right: "List[float]", found: float) -> float:
    """How far an element is from the product of its row and column, in units of the rounding error.

    Errors of many additions grow with the root of their number (they are random), with a factor of eight as a margin.
    """
    products = [one * other for one, other in zip(left, right)]
    exact = math.fsum(products)
    rounding, adding = _ROUNDING[dtype]
    magnitude = math.sqrt(math.fsum(each * each for each in products))
    # Partial sums are about `magnitude` large; each of their additions rounds by `adding` of that.
    tolerance = rounding * abs(exact) + 8 * adding * magnitude * math.sqrt(len(products))
    off = abs(found - exact) / tolerance if tolerance else float("inf")
    return off if math.isfinite(off) else 1e9
