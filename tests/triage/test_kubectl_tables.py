"""What kubectl prints about nodes, pods and events, as a table or as objects, is evidence: its node or pod is named."""

# ruff: noqa: E501 - a line a row

import json

import pytest
import yaml

from nodegate.knowledge.words import Cause
from nodegate.triage import kubectl_objects
from nodegate.triage.triage import triage

NODES = "NAME     STATUS   ROLES    AGE    VERSION\nhgx-01   Ready    <none>   210d   v1.29.4\n"
PODS = "NAME   READY   STATUS    RESTARTS   AGE     IP         NODE     NOMINATED NODE   READINESS GATES\n"
WELL = "w-0    1/1     Running   0          3h20m   10.2.0.1   hgx-01   <none>           <none>\n"
EVENTS = "LAST SEEN   TYPE      REASON    OBJECT    MESSAGE\n"
FOUND = """
k8s_node_shown_not_ready~hgx-07~~hgx-07   NotReady   worker   3d4h   v1.30.1-eks-036c24b
k8s_node_shown_not_ready~a02.dc1~~a02.dc1   NotReady,SchedulingDisabled   <none>   9d   v1.29.4   10.1.0.2   <none>   Ubuntu 22.04.4 LTS
k8s_crash_loop~hgx-09~w-5~w-5   0/1   CrashLoopBackOff   7 (45s ago)   40m   10.2.0.9   hgx-09   <none>   <none>
k8s_crash_loop~~w-5~train   w-5   0/2   Init:CrashLoopBackOff   5 (80s ago)   9m
k8s_pod_failed~hgx-05~w-1~w-1   0/1   Error   0   26m   10.2.2.2   hgx-05   <none>   <none>
k8s_oom~hgx-05~w-1~w-1   0/1   OOMKilled   0   26m   10.2.2.2   hgx-05   <none>   <none>
k8s_pod_pending~~w-1~w-1   0/1   Pending   0   26h   <none>   <none>   <none>   <none>
k8s_pod_not_started~hgx-05~w-1~w-1   0/1   ContainerCreating   0   47m   <none>   hgx-05   <none>   <none>
k8s_pod_lost~hgx-11~w-3~w-3   1/1   Unknown   0   9h   10.2.1.1   hgx-11   <none>   <none>
k8s_image~~w-3~w-3   0/1   InvalidImageName   0   9m
k8s_crash_loop~~w-3~30s   Warning   BackOff   Pod/w-3   Back-off restarting failed container main in pod w-3_train(77)
"""  # the kind, its node and pod, and the row of a table
CONDITION = (
    "Name:   hgx-22\nRoles:  <none>\nConditions:\n"
    "  Ready   Unknown   Mon, 10 Aug 2026 15:34:40 +0000   Mon, 10 Aug 2026 15:36:05 +0000   X   y\n"
)
ROWS = [*(row.split("~") for row in FOUND.strip().splitlines()), ["k8s_node_shown_not_ready", "hgx-22", "", CONDITION]]
HEALTHY = {
    "nodes": NODES + "hgx-02   Ready,SchedulingDisabled   <none>   210d   v1.29.4\n",
    "pods": PODS + WELL + "w-1    0/1     Completed   0   5h   10.2.0.2   hgx-01   <none>   <none>\n",
    "a pod that has just been made": PODS
    + "w-1   0/1   ContainerCreating   0   12s   <none>   hgx-05   <none>   <none>\n",
    "a restart of long ago": PODS + "w-1   1/1   Running   1 (9d ago)   20d   10.2.0.1   hgx-05   <none>   <none>\n",
    "events": EVENTS + "5m   Normal   Scheduled   pod/w-6   Successfully assigned train/w-6 to hgx-01\n",
}


def judged(folder, text, name="kubectl.txt"):
    (folder / name).write_text(text)
    return triage([str(folder)])


def pod(name, node, status):
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "lab/train:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": status}


def container(state, **more):
    return {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 7, "state": state, **more}]}


CRASHES = pod("w-5", "hgx-05", container({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off failed"}}))
RUNS = pod("w-0", "hgx-01", container({"running": {"startedAt": "2026-08-10T10:00:00Z"}}, ready=True))
NO_IMAGE = pod("w-5", "hgx-05", container({"waiting": {"reason": "ImagePullBackOff"}}))
LOST_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "hgx-02"},
    "spec": {"unschedulable": True},
    "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-08-10T15:36:05Z"}]},
}
MOUNT = {
    "apiVersion": "v1",
    "kind": "Event",
    "involvedObject": {"kind": "Pod", "name": "w-6"},
    "reason": "FailedMount",
    "message": "MountVolume.SetUp failed for volume data",
    "source": {"component": "kubelet", "host": "hgx-06"},
    "lastTimestamp": "2026-08-10T15:36:05Z",
    "type": "Warning",
}
OBJECTS = {
    "crash loop": ([RUNS, CRASHES], "k8s_crash_loop", "hgx-05", "w-5"),
    "image": ([RUNS, NO_IMAGE], "k8s_image", "hgx-05", "w-5"),
    "node": ([LOST_NODE], "k8s_node_shown_not_ready", "hgx-02", ""),
    "event": ([MOUNT], "k8s_mount", "hgx-06", "w-6"),
}
FORMS = {"json": lambda items: json.dumps(listed(items), indent=4), "yaml": lambda items: yaml.safe_dump(listed(items))}


def listed(items):
    return {"apiVersion": "v1", "items": items, "kind": "List"}


@pytest.mark.parametrize("head", ["", NODES + PODS + WELL + EVENTS], ids=["alone", "among others"])
@pytest.mark.parametrize("expected", ROWS, ids=lambda row: row[3][:20])
def test_a_row_names_its_node_or_pod(tmp_path, expected, head):
    found = judged(tmp_path, f"{head}{expected[3]}\n")
    assert [found.root.kind.id, found.where.node, found.where.pod] == expected[:3]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_table_without_a_fault_is_no_error(tmp_path, name):
    assert not judged(tmp_path, HEALTHY[name]).failed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_say_what_their_table_says(tmp_path, name, form):
    items, kind, node, of_pod = OBJECTS[name]
    found = judged(tmp_path, FORMS[form](items), f"objects.{form}")
    assert (found.root.kind.id, found.where.node, found.where.pod) == (kind, node, of_pod)


def test_the_line_that_is_named_is_the_one_where_the_object_begins(tmp_path):
    text = FORMS["json"]([RUNS, CRASHES])
    found = judged(tmp_path, text, "pods.json")
    assert text.splitlines()[found.root.line - 3 : found.root.line][0].strip() in ("{", "},")


def test_a_node_of_the_cluster_that_is_not_ready_is_not_blamed_for_an_error_of_the_job(tmp_path):
    (tmp_path / "w-0.log").write_text(
        "2026-08-10 10:00:01 [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to"
    )
    assert judged(tmp_path, NODES + "old-9   NotReady   <none>   9d   v1.29.4\n").cause is Cause.PROGRAM


@pytest.mark.parametrize(
    "text", ['{"apiVersion": "v1", "items": [' * 50_000, "apiVersion: v1\nkind: [", '{"apiVersion": 1}{']
)
def test_what_is_no_object_is_read_as_text(text):
    assert kubectl_objects.as_lines(text) is None


@pytest.mark.parametrize("odd", [None, 7, [], {}, "x", [7, None, {"state": 3}]])
def test_an_odd_object_says_nothing(odd):
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": odd, "spec": odd, "status": {"containerStatuses": odd}}
    assert kubectl_objects.as_lines(json.dumps([one, one][0])) is not None
