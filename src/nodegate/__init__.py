"""nodegate decides whether a GPU node may carry work."""

from nodegate.verdict import Limit, Verdict
from nodegate.verdicts import Verdicts

__all__ = ["Limit", "Verdict", "Verdicts"]
