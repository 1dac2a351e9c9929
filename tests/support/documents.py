"""Probe documents for the tests of parsing: any JSON, and real machines with one value replaced by any JSON."""

from hypothesis import strategies as st

REASONS = ("not supported", "missing", "denied", "timeout", "hung", "lost", "failed", "no such reason", 7)

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(
        ["N/A (no PMA)", "1e999", "9" * 400, "\ud800", "\x1b[31m", "0x", "-1", "63", "Unknown", "ff" * 64]
    )
)
readings = st.fixed_dictionaries({"why": st.sampled_from(REASONS)}, optional={"detail": leaves})
json_values = st.recursive(
    leaves | readings,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def places(value, path=()):
    """The path of every value in a JSON document, objects and lists included."""
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


def replaced(document, path, value):
    """The document with one value replaced; what is shared with the original is not changed."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(document[path[0]], path[1:], value)
    return copy
