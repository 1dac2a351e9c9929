"""Whatever is read, a reader gives its answer or one of its documented refusals: every target of fuzz/."""

import gzip
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fuzz.mutate import json_mutator, text_mutator
from fuzz.table import every_target

TARGETS = every_target()
SLOW_TO_GENERATE = settings(deadline=None, suppress_health_check=list(HealthCheck))
CHANGES = st.lists(st.integers(0, 2**32), min_size=1, max_size=6)
PIECES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.binary(max_size=12)), max_size=3)


@cache
def seeds(name):
    return list(dict.fromkeys(TARGETS[name].seeds()))


@pytest.mark.parametrize("name", TARGETS)
def test_each_seed(name):
    for seed in seeds(name):
        TARGETS[name].read(seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(SLOW_TO_GENERATE, max_examples=25)
@given(st.binary(max_size=400))
@example(b"")
@example(b"\0" * 100)
@example(b"\xff\xfe\xed\xa0\x80")
@example(b"\r\n\x0b\x85\xe2\x80\xa8")
@example(b"[" * 3000)
@example(gzip.compress(b"x" * 100)[:-9])
def test_any_bytes(name, data):
    TARGETS[name].read(data)


@pytest.mark.parametrize("name", TARGETS)
@settings(SLOW_TO_GENERATE, max_examples=40)
@given(st.integers(0, 10_000), CHANGES, PIECES)
def test_any_change_of_a_seed(name, which, changes, pieces):
    def plain(data, most):
        for start, length, inserted in pieces:
            at, end = int(start * len(data)), int((start + length) * len(data))
            data = data[:at] + inserted + data[end:]
        return data[:most]

    target = TARGETS[name]
    mutate = (json_mutator if target.form == "json" else text_mutator)(plain)
    data = seeds(name)[which % len(seeds(name))]
    for change in changes:
        data = mutate(data, 60_000, change)
    TARGETS[name].read(data)
