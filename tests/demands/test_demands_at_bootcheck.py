"""What an inventory demands is judged by a bootcheck that has it as a file: each kind of demand, whose file it is."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fleet.machine import Machine

from nodegate.demands.demands import Demands, Embedded
from nodegate.exit_codes import Exit
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import LINE_LENGTH, Outcome, bootcheck

OWN, SERIAL = "gpu01", "7XK0001"  # of the made machine
LIMIT = {"gpu.power_limit_w": {"value": 720, "unit": "W", "source": "a test"}}


@pytest.fixture(autouse=True)
def own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: OWN)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)


def judged(demands: Demands | None, environ: Mapping[str, str] | None = None, **more: Any) -> Outcome:
    document: Any = Machine.hgx_h100().document()
    document["sections"]["software"]["data"]["tools"]["site-tool"] = ""  # was looked for, and is not there
    if "change" in more:
        more.pop("change")(document["sections"])
    return bootcheck(
        demanded=lambda: demands,
        environ=environ,
        measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=document),
        **more,
    )


def asked(**variables: object) -> Demands:
    return Demands(OWN, {f"nodegate_{name}": value for name, value in variables.items()}, place="demands.yaml")


HOLDS = {
    "ports": [29500],
    "mounts": ["/mnt/data", "/scratch:ro"],
    "require": ["nvidia-smi"],
    "expect": {"driver": "550.163.01", "gpus": 8},
    "serial": SERIAL,
    "gpus": 8,
    "rails": 8,
    "platform": "hgx-h100-8",
}
BROKEN = {
    "ports": ([22], "port 22: another program listens on it"),
    "mounts": (["/checkpoints"], "/checkpoints: not mounted"),
    "require": (["site-tool"], "site-tool: not installed"),
    "expect": ({"driver": "580.95.05"}, "driver: version 550.163.01"),
    "gpus": (4, "GPUs"),
    "rails": (9, "rails"),
}


def test_what_holds_is_fit_and_was_judged() -> None:
    without, outcome = judged(None), judged(asked(**HOLDS))
    assert (outcome.exit, outcome.demands) == (Exit.FIT, asked(**HOLDS).sha256)
    assert without.demands == ""
    skipped = {record.check for record in without.records if record.verdict.value == "skip"}
    passed = {record.check for record in outcome.records if record.verdict.value == "pass"}
    assert skipped & passed == {
        *("host.ports", "host.mounts", "software.required", "platform.serial"),
        *("ordered.versions", "ordered.parts"),
    }
    assert json.loads(outcome.to_json())["demands"] == outcome.demands


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_unfit_and_named(name: str) -> None:
    value, words = BROKEN[name]
    outcome = judged(asked(**{**HOLDS, name: value}))
    assert outcome.exit is Exit.UNFIT
    assert words in "\n".join(outcome.lines)
    assert judged(asked(**HOLDS)).exit is Exit.FIT


@pytest.mark.parametrize(
    "demands",
    [
        Demands(OWN, {}, baselines=(Embedded("site.yaml", {"platform": "hgx-h100-8", "limits": LIMIT}),), place="d"),
        Demands(
            OWN,
            {},
            policy=Embedded(
                "p.yaml",
                {"policy": "p", "limits": {"*": {key: {**entry, "clause": "1"} for key, entry in LIMIT.items()}}},
            ),
            place="d",
        ),
    ],
    ids=["baseline", "policy"],
)
def test_embedded_limits_hold(demands: Demands) -> None:
    found = judged(demands)
    (record,) = [each for each in found.records if each.check == "power.limit"]
    assert found.exit is Exit.UNFIT, found.line
    assert record.verdict.value == "fail"


def test_the_command_line_wins(tmp_path: Path) -> None:
    assert judged(asked(platform="l40s")).exit is not Exit.FIT
    assert judged(asked(platform="l40s"), expected={"platform": "hgx-h100-8"}).exit is Exit.FIT
    mild = tmp_path / "mild.yaml"
    mild.write_text(json.dumps({"platform": "hgx-h100-8", "limits": {}}))
    embedded = Demands(OWN, {}, baselines=(Embedded("a.yaml", {"platform": "hgx-h100-8", "limits": LIMIT}),))
    assert judged(embedded, baselines=[mild]).exit is Exit.UNFIT
    own = {key: {**entry, "value": 690} for key, entry in LIMIT.items()}
    mild.write_text(json.dumps({"platform": "hgx-h100-8", "limits": own}))
    assert judged(embedded, baselines=[mild]).exit is Exit.FIT


WRONG = {
    "an unknown variable": {"nodegate_mount": ["/x"]},
    "a wrong value": {"nodegate_ports": [99999]},
    "an unknown item": {"nodegate_expect": {"drivr": "1"}},
    "an unknown claim": {"nodegate_gaps": {"x": {"reason": "r", "owner": "o", "expires": "2999-01-01"}}},
    "an unknown platform": {"nodegate_platform": "hgx-h100-9"},
    "a slip": {"nodegate_limits": {"gpu.power_limit_w": 0.7}},
}


@pytest.mark.parametrize("variables", WRONG.values(), ids=list(WRONG))
def test_wrong_demands_are_no_verdict_on_the_node(variables: dict[str, object]) -> None:
    outcome = judged(Demands(OWN, variables, place="/etc/nodegate/demands.yaml"))
    assert outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith("could not tell: /etc/nodegate/demands.yaml: gpu01: ")
    assert len(outcome.line) <= LINE_LENGTH


def test_a_baseline_of_another_release_is_no_verdict_on_the_node() -> None:
    outcome = judged(Demands(OWN, {}, baselines=(Embedded("a.yaml", {"platform": "x", "newer": 1}),), place="d.yaml"))
    assert outcome.exit is Exit.UNKNOWN
    assert "d.yaml/a.yaml" in outcome.line


def unread(sections: Any) -> None:
    sections["system"]["data"]["dmi"]["product_serial"] = {"why": "denied", "detail": "root only"}


@pytest.mark.parametrize(
    ("node", "serial", "change", "is_ours"),
    [
        (OWN, SERIAL, None, True),
        (OWN, "another", None, False),
        ("alias", SERIAL, None, True),
        ("alias", "another", None, False),
        ("alias", SERIAL, unread, False),
        (OWN, "", None, True),
    ],
)
def test_the_chassis_says_whose_demands_they_are(
    node: str, serial: str, change: Callable[[Any], None] | None, *, is_ours: bool
) -> None:
    demands = Demands(node, {"nodegate_serial": serial, "nodegate_gpus": 4}, place="d.yaml")
    outcome = judged(demands, **({"change": change} if change else {}))
    assert (outcome.exit is Exit.UNFIT) is is_ours
    if not is_ours:
        assert outcome.exit is Exit.UNKNOWN
        assert outcome.line.startswith(f"could not tell: d.yaml: the demands of {node}")


@pytest.mark.parametrize(("expires", "code"), [("2999-01-01", Exit.FIT), ("2001-01-01", Exit.UNKNOWN)])
def test_a_gap_counts_while_the_site_signs_for_it(expires: str, code: Exit) -> None:
    def lost_lines(sections: Any) -> None:
        sections["kernel_log"]["data"]["dropped"] = 5000

    gap = {"reason": "ticket", "owner": "lee", "expires": expires}
    assert judged(asked(gaps={"logs": gap}), change=lost_lines).exit is code


def test_the_lock_is_that_of_the_inventory() -> None:
    seen = []
    document = Machine.hgx_h100().document()

    def measure(node: Any) -> Evidence:
        seen.append(node.connection.lock)
        return Evidence(node.name, "facts", 0.0, 0.0, document=document)

    bootcheck(demanded=lambda: asked(lock="/run/lock/other.lock"), measure=measure)
    assert seen == ["/run/lock/other.lock"]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MASTER_PORT": "22"}, "unfit: port 22: another program listens"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "gpu01.cluster"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "127.0.0.1"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "::1"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "SLURM_LOCALID": "0"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "gpu02"}, "; MASTER_PORT 22 not looked at: gpu02 opens it"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "192.0.2.9"}, "; MASTER_PORT 22 not looked at: 192.0.2.9 opens it"),
        ({"MASTER_PORT": "22", "SLURM_LOCALID": "3"}, "; MASTER_PORT 22 not looked at: the node's first task does"),
        ({"MASTER_PORT": "29500"}, "fit: "),
        ({"MASTER_PORT": "port"}, "could not tell: MASTER_PORT=port is not a TCP port"),
        ({"MASTER_PORT": "0"}, "could not tell: MASTER_PORT=0 is not a TCP port"),
        ({"MASTER_PORT": ""}, "fit: "),
    ],
    ids=repr,
)
def test_the_port_of_the_job_is_looked_at_where_it_will_be_opened(environ: dict[str, str], words: str) -> None:
    for demands in (None, asked(ports=[29501])):
        outcome = judged(demands, environ)
        assert words in outcome.line
        assert outcome.exit is not (Exit.UNFIT if "not looked at" in words else None)


@pytest.mark.parametrize(
    "demands",
    [asked(platform="hgx-h200-8"), asked(platform="l40s"), asked(limits={"gpu.power_limit_w": 70})],
    ids=["another board", "a card", "a limit that lost a zero"],
)
def test_demands_that_the_machine_contradicts_drain_no_node(demands: Demands) -> None:
    outcome = judged(demands)
    assert outcome.exit is Exit.UNKNOWN
    assert "your settings contradict the machine" in outcome.line
