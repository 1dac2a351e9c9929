"""Hostlists: many names as one text and back, without losing a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand, fold

NAMES = st.from_regex(r"[a-z0-9_]{1,4}[0-9]{0,4}(-[a-z0-9]{1,3})?(\.[a-z0-9]{1,3})?", fullmatch=True)
SERIES = st.builds(
    lambda head, numbers, width, tail: [f"{head}{number:0{width}d}{tail}" for number in numbers],
    st.sampled_from(["gpu", "r1n", "dgx-a100-", "10.0.0.", ""]),
    st.lists(st.integers(0, 1200), min_size=1, max_size=60),
    st.integers(1, 5),
    st.sampled_from(["", ".dc1", "-ib0"]),
)


@given(st.lists(NAMES, max_size=40), st.lists(SERIES, max_size=4))
def test_expanding_a_fold_gives_the_same_names(names, series):
    every = [*names, *(name for row in series for name in row)]
    assert sorted(expand(fold(every))) == sorted(set(every))


@given(st.lists(NAMES, max_size=20))
def test_a_fold_does_not_depend_on_the_order(names):
    assert fold(names) == fold(reversed(names))


@pytest.mark.parametrize(
    ("folded", "count"),
    [
        ("gpu[001-128,130],login1", 130),
        ("gpu[8-12]", 5),
        ("gpu[1-2].dc1.example.org", 2),
        ("gpu[9,09]", 2),
        ("", 0),
    ],
)
def test_folds_as_slurm_prints_them(folded, count):
    names = expand(folded)
    assert len(names) == count
    assert fold(names) == folded


def test_fold_puts_gpu2_before_gpu10_and_each_name_once():
    assert fold(["gpu10", "zeta", "gpu2", "gpu2", "alpha"]) == "alpha,gpu[2,10],zeta"


def test_several_brackets_multiply_and_white_space_separates():
    assert expand("r[1-2]n[1,3]\n login1") == ["r1n1", "r1n3", "r2n1", "r2n3", "login1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu[1-", "not closed"),
        ("gpu[]", "not a range"),
        ("gpu[a-z-9]", "not a range"),
        ("gpu[3-1]", "backwards"),
        ("gpu[1:8:0]", "never ends"),
        ("gpu[0001-20]", "padding"),
        ("a" + "[1-99999]" * 2000, "more than 100000 names"),
        (f"gpu[{'9' * 5000}]", "more than 30 digits"),
    ],
)
def test_hostlists_that_are_none(text, message):
    with pytest.raises(UsageError, match=message):
        expand(text)
