"""Demands of an inventory: judged by a bootcheck that has them as a file, read as it was written, or refused."""

import json
import os
import socket
from typing import Any

import pytest
from fleet.machine import Machine
from hypothesis import given
from hypothesis import strategies as st

from nodegate.demands import here
from nodegate.demands.demands import Demands, Embedded, parse
from nodegate.errors import UsageError
from nodegate.exit_codes import Exit
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import LINE_LENGTH, bootcheck

OWN, SERIAL = "gpu01", "7XK0001"  # of the made machine
LIMIT = {"gpu.power_limit_w": {"value": 720, "unit": "W", "source": "a test"}}


@pytest.fixture(autouse=True)
def own_name(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: OWN)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)


def judged(demands, environ=None, **more):
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


def asked(**variables):
    return Demands(OWN, {f"nodegate_{name}": value for name, value in variables.items()}, place="demands.yaml")


HOLDS = {
    "ports": [29500],
    "mounts": ["/mnt/data", "/scratch:ro"],
    "require": ["nvidia-smi"],
    "expect": {"driver": "550.163.01", "gpus": 8},
}
HOLDS |= {"serial": SERIAL, "gpus": 8, "rails": 8, "platform": "hgx-h100-8"}
BROKEN = {
    "ports": ([22], "port 22: another program listens on it"),
    "mounts": (["/checkpoints"], "/checkpoints: not mounted"),
    "require": (["site-tool"], "site-tool: not installed"),
    "expect": ({"driver": "580.95.05"}, "driver: version 550.163.01"),
    "gpus": (4, "GPUs"),
    "rails": (9, "rails"),
}


def test_what_holds_is_fit_and_was_judged():
    without, outcome = judged(None), judged(asked(**HOLDS))
    assert (outcome.exit, outcome.demands) == (Exit.FIT, asked(**HOLDS).sha256)
    assert without.demands == ""
    skipped = {record.check for record in without.records if record.verdict.value == "skip"}
    passed = {record.check for record in outcome.records if record.verdict.value == "pass"}
    ordered = {"ordered.versions", "ordered.parts"}
    assert skipped & passed == {"host.ports", "host.mounts", "software.required", "platform.serial", *ordered}
    assert json.loads(outcome.to_json())["demands"] == outcome.demands


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_unfit_and_named(name):
    value, words = BROKEN[name]
    outcome = judged(asked(**{**HOLDS, name: value}))
    assert outcome.exit is Exit.UNFIT
    assert words in "\n".join(outcome.lines)


def embedded(limits):
    return Embedded("site.yaml", {"platform": "hgx-h100-8", "limits": limits})


AGREED = {key: entry | {"clause": "1"} for key, entry in LIMIT.items()}
OF_BASELINE = Demands(OWN, {}, baselines=(embedded(LIMIT),), place="d")
OF_POLICY = Demands(OWN, {}, policy=Embedded("p.yaml", {"policy": "p", "limits": {"*": AGREED}}), place="d")


@pytest.mark.parametrize("demands", [OF_BASELINE, OF_POLICY], ids=["baseline", "policy"])
def test_embedded_limits_hold(demands):
    found = judged(demands)
    (record,) = [each for each in found.records if each.check == "power.limit"]
    assert found.exit is Exit.UNFIT, found.line
    assert record.verdict.value == "fail"


def test_the_command_line_wins(tmp_path):
    assert judged(asked(platform="l40s")).exit is not Exit.FIT
    assert judged(asked(platform="l40s"), expected={"platform": "hgx-h100-8"}).exit is Exit.FIT
    mild = tmp_path / "mild.yaml"
    mild.write_text(json.dumps(embedded({}).content))
    assert judged(OF_BASELINE, baselines=[mild]).exit is Exit.UNFIT
    own = {key: {**entry, "value": 690} for key, entry in LIMIT.items()}
    mild.write_text(json.dumps(embedded(own).content))
    assert judged(OF_BASELINE, baselines=[mild]).exit is Exit.FIT


WRONG = {
    "an unknown variable": {"nodegate_mount": ["/x"]},
    "a wrong value": {"nodegate_ports": [99999]},
    "an unknown item": {"nodegate_expect": {"drivr": "1"}},
    "an unknown claim": {"nodegate_gaps": {"x": {"reason": "r", "owner": "o", "expires": "2999-01-01"}}},
    "an unknown platform": {"nodegate_platform": "hgx-h100-9"},
    "a slip": {"nodegate_limits": {"gpu.power_limit_w": 0.7}},
}


def test_a_baseline_of_another_release_is_no_verdict_on_the_node():
    newer = Embedded("a.yaml", {"platform": "x", "newer": 1})
    outcome = judged(Demands(OWN, {}, baselines=(newer,), place="d.yaml"))
    assert (outcome.exit, "d.yaml/a.yaml" in outcome.line) == (Exit.UNKNOWN, True)


@pytest.mark.parametrize("variables", WRONG.values(), ids=list(WRONG))
def test_wrong_demands_are_no_verdict_on_the_node(variables):
    outcome = judged(Demands(OWN, variables, place="/etc/nodegate/demands.yaml"))
    assert outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith("could not tell: /etc/nodegate/demands.yaml: gpu01: ")
    assert len(outcome.line) <= LINE_LENGTH


def unread(sections):
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
def test_the_chassis_says_whose_demands_they_are(node, serial, change, *, is_ours):
    demands = Demands(node, {"nodegate_serial": serial, "nodegate_gpus": 4}, place="d.yaml")
    outcome = judged(demands, **({"change": change} if change else {}))
    assert (outcome.exit is Exit.UNFIT) is is_ours
    assert is_ours or outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith(f"could not tell: d.yaml: the demands of {node}") is not is_ours


@pytest.mark.parametrize(("expires", "code"), [("2999-01-01", Exit.FIT), ("2001-01-01", Exit.UNKNOWN)])
def test_a_gap_counts_while_the_site_signs_for_it(expires, code):
    def lost_lines(sections):
        sections["kernel_log"]["data"]["dropped"] = 5000

    gap = {"reason": "ticket", "owner": "lee", "expires": expires}
    assert judged(asked(gaps={"logs": gap}), change=lost_lines).exit is code


def test_the_lock_is_that_of_the_inventory():
    seen = []
    document = Machine.hgx_h100().document()

    def measure(node):
        seen.append(node.connection.lock)
        return Evidence(node.name, "facts", 0.0, 0.0, document=document)

    bootcheck(demanded=lambda: asked(lock="/run/lock/other.lock"), measure=measure)
    assert seen == ["/run/lock/other.lock"]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MASTER_PORT": "22"}, "unfit: port 22: another program listens"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "gpu01.cluster"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "::1"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "SLURM_LOCALID": "0"}, "unfit: port 22"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "gpu02"}, "; MASTER_PORT 22 not looked at: gpu02 opens it"),
        ({"MASTER_PORT": "22", "MASTER_ADDR": "192.0.2.9"}, "; MASTER_PORT 22 not looked at: 192.0.2.9 opens it"),
        ({"MASTER_PORT": "22", "SLURM_LOCALID": "3"}, "; MASTER_PORT 22 not looked at: the node's first task does"),
        ({"MASTER_PORT": "29500"}, "fit: "),
        ({"MASTER_PORT": "port"}, "could not tell: MASTER_PORT=port is not a TCP port"),
        ({"MASTER_PORT": ""}, "fit: "),
    ],
    ids=repr,
)
def test_the_port_of_the_job_is_looked_at_where_it_will_be_opened(environ, words):
    for demands in (None, asked(ports=[29501])):
        outcome = judged(demands, environ)
        assert words in outcome.line
        assert outcome.exit is not (Exit.UNFIT if "not looked at" in words else None)


@pytest.mark.parametrize(
    "demands",
    [asked(platform="hgx-h200-8"), asked(platform="l40s"), asked(limits={"gpu.power_limit_w": 70})],
    ids=["another board", "a card", "a limit that lost a zero"],
)
def test_demands_that_the_machine_contradicts_drain_no_node(demands):
    outcome = judged(demands)
    assert outcome.exit is Exit.UNKNOWN
    assert "your settings contradict the machine" in outcome.line


# The file: it is read as it was written, by this node alone, or refused in one line


WHOLE = Demands(
    OWN,
    {"nodegate_ports": [29500], "nodegate_expect": {"driver": "550.163.01"}, "nodegate_limits": {"gpu.count": 8}},
    "hgx-h100-8",
    (Embedded("site.yaml", {"platform": "hgx-h100-8", "limits": {}}),),
    Embedded("strict.yaml", {"policy": "strict", "limits": {"*": {}}}),
    made="2026-11-25T18:00:00Z",
)
READABLE = json.loads(WHOLE.text)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "demands.yaml"
    found.write_text(WHOLE.text)
    found.chmod(0o644)
    return found


@given(st.dictionaries(st.text(min_size=1).map(lambda name: f"nodegate_{name}"), values, max_size=4))
def test_what_is_written_is_read(variables):
    written = Demands(OWN, variables, made="now")
    raw = written.text.encode("utf-8", "backslashreplace")
    found = parse(raw, "demands.yaml")
    assert (found.node, found.variables, found.sha256) == (written.node, written.variables, written.sha256)


def test_the_hash_is_of_what_is_demanded_and_not_of_the_time():
    assert Demands(OWN, {"nodegate_ports": [1]}, made="a").sha256 == Demands(OWN, {"nodegate_ports": [1]}).sha256
    different = [
        *(Demands(OWN, {"nodegate_ports": [1]}), Demands("gpu02", {"nodegate_ports": [1]})),
        *(Demands(OWN, {"nodegate_ports": ["1"]}), Demands(OWN, {"nodegate_ports": [1]}, "l40s")),
        Demands(OWN, {"nodegate_ports": [1]}, "", (Embedded("a", {}),)),
        Demands(OWN, {"nodegate_ports": [1]}, policy=Embedded("a", {})),
    ]
    assert len({each.sha256 for each in different}) == len(different)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2, "1": 3}, object()], ids=["nan", "inf", "keys", "object"]
)
def test_what_no_json_can_say_is_refused(value):
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        _ = Demands(OWN, {"nodegate_limits": value}).text


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("value", ["gone", None, 1, "x", [], [1], {"x": 1}, {"file": 1, "content": {}}], ids=repr)
def test_another_value_of_any_key_is_refused(key, value):
    changed = {**READABLE, key: value}
    if value == "gone":
        del changed[key]
    if key == "made" and isinstance(value, str) and value != "gone":
        assert parse(json.dumps(changed).encode(), "f").sha256 == WHOLE.sha256
        return
    with pytest.raises(UsageError) as said:
        parse(json.dumps(changed).encode(), "f")
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("end", range(0, len(WHOLE.text) - 2, 37))
def test_a_file_that_was_cut_off_is_refused(end):
    with pytest.raises(UsageError, match="damaged"):
        parse(WHOLE.text[:end].encode(), "f")


@given(st.integers(0, len(WHOLE.text.encode()) - 1), st.integers(0, 255))
def test_no_byte_of_what_is_demanded_can_be_changed(at, value):
    raw = bytearray(WHOLE.text.encode())
    raw[at] = value
    try:
        found = parse(bytes(raw), "f")
    except UsageError:
        return
    assert (found.sha256, found.variables) == (WHOLE.sha256, WHOLE.variables)


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"\xff", b"[" * 9000, b"platform: x\n", b'{"a":1,"a":2}'])
def test_what_is_no_demands_file_is_refused(raw):
    with pytest.raises(UsageError, match=r"not a demands file|schema"):
        parse(raw, "f")


def test_a_later_schema_is_named():
    with pytest.raises(UsageError, match=r"schema 'nodegate.demands/2', this release reads nodegate.demands/1"):
        parse(json.dumps({**READABLE, "schema": "nodegate.demands/2"}).encode(), "f")


def test_the_file_is_found(file, monkeypatch, tmp_path):
    monkeypatch.setattr(here, "FILE", tmp_path / "none.yaml")
    assert here.demands_here() is None
    monkeypatch.setattr(here, "FILE", file)
    for found in (here.demands_here(), here.demands_here(file)):
        assert found is not None
        assert (found.sha256, found.place) == (WHOLE.sha256, str(file))
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert here.demands_here(link) is not None
    with pytest.raises(UsageError, match="No such file"):
        here.demands_here(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("mode", "of_folder", "said"),
    [
        *((mode, 0o755, "other users can write it - give it to root alone") for mode in (0o664, 0o646, 0o666)),
        (0o644, 0o777, "other users can write into its folder"),
    ],
)
def test_one_that_others_can_write_is_refused(file, mode, of_folder, said):
    file.chmod(mode)
    file.parent.chmod(of_folder)
    with pytest.raises(UsageError, match=said):
        here.demands_here(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_that_is_not_roots_is_refused(file):
    os.chown(file, 65534, -1)
    with pytest.raises(UsageError, match="it does not belong to root"):
        here.demands_here(file)


@pytest.mark.parametrize("kind", ["folder", "pipe", "nowhere", "zero", "large"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "demands.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b" " * (5 << 20))
        path.chmod(0o644)
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else "no-such-file")
    with pytest.raises(UsageError, match=r"cannot be used|larger than"):
        here.demands_here(path)


@pytest.mark.parametrize(
    ("node", "is_ours"),
    [
        *(("gpu01", True), ("GPU01", True), ("gpu01.cluster.local", True), ("gpu01.", True)),
        *(("gpu02", False), ("gpu010", False), ("10.0.0.1", False), ("", False)),
    ],
)
def test_it_is_for_the_node_of_this_name(file, node, *, is_ours):
    file.write_text(Demands(node, {}).text)
    if is_ours:
        assert here.demands_here(file) is not None
        return
    with pytest.raises(UsageError, match=f"the demands of {node}, this is gpu01"):
        here.demands_here(file)


def test_two_domains_are_two_machines(file, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu01.east")
    file.write_text(Demands("gpu01.west", {}).text)
    with pytest.raises(UsageError, match=r"demands of gpu01\.west"):
        here.demands_here(file)


def test_slurms_name_for_it_will_do(file, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "ip-10-0-0-1")
    monkeypatch.setenv("SLURMD_NODENAME", OWN)
    assert here.demands_here(file) is not None
