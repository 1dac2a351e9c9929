"""What contracts ask for, as limits say it."""

from nodegate.records.finding import AnyLimit


def words(limit: AnyLimit | None) -> frozenset[str]:
    """The words of a limit that is a list of them in one text; none without a limit."""
    return frozenset(str(limit.value).split()) if limit is not None else frozenset()
