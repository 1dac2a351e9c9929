"""An error is known by each of its names: CUDA's text, cudaError* and CUDA_ERROR_*; verbs, UCX and PyTorch likewise."""

import csv
from pathlib import Path

import pytest

from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import Side

TABLE = Path(__file__).with_name("error_names.csv")


def test_a_line_is_of_the_signature_that_the_table_names(subtests: pytest.Subtests) -> None:
    """`id` is empty for a line without a fault."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            with subtests.test(row["line"]):
                hit = find(row["line"], Side.USER)
                assert (hit.signature.id if hit else "") == row["id"]
