"""A run's verdicts on the nodes of a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.kubernetes.cluster import Cluster, gpu_node
from lab.tests.kubernetes.conftest import DEPLOY, NOT_PASSED, ROCE, THEIRS
from nodegate.engines.kubernetes.api import GRANTS

ENFORCE = ("--mode", "enforce")
OF_SILENCE = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")  # no kubelet speaks for these nodes
REJECTED = ("hgx02", "hgx03", "hgx04", "hgx05", "hgx06", "hgx07", "hgx08", "hgx10", *ROCE[1:5])


def taints(kube: Cluster) -> dict[str, list[dict[str, str]]]:
    nodes: list[dict[str, Any]] = json.loads(kube.kubectl("get", "nodes", "-o", "json"))["items"]
    found = {node["metadata"]["name"]: node["spec"].get("taints", []) for node in nodes}
    return {name: [each for each in own if each["key"] not in OF_SILENCE] for name, own in found.items()}


def unfit(kube: Cluster) -> list[str]:
    return [name for name, own in taints(kube).items() if any(each["key"] == "nodegate.io/unfit" for each in own)]


def condition(kube: Cluster, node: str) -> dict[str, str]:
    found: Any = kube.node(node)
    return next((each for each in found["status"]["conditions"] if each["type"] == "NodegateUnfit"), {})


def test_observe_writes_condition_and_event_and_no_taint(fleet: Cluster, run: Path) -> None:
    before = taints(fleet)
    done = fleet.nodegate("kubernetes", "verdict", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hgx03: would be tainted nodegate.io/unfit=gpu_lost, mode observe" in done.stdout
    assert taints(fleet) == before
    said = {node: (found["status"], found["reason"]) for node in ("hgx01", "hgx03", "roce01")
            if (found := condition(fleet, node))}  # fmt: skip
    assert said == {"hgx01": ("False", "Accepted"), "hgx03": ("True", "GpuLost"), "roce01": ("Unknown", "NotAllProven")}
    assert "GPU 3 S/N 1650003000003: off the bus" in condition(fleet, "hgx03")["message"]
    assert "GpuLost" in fleet.kubectl("describe", "node", "hgx03").partition("Events:")[2]
    assert "would be tainted" in fleet.nodegate("kubernetes", "verdict", run).stdout
    events = json.loads(fleet.kubectl("get", "events", "-n", "default", "-o", "json"))["items"]
    ours = [each["involvedObject"]["name"] for each in events if each["source"].get("component") == "nodegate"]
    assert sorted(ours) == sorted(set(ours))  # of a change alone, not of a heartbeat


def test_a_heartbeat_is_five_minutes(fleet: Cluster, run: Path) -> None:
    fleet.nodegate("kubernetes", "verdict", run)
    first = condition(fleet, "hgx03")
    assert fleet.nodegate("kubernetes", "verdict", run).returncode == 0
    assert condition(fleet, "hgx03") == first
    old = json.dumps(
        {"status": {"conditions": [{"type": "NodegateUnfit", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}}
    )
    fleet.kubectl("patch", "node", "hgx03", "--subresource=status", "--type=strategic", "-p", old)
    fleet.nodegate("kubernetes", "verdict", run)
    again = condition(fleet, "hgx03")
    assert again["lastHeartbeatTime"] >= first["lastHeartbeatTime"]
    assert again["lastTransitionTime"] == first["lastTransitionTime"]


def test_breaker_when_all_verdicts_come_at_once(fleet: Cluster, run: Path) -> None:
    done = fleet.nodegate("kubernetes", "verdict", run, *ENFORCE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(unfit(fleet)) == 2  # 5 % of 40: one of each kind
    assert "1 of 34 nodes of NVIDIA-H100-80GB-HBM3 have nodegate.io/unfit, 1 may have (5 %)" in done.stdout, done.stdout
    assert all(condition(fleet, node)["status"] == "True" for node in REJECTED)
    fleet.nodegate("kubernetes", "verdict", run, *ENFORCE)
    assert len(unfit(fleet)) == 2
    wide = fleet.nodegate("kubernetes", "verdict", run, *ENFORCE, "--breaker", "100")
    assert (wide.returncode, sorted(unfit(fleet))) == (0, sorted(REJECTED)), wide.stdout


def test_what_others_set_is_left(fleet: Cluster, run: Path) -> None:
    """Foreign taints, a cordon; and a node keeps not-passed until it has passed."""
    fleet.nodegate("kubernetes", "verdict", run, *ENFORCE)
    after = taints(fleet)
    assert [each for each in after["hgx01"] if each != THEIRS] == []
    assert THEIRS in after["hgx01"]
    assert [each["key"] for each in after["hgx02"]] == [
        *(NOT_PASSED["key"], THEIRS["key"], "node.kubernetes.io/unschedulable"),
        "nodegate.io/unfit",
    ]
    found: Any = fleet.node("hgx02")
    assert found["spec"]["unschedulable"] is True


def test_a_node_that_was_repaired_loses_its_taint(fleet: Cluster, run: Path) -> None:
    fleet.kubectl("taint", "node", "hgx01", "nodegate.io/unfit=gpu_lost:NoSchedule")
    fleet.nodegate("kubernetes", "verdict", run, *ENFORCE)
    assert "hgx01" not in unfit(fleet)


@pytest.mark.parametrize("why", ["joined", "newer", "old", "unknown"])
def test_a_word_that_does_not_hold_changes_no_taint(fleet: Cluster, run: Path, why: str) -> None:
    if why == "joined":  # another machine under the same name
        fleet.kubectl("delete", "node", "hgx09")
        fleet.apply(gpu_node("hgx09", taints=[NOT_PASSED]))
    elif why == "newer":
        newer = "accepted; run of 2099-01-01T00:00:00Z"
        of_it = [{"type": "NodegateUnfit", "status": "True", "reason": "GpuLost", "message": newer}]
        patch = json.dumps({"status": {"conditions": of_it}})
        fleet.kubectl("patch", "node", "hgx01", "--subresource=status", "--type=strategic", "-p", patch)
    more = ("--valid", "0") if why == "old" else ()
    if why == "unknown":  # it could not tell
        fleet.kubectl("taint", "node", "roce01", "nodegate.io/unfit=gpu_lost:NoSchedule")
        bad = {"type": "NodegateUnfit", "status": "True", "reason": "GpuLost", "message": "unfit"}
        patch = json.dumps({"status": {"conditions": [bad]}})
        fleet.kubectl("patch", "node", "roce01", "--subresource=status", "--type=strategic", "-p", patch)
    done = fleet.nodegate("kubernetes", "verdict", run, *ENFORCE, *more)
    others = {"unknown": ("roce01", "nodegate.io/unfit"), "joined": ("hgx09", NOT_PASSED["key"])}
    kept = others.get(why, ("hgx01", NOT_PASSED["key"]))
    assert kept[1] in [each["key"] for each in taints(fleet)[kept[0]]], done.stdout
    if why == "unknown":
        assert condition(fleet, "roce01")["status"] == "True"
    if why == "old":
        assert condition(fleet, "hgx03")["reason"] == "VerdictTooOld"
        assert not unfit(fleet)


@pytest.mark.parametrize(("verb", "resource"), [each for each in GRANTS if "pods" not in each[1]])
def test_a_right_that_is_missing_is_one_clear_message(fleet: Cluster, run: Path, verb: str, resource: str) -> None:
    role = GRANTS[verb, resource]
    kind, name = role.split()[:2]
    fleet.kubectl("apply", "-f", str(DEPLOY / "taint.yaml"))
    bound = [f"{kind.lower()}binding", name, *(["-n", "default"] if kind == "Role" else [])]
    kept = fleet.kubectl("get", *bound, "-o", "json")
    fleet.kubectl("delete", *bound)
    try:
        user = fleet.service_account("nodegate")
        done = fleet.nodegate("kubernetes", "verdict", run, *ENFORCE, "--breaker", "100", user=user)
    finally:
        fleet.kubectl(
            "create",
            "-f",
            "-",
            stdin=json.dumps(
                {**json.loads(kept), "metadata": {"name": name, **({"namespace": "default"} if kind == "Role" else {})}}
            ),
        )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "not allowed" in line]
    assert done.returncode == 2
    assert len(said) == 1, done.stdout
    assert f"not allowed: {verb} {resource}" in said[0]
    assert f"bind it to {role} (deploy/kubernetes)" in said[0]
    assert ("tainted" in done.stdout) == (resource != "nodes"), done.stdout


def test_with_all_its_rights_it_needs_no_more(fleet: Cluster, run: Path) -> None:
    fleet.kubectl("apply", "-f", str(DEPLOY / "taint.yaml"))
    done = fleet.nodegate(
        "kubernetes", "verdict", run, *ENFORCE, "--breaker", "100", user=fleet.service_account("nodegate")
    )
    assert done.returncode == 0, done.stdout
    assert sorted(unfit(fleet)) == sorted(REJECTED)


# It asks for far more than buffers hold and reads none of it: as long as it runs it has the seat of its priority level.
TAKE_THE_SEAT = r"""
import socket, ssl, sys, time
way = socket.create_connection(("10.0.0.1", 443))
way = ssl._create_unverified_context().wrap_socket(way)
ask = f"GET /openapi/v2 HTTP/1.1\r\nHost: kube\r\nAuthorization: Bearer {sys.argv[1]}\r\n\r\n"
way.sendall(ask.encode() * 30)
time.sleep(float(sys.argv[2]))
"""


def one_seat(user: str) -> list[dict[str, object]]:
    """The API server's own way to answer a user with status 429: one request of its at a time."""
    api = "flowcontrol.apiserver.k8s.io/v1"
    none = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    flow = {"priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 2, "rules": [rule]}
    level = {"type": "Limited", "limited": none}
    return [
        {"apiVersion": api, "kind": "PriorityLevelConfiguration", "metadata": {"name": "none"}, "spec": level},
        {"apiVersion": api, "kind": "FlowSchema", "metadata": {"name": "none"}, "spec": flow},
    ]


@pytest.mark.parametrize(("for_s", "code"), [(90, 2), (6, 0)])
def test_a_server_that_throttles_is_waited_for_and_then_left(fleet: Cluster, run: Path, for_s: int, code: int) -> None:
    user = fleet.service_account("nodegate")
    token = json.loads(user.read_text())["users"][0]["user"]["token"]
    fleet.apply(*one_seat("system:serviceaccount:nodegate:nodegate"))
    time.sleep(2.0)
    taken = subprocess.Popen(fleet.space.in_network(sys.executable, "-c", TAKE_THE_SEAT, token, str(for_s)))
    try:
        time.sleep(1.0)
        begun_s = time.monotonic()
        done = fleet.nodegate("kubernetes", "verdict", run, user=user)
        assert done.returncode == code, done.stdout
        assert time.monotonic() - begun_s > 4.0
        assert ("asks to be left alone (waited 30 s)" in done.stderr) == (code == 2), done.stderr
    finally:
        taken.kill()
        taken.wait()
        fleet.kubectl("delete", "flowschema,prioritylevelconfiguration", "none")


def test_a_dead_api_server_changes_nothing(fleet: Cluster, run: Path) -> None:
    fleet.stop("kube-apiserver")
    try:
        done = fleet.nodegate("kubernetes", "verdict", run, *ENFORCE)
        assert done.returncode == 2
        assert done.stderr.startswith("nodegate: nothing was written: https://10.0.0.1: the API server did not answer")
        assert (len(done.stderr.splitlines()), done.stdout) == (1, "")
        none = fleet.nodegate("test", "--inventory", "kubernetes:", "--collect-only", "-q")
        assert none.returncode == 4
        assert (
            "kubernetes:[]: no nodes: https://10.0.0.1: the API server did not answer: Connection refused"
            in none.stdout + none.stderr
        )
    finally:
        fleet.start("kube-apiserver")
        fleet.wait_ready()
    assert unfit(fleet) == []
