"""nodegate decides whether a GPU node may carry work."""

from nodegate.judge.verdict import Limit, Verdict
from nodegate.judge.verdicts import Verdicts

__all__ = ["Limit", "Verdict", "Verdicts"]
