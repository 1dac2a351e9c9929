"""JSON in which no object has a key twice: readers differ in which of two values counts, so neither is believed."""

import json
from collections import Counter
from collections.abc import Callable


def loads(
    written: str | bytes,
    *,
    parse_constant: Callable[[str], object] | None = None,
    parse_float: Callable[[str], object] | None = None,
) -> object:
    """What the text says; the two functions are as for `json.loads`.

    Raises:
        ValueError: it is not JSON, or an object has a key twice.
        RecursionError: it nests too deep.
    """
    return json.loads(written, parse_constant=parse_constant, parse_float=parse_float, object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:40]!r} stands twice in one object")
    return found
