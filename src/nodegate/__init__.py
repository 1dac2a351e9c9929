"""nodegate decides whether a GPU node may carry work."""

from nodegate.finding import Limit
from nodegate.verdict import Verdict
from nodegate.verdicts import Verdicts

__all__ = ["Limit", "Verdict", "Verdicts"]
