"""What a site asks of its nodes, from its inventory, its baseline files and its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodegate.demands.demands import Demands, Embedded
from nodegate.files import strict_yaml
from nodegate.node import Node
from nodegate.node_settings.table import PREFIX
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT


@dataclass(frozen=True)
class SiteDemands:
    """The files of a run whose limits hold on its nodes, as a demands file embeds them."""

    baselines: tuple[Embedded, ...] = ()
    policy: Embedded | None = None

    @staticmethod
    def read(baselines: Sequence[Path] = (), policy: str = "") -> SiteDemands:
        """Read the baseline files and the policy, a name or a file.

        Raises:
            UsageError: one of them cannot be read. What is wrong in them is for those who read them for a run.
        """
        place = policy_file.place(policy or DEFAULT)
        written = _content(place)
        limits = {"policy": written.get("policy"), "limits": written["limits"]} if written.get("limits") else None
        embedded = tuple(Embedded(path.name, _content(path)) for path in baselines)
        return SiteDemands(embedded, Embedded(place.name, limits) if limits else None)

    def of(self, node: Node, made: str = "") -> Demands:
        """What is asked of one node."""
        variables = {PREFIX + name: value for name, value in sorted(node.expected.items()) if name != "platform"}
        return Demands(node.name, variables, node.platform, self.baselines, self.policy, made)


def _content(path: Path) -> Mapping[str, object]:
    loaded = strict_yaml.load_file(path)
    if not isinstance(loaded.value, dict):
        raise loaded.wrong("it must be a mapping of names", hint="see nodegate explain baselines")
    return loaded.value
