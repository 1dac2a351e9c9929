"""What goes wrong on GPU nodes, by the ids that the checks' docstrings cite."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nodegate.files import strict_yaml
from nodegate.knowledge.words import Cause

FILE = Path(__file__).parent / "failure_modes.yaml"


@dataclass(frozen=True)
class FailureMode:
    """One failure mode. `cause` is what is to blame if a check fails for it; `open` what no check finds yet."""

    id: str
    name: str
    cause: Cause
    open: str = ""


@cache
def failure_modes() -> Mapping[str, FailureMode]:
    """Every failure mode by its id."""
    value = strict_yaml.load_file(FILE).value
    if not isinstance(value, dict):
        raise TypeError(f"{FILE} is not a mapping")
    return {
        each: FailureMode(each, about["name"], Cause(about["cause"]), about.get("open", ""))
        for each, about in value.items()
    }
