"""The limits in a demands file: the site's baseline files and its policy, read as a run reads them."""

from collections.abc import Sequence
from pathlib import Path

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baselines
from nodegate.baseline.merge import Overlay
from nodegate.demands.demands import Demands, Embedded
from nodegate.files.strict_yaml import Loaded


def baselines_of(demands: Demands, more: Sequence[Path] = ()) -> Baselines:
    """The limits that hold on the node; those of `more` come after those of the demands, and so win.

    Raises:
        UsageError: a file is not as docs/guide/baselines.md or docs/guide/policies.md says.
    """
    embedded = [baseline_file.parse(_loaded(demands, each)) for each in demands.baselines]
    policy = None
    if demands.policy:
        limits, name = demands.policy.content.get("limits"), str(demands.policy.content.get("policy"))
        policy = Overlay.of(_loaded(demands, demands.policy), limits if isinstance(limits, dict) else (), name)
    return Baselines.read([*embedded, *more], policy=policy)


def _loaded(demands: Demands, each: Embedded) -> Loaded:
    """An embedded file by the name that messages have for it: as one in a folder of the demands file's name."""
    return Loaded(each.content, f"{demands.place or 'demands.yaml'}/{each.file}", demands.sha256, {})
