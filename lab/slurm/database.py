"""slurmdbd on MariaDB on the controller of a cluster, which then keeps the events of its nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab.slurm import config

if TYPE_CHECKING:
    from lab.nodes.node import LabNode
    from lab.slurm.cluster import Cluster

PACKAGES = ("mariadb-server", "slurmdbd")
_LIMIT_S = 60.0
_SERVER = """\
AuthType=auth/munge
DbdHost=gpu-1
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageUser=slurm
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
_CLIENT = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=gpu-1\n"
_SQL = """
create database slurm_acct_db; create user slurm@localhost identified via unix_socket;
grant all on slurm_acct_db.* to slurm@localhost"""


def prepare(node: LabNode) -> None:
    """Before a node boots: the cluster starts without a database, which it could not do with one that is empty."""
    for unit in ("mariadb", "slurmdbd"):
        (node.root / f"etc/systemd/system/multi-user.target.wants/{unit}.service").unlink(missing_ok=True)
    file = node.root / "etc/slurm/slurmdbd.conf"
    file.write_text(_SERVER)
    config.own(node, file, "slurm", 0o600)


def start(slurm: Cluster) -> None:
    """Start the database, make it known to the cluster, and wait until it is."""
    head = slurm.controller
    head.run("systemctl", "start", "mariadb", limit_s=_LIMIT_S)
    head.run("mysql", "-e", _SQL)
    head.run("systemctl", "start", "slurmdbd", limit_s=_LIMIT_S)
    for node in slurm.lab.nodes:
        file = node.root / "etc/slurm/slurm.conf"
        file.write_text(_CLIENT + file.read_text())
    time.sleep(1)
    slurm.wait_for(lambda: head.run("sacctmgr", "-nP", "show", "cluster", check=False) or _added(head), "lab")
    head.run("systemctl", "restart", "slurmctld", limit_s=_LIMIT_S)
    for node in slurm.workers:
        node.run("systemctl", "restart", "slurmd", limit_s=_LIMIT_S)
        slurm.wait_for(lambda node=node: f"{slurm.state(node)}.", "idle.")  # type: ignore[misc]


def _added(head: LabNode) -> str:
    return head.run("sacctmgr", "-i", "add", "cluster", "lab", check=False) and ""
