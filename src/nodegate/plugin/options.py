"""The options that nodegate adds to pytest, and what they mean together."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodegate.engines import context as kube
from nodegate.notices.target import FORMS
from nodegate.past.record import DEFAULT
from nodegate.profile import Profile
from nodegate.run.settings import QUIET, Settings
from nodegate.words.catalogue import LANGUAGES

RIVAL = "pytest-ansible"  # it defines --inventory too; two definitions stop pytest before it starts

_NEED_NODES = ("nodes", "run_dir", "policy", "site")  # never in a pytest.ini: without nodes they are a mistake


def add(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Define the options, unless pytest-ansible is installed and the command line has none of them."""
    if not _ours(pluginmanager):
        return
    group = parser.getgroup("nodegate", "nodegate: are these GPU nodes fit for production?")

    if pluginmanager.hasplugin(RIVAL):  # was first: take --inventory from it, it keeps --ansible-inventory
        group._arggroup.conflict_handler = "resolve"  # noqa: SLF001 - argparse's own way, which pytest does not offer

    def option(name: str, **settings: Any) -> None:
        group.addoption(name, dest=f"nodegate_{name.lstrip('-').replace('-', '_')}", **settings)

    option("--inventory", action="append", default=[], metavar="FILE|HOST,HOST|-", help="the nodes; repeatable")
    option(kube.OPTION, action=kube.Context, metavar="NAME", help=kube.HELP)
    option("--nodes", default="", metavar="PATTERN", help="a subset: gpu[001-128], gpu:!gpu005:&rack1, a group")
    profiles = [each.value for each in Profile]
    option("--profile", default=None, choices=profiles, help="which checks, with how much load (default: delivery)")
    option("--baseline", action="append", default=[], metavar="FILE", help="more baselines; later ones win; repeatable")
    option("--policy", default="", metavar="NAME|FILE", help="what must hold for acceptance (default, strict-h100, ..)")
    option(
        "--site", default=None, metavar="FILE", help="what a site sets for its runs (site.yaml beside the inventory)"
    )
    option(
        "--run-dir", default=None, metavar="DIR", help="where the run folder goes (default: reports/<time>-<profile>)"
    )
    option("--replay", default=None, metavar="DIR", help="judge the evidence of an earlier run; contacts no node")
    option("--resume", default=None, metavar="DIR", help="continue a run: measure only what has no evidence yet")
    option("--active", action="store_true", help="put load on the nodes in profile bootcheck or troubleshoot too")
    option("--passive", action="store_true", help="put no load on any node: skip what must be measured under load")
    option("--burn", default="", metavar="TIME", help="how long the GPUs are burned: 90s, 10m, 24h (by profile)")
    option("--hang-after", default="", metavar="TIME", help="time limit of a collective: 30s, 5m (by profile)")
    option("--pairs", default=None, choices=["few", "all"], help="NIC pairs between nodes: three rounds (few), or all")
    option("--tools", default=None, metavar="DIR", help="tools to bring to the nodes for this run")
    option("--record", default=None, metavar="FILE", help="what earlier runs found and measured (reports/fleet.sqlite)")
    option("--history", default=None, metavar="FILE", help="the old name of --record, for this release")
    option("--notice", action="append", default=[], metavar="TARGET", help=f"gets what is new; repeatable: {FORMS}")
    option("--lang", default=None, choices=LANGUAGES, help="of report, answer and notices (site file's, or en)")
    option("--all-results", action="store_true", help="write what is healthy in full too (nodegate explain running)")
    option("--job-log", action="append", default=[], metavar="LOG", help="troubleshoot: the job's logs; repeatable")
    option("--metrics", default="", metavar="URL", help="troubleshoot: a Prometheus that knows the job's metrics")
    for name, what in (("token", "a bearer token"), ("header", "further headers"), ("ca", "certificates")):
        option(f"--metrics-{name}-file", default=None, metavar="FILE", help=f"{what} for the server of --metrics")
    option("--waivers", default=None, metavar="FILE", help="accepted deviations, each with owner and expiry")
    option(
        "--host-keys",
        default=None,
        choices=["strict", "accept-new", "off"],
        help="how to treat unknown SSH host keys; strict wins over the inventory",
    )
    option(
        "--known-hosts", default=None, metavar="FILE", help="host keys of this project, in addition to the user's own"
    )
    option("--openssh-config", default=None, metavar="FILE", help="SSH configuration instead of ~/.ssh/config")
    option("--nodes-at-once", type=int, default=64, metavar="N", help="how many nodes are measured at once")


def is_active(given: argparse.Namespace) -> bool:
    """Whether these options ask for a run over nodes."""
    return any(getattr(given, f"nodegate_{name}", None) for name in ("inventory", "replay", "resume"))


def settings(config: pytest.Config) -> Settings:
    """The settings of the run.

    Raises:
        pytest.UsageError: options that contradict each other.
    """

    def given(name: str) -> Any:
        return config.getoption(f"nodegate_{name}", default=None)

    def path(name: str) -> Path | None:
        return Path(given(name)) if given(name) else None

    if given("inventory") is None:
        return Settings()
    active = given("inventory") or given("replay") or given("resume")
    _refuse_contrary_loads(given)
    resumed = (None,) if given("resume") else ()
    if given("job_log") and given("profile") not in (None, Profile.TROUBLESHOOT.value):
        raise pytest.UsageError("--job-log is for --profile troubleshoot")
    if given("metrics") and (given("replay") or given("profile") not in (*resumed, Profile.TROUBLESHOOT.value)):
        raise pytest.UsageError("--metrics is for --profile troubleshoot, and not for --replay: that asks no server")
    idle = [name for name in _NEED_NODES if given(name) and not active]
    if idle:
        raise pytest.UsageError(f"--{idle[0].replace('_', '-')} is for a run over nodes: add --inventory FILE")
    if given("replay") and given("resume"):
        raise pytest.UsageError("--replay judges a run again, --resume continues it: use one of them")
    if given("resume") and given("run_dir"):
        raise pytest.UsageError("--resume continues in the folder of that run: leave out --run-dir")
    access = None
    if given("metrics"):
        from nodegate.job.prometheus import Access  # noqa: PLC0415 - ssl, only where a server is asked

        access = Access(given("metrics"), *(path(f"metrics_{each}_file") for each in ("token", "header", "ca")))
    texts: dict[str, Any] = {
        name: given(name) or "" for name in ("nodes", "policy", "burn", "hang_after", "pairs", "lang")
    }
    paths: dict[str, Any] = {
        name: path(name) for name in ("run_dir", "replay", "resume", "site", "waivers", "known_hosts", "tools")
    }
    return Settings(
        **texts,
        **paths,
        inventory=tuple(given("inventory")),
        profile=Profile(given("profile")) if given("profile") else None,
        baselines=tuple(map(Path, given("baseline"))),
        host_keys=given("host_keys"),
        ssh_config=path("openssh_config"),
        nodes_at_once=given("nodes_at_once"),
        load=True if given("active") else False if given("passive") else None,
        all_results=given("all_results"),
        job_logs=tuple(given("job_log")),
        metrics=access,
        notices=tuple(given("notice")),
        record=path("record") or path("history") or DEFAULT,
    )


def _refuse_contrary_loads(given: Callable[[str], object]) -> None:
    """Refuse options for the load on the nodes in a run that puts no load on them."""
    if given("active") and given("passive"):
        raise pytest.UsageError("--active puts load on the nodes, --passive does not: use one of them")
    about_load = next((name for name in ("burn", "hang_after", "pairs") if given(name)), "")
    if not about_load:
        return
    option = f"--{about_load.replace('_', '-')}"
    if given("passive"):
        raise pytest.UsageError(f"{option} is for load on the nodes, --passive puts none on them: use one of them")
    profile = given("profile")
    if profile in [each.value for each in QUIET] and not given("active"):
        raise pytest.UsageError(f"{option} is for load on the nodes, --profile {profile} puts none: add --active")


def _ours(pluginmanager: pytest.PytestPluginManager) -> bool:
    """Whether --inventory is nodegate's in this process.

    If pytest-ansible is installed too, it keeps its option until a command line has one of nodegate's; then it loses
    the option for this run, or is disabled for it. Otherwise the option is nodegate's.
    """
    from importlib.util import find_spec  # noqa: PLC0415

    if pluginmanager.is_blocked(RIVAL) or find_spec("pytest_ansible") is None:
        return True
    config = pluginmanager.get_plugin("pytestconfig")
    words = [str(word) for word in config.invocation_params.args] if config else []
    if not any(word.partition("=")[0] in ("--inventory", "--replay", "--resume") for word in words):
        return False
    if not pluginmanager.hasplugin(RIVAL):
        pluginmanager.set_blocked(RIVAL)
    return True
