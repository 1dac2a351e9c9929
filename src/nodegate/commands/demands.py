"""`nodegate demands`: what the site asks of a node, as the file that its bootcheck and hooks read."""

import argparse
import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

from nodegate.baseline.baseline import Baselines
from nodegate.demands.limits import baselines_of
from nodegate.demands.of_site import SiteDemands
from nodegate.errors import UsageError
from nodegate.files.atomic import replacing
from nodegate.inventory import inventory
from nodegate.judge.waivers import signed_gaps
from nodegate.node import Node
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT
from nodegate.site import site_file
from nodegate.site.order import ordered
from nodegate.site.site_file import beside
from nodegate.subjects.order import check_orders


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = command.add_argument
    option("nodes", metavar="NODE|all", help="a node, all, or a pattern as of --nodes")
    option("--inventory", action="append", required=True, metavar="FILE|-", help="the nodes; repeatable")
    option("--baseline", action="append", default=[], type=Path, metavar="FILE", help="the site's limits; repeatable")
    option("--policy", default="", metavar="NAME|FILE", help="the policy, whose limits hold on the nodes too")
    option("--site", type=Path, metavar="FILE", help="whose order holds (site.yaml beside the inventory)")
    option("--to", type=Path, metavar="DIR", help="write DIR/NODE.yaml for each node; else stdout")


def run(asked: argparse.Namespace) -> int:
    """Write the demands of the nodes; returns 0.

    Raises:
        UsageError: inventory, baseline or policy that a run would refuse, or a folder that cannot be written.
    """
    read = inventory.read(asked.inventory, stdin=sys.stdin)
    nodes: Sequence[Node] = read.select(asked.nodes)
    if found := asked.site or beside(asked.inventory, asked.baseline):
        nodes = ordered(nodes, site_file.read(found), read.groups)
    Baselines.read(asked.baseline, policy=policy_file.read(asked.policy or DEFAULT).limits)  # its errors name the files
    site = SiteDemands.read(asked.baseline, asked.policy)
    made = dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    demands = [site.of(node, made) for node in nodes]
    # what no node could use is refused, as a run would before it starts; the embedded files are the same in all
    baselines_of(demands[0]).check_expected(nodes)
    check_orders(nodes)
    signed_gaps(nodes)
    if asked.to is None:
        if len(demands) > 1:
            raise UsageError(f"{len(demands)} nodes, each with a file of its own", hint="add --to DIR")
        sys.stdout.write(demands[0].text)
        return 0
    try:
        asked.to.mkdir(parents=True, exist_ok=True)
        for each in demands:
            with replacing(asked.to / f"{each.node}.yaml") as file:
                file.write(each.text)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(asked.to)) from None
    place = "/etc/nodegate/demands.yaml"
    print(f"{len(demands)} written into {asked.to}; each goes to {place} of its node, root's, mode 644")
    return 0
