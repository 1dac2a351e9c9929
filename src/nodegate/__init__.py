"""nodegate decides whether a GPU node may carry work."""

from nodegate.records import part
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

__all__ = ["Limit", "Verdict", "Verdicts", "part"]
