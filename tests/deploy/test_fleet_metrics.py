"""metrics.prom of two nights: by a real node_exporter into Prometheus, its alerts and the expressions of the board."""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from fleet.machine import Machine
from job.server import answering, prometheus
from job.sysfs import node_exporter
from support.notice_servers import Server, serving
from support.recorded import run_pytest, write_fleet
from support.sshd import free_port

from deploy.grafana import board
from deploy.prometheus import alert_rules
from lab.processes import wait_until
from nodegate.report.json_file import load

ROOT = Path(__file__).parents[2]
RULES, BOARD = ROOT / "deploy/prometheus/nodegate-fleet.rules.yml", ROOT / "deploy/grafana/nodegate.json"
GUIDE = (ROOT / "docs/guide/metrics.md").read_text("utf-8")
BURN = 'nodegate_measured{node="gpu0003",part="GPU 0",quantity="burn.bf16_tflops"}'
NEEDED = ("promtool", "prometheus", "prometheus-node-exporter", "prometheus-alertmanager")
pytestmark = pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="Debian's prometheus packages")


def _spool(*answers):
    said = {"boot_id": "b", "hook": "slurm-prolog", "exit": 1, "line": "x", "done": "", "demands": "", "causes": []}
    lines = [{**said, "epoch_s": 1.79e9 + at, "sequence": at, "answer": each} for at, each in enumerate(answers)]
    return "".join(json.dumps(each) + "\n" for each in lines)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The second night: gpu0001 is busy, GPU 3 of gpu0002 has memory errors, a hook found gpu0003 unfit, then busy."""
    where = tmp_path_factory.mktemp("site")
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in (1, 2, 3)]
    for night in ("one", "two"):
        if night == "two":
            machines[0].set("jobs", "slurm", ["4711"])
            machines[1].set_gpu(3, "ecc.volatile_uncorrected", 2)
            machines[2].set("hooks", "spool", _spool("fit", "unfit", "busy"))
        shutil.rmtree(where / "recordings", ignore_errors=True)
        inventory = write_fleet(where, machines)
        asked = ["--inventory", str(inventory), "--profile", "nightly", "-q", "-p", "no:cacheprovider"]
        done = run_pytest(where, [str(ROOT / "checks"), *asked])
        assert done.exit_code in (0, 1), done.stdout + done.stderr
        (where / "reports" / night).symlink_to(done.folder.resolve())
    return where / "reports"


@contextmanager
def _alertmanager(folder, webhook):
    address = f"127.0.0.1:{free_port()}"
    receiver = {"name": "site", "webhook_configs": [{"url": webhook}]}
    route = {"receiver": "site", "group_by": ["..."], "group_wait": "0s"}
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump({"route": route, "receivers": [receiver]}))
    command = ["prometheus-alertmanager", f"--config.file={file}", f"--storage.path={folder}/am",
               f"--web.listen-address={address}", "--cluster.listen-address="]  # fmt: skip
    with answering(command, f"http://{address}/-/ready"):
        yield address


def _rows(url, expression):
    asked = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{url}/api/v1/query?{asked}", timeout=30) as answer:  # noqa: S310 - loopback
        return list(json.loads(answer.read())["data"]["result"])


@pytest.fixture(scope="module")
def chain(reports, tmp_path_factory):
    """Prometheus over what the guide's recipe gave node_exporter, and the webhook with what it was told."""
    folder = tmp_path_factory.mktemp("chain")
    (textfiles := folder / "textfiles").mkdir()
    where = {"/var/lib/nodegate/reports": reports, "/var/lib/prometheus/node-exporter": textfiles}
    command = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)[0]
    for path, here in where.items():
        assert path in command
        command = command.replace(path, str(here))
    subprocess.run(["sh", "-euc", command], check=True, timeout=30)
    with node_exporter(folder, textfiles) as hosts, serving(Server()) as hook, _alertmanager(folder, hook.url) as am:
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [am]}]}]},
            "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [hosts.split("/")[2]]}]}],
        }
        with prometheus(folder, yaml.safe_dump(config)) as url:
            end = time.monotonic() + 60
            while not _rows(url, 'ALERTS{alertstate="firing"}') and time.monotonic() < end:
                time.sleep(0.2)
            yield url, hook


def test_promtool_takes_metrics_and_rules_and_the_files_are_those_of_the_tables(reports):
    with (reports / "two" / "metrics.prom").open() as file:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert RULES.read_text("utf-8") == alert_rules.fleet_text()
    assert BOARD.read_text("utf-8") == board.text()
    named = set(re.findall(r"^# TYPE (\w+)", (reports / "two" / "metrics.prom").read_text(), re.MULTILINE))
    named |= {each["name"] for each in alert_rules._rows("fleet_alerts.csv")}
    assert named <= set(re.findall(r"`(\w+)`", GUIDE))


def test_what_the_run_found_is_in_prometheus(reports, chain):
    url, run = chain[0], load(reports / "two")
    found = {(finding.part.index, finding.metric): finding.observed for node in run.nodes for record in node.records
             for finding in record.findings if node.node == "gpu0003"}  # fmt: skip
    (row,) = _rows(url, BURN)
    assert float(row["value"][1]) == found[0, "burn.bf16_tflops"]
    (limit,) = _rows(url, BURN.replace("measured", "measured_limit"))
    assert limit["metric"]["direction"] == "at least"
    assert row["metric"]["serial"] == limit["metric"]["serial"] != ""
    assert not _rows(url, 'nodegate_measured{node="gpu0001"}')
    states = {node.node: {(each.claim, each.state.value) for each in node.claims} for node in run.nodes}
    said = [each["metric"] for each in _rows(url, "nodegate_claim")]
    for node, claims in states.items():
        assert {(each["claim"], each["state"]) for each in said if each["node"] == node} == claims


def test_a_busy_node_has_its_old_time_and_who_was_busy_did_not_look(reports, chain, tmp_path):
    ended = {name: load(reports / name).run.finished_epoch_s for name in ("one", "two")}
    rows = _rows(chain[0], "nodegate_node_last_verdict_timestamp_seconds")
    told = {each["metric"]["node"]: (each["metric"]["verdict"], float(each["value"][1])) for each in rows}
    assert told.keys() == {"gpu0001", "gpu0002", "gpu0003"}
    assert told["gpu0001"][0] != "not-judged"
    assert told["gpu0001"][1] == pytest.approx(ended["one"], abs=0.01)
    assert told["gpu0002"] == ("rejected", pytest.approx(ended["two"], abs=0.01))
    (hook,) = _rows(chain[0], "nodegate_hook_verdict")
    assert (hook["metric"]["node"], hook["metric"]["answer"]) == ("gpu0003", "unfit")
    (at,) = _rows(chain[0], "nodegate_hook_verdict_timestamp_seconds")
    assert float(at["value"][1]) == 1.79e9 + 1
    again = [str(ROOT / "checks"), "--replay", str(reports / "two"), "--run-dir", str(tmp_path / "again"), "-q"]
    run_pytest(reports.parent, [*again, "-p", "no:cacheprovider"])
    lines = (tmp_path / "again" / "metrics.prom").read_text().splitlines()
    seen = {line.split('"')[1]: float(line.split()[-1]) for line in lines if "last_verdict" in line and line[0] != "#"}
    assert max(seen.values()) <= ended["two"] + 0.01, "who judges old evidence again has looked at no node"


def test_every_expression_of_the_board_has_rows(chain):
    panels = [each for each in json.loads(BOARD.read_bytes())["panels"] if each["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(asked) == len(board.panels()) - 3
    for expression in asked:
        rows = _rows(chain[0], re.sub(r"\$(node|quantity)", ".*", expression))
        assert rows, expression
        assert all(row["value"][1] not in ("NaN", "+Inf") for row in rows), expression


def test_an_alert_comes_through_alertmanager_to_a_webhook(chain):
    def told():
        alerts = [each["labels"] | each["annotations"] for got in chain[1].got for each in got.json["alerts"]]
        return [each for each in alerts if each["alertname"] == "NodegateNodeRejected"]

    assert wait_until(told, 60)
    found = told()
    assert {each["node"] for each in found} == {"gpu0002"}
    assert found[0]["summary"] == "gpu0002 is rejected"


# For each alert: what it is told of, the series that bring it, and series that must not. All begin with nodegate_; the
# clock begins at 0, a value comes every 12 hours, and after 9 days is asked.
NODE = {"node": "n"}
VERDICT = 'node_verdict{node="n",verdict="%s"}'
CAUSE = 'cause{node="n",part="GPU 3",serial="7",condition="gpu_lost",severity="%s",class="gpu",waived="%s"}'
CLAIM = 'claim{node="n",claim="compute",state="%s",signed="%s"}'
HOOK = 'hook_verdict{node="n",hook="slurm-prolog",answer="%s"}'
AT = 'node_last_verdict_timestamp_seconds{node="n",verdict="accepted"}'
VALUE = 'measured{node="n",part="GPU 3",serial="%s",quantity="q",unit="W"}'
LIMIT = 'measured_limit{node="n",part="GPU 3",serial="7",quantity="q",unit="W",direction="at %s",kind="baseline"} 1x18'
OF_CAUSE = {**NODE, "part": "GPU 3", "serial": "7", "condition": "gpu_lost", "class": "gpu", "waived": "no"}
OF_CLAIM, OF_HOOK = {**NODE, "claim": "compute", "signed": "no"}, {**NODE, "hook": "slurm-prolog"}
OF_VALUE = {**NODE, "part": "GPU 3", "serial": "7", "quantity": "q", "unit": "W"}
INCOMPLETE = VERDICT % "incomplete"
ALERTS = {
    "NodeRejected": ({**NODE, "verdict": "rejected"}, [VERDICT % "rejected"], [VERDICT % "accepted"]),
    "NodeUnreachable": ({**NODE, "verdict": "unreachable"}, [VERDICT % "unreachable"], [VERDICT % "rejected"]),
    "NodeIncomplete": ({**NODE, "verdict": "incomplete"}, [INCOMPLETE], [VERDICT % "not-judged"]),
    "CauseLost": (OF_CAUSE, [CAUSE % ("lost", "no")], [CAUSE % ("lost", "yes"), CAUSE % ("slow", "no")]),
    "CauseSlow": (OF_CAUSE, [CAUSE % ("slow", "no")], [CAUSE % ("slow", "yes"), CAUSE % ("drift", "no")]),
    "ClaimRefuted": ({**OF_CLAIM, "state": "refuted"}, [CLAIM % ("refuted", "no")], [CLAIM % ("proven", "no")]),
    "ClaimNotProven": ({**OF_CLAIM, "state": "not-proven"}, [CLAIM % ("not-proven", "no"), INCOMPLETE],
                       [CLAIM % ("not-proven", "no"), CLAIM % ("not-proven", "yes"), VERDICT % "rejected"]),
    "ValueFell": (OF_VALUE, [f"{VALUE % 7} 700x12 660x5", LIMIT % "least"],
                  [f"{VALUE % 7} 700x12 670x5", f"{VALUE % 8} 600x5", LIMIT % "least"]),
    "VerdictOld": ({**NODE, "verdict": "accepted"}, [f"{AT} 0x18"], [f"{AT} 90000x18"]),
    "NeverJudged": ({**NODE, "verdict": "not-judged"}, [VERDICT % "not-judged"],
                    [VERDICT % "not-judged", f"{AT} 1x18"]),
    "HookUnfit": ({**OF_HOOK, "answer": "unfit"}, [HOOK % "unfit"], [HOOK % "fit", HOOK % "unknown"]),
    "HookCannotTell": ({**OF_HOOK, "answer": "unknown"}, [HOOK % "unknown"], [HOOK % "fit", HOOK % "unfit"]),
    "RunOld": ({}, ["run_timestamp_seconds 0x18"], ["run_timestamp_seconds 700000x18"]),
    "RunInterrupted": ({}, ["run_interrupted 1x18"], ["run_interrupted 0x18"]),
    "MetricsGone": ({}, [], ["run_timestamp_seconds 700000x18"]),
}  # fmt: skip


def _promtool_test(rule, told):
    """The alert with the series that bring it, and silence with the others."""
    of, loud, silent = told
    severity = {"severity": "slow" if rule["name"] == "CauseSlow" else "lost"} if "class" in of else {}
    labels = {**of, **severity, "severity": rule["severity"]}
    said = {key: re.sub(r"\{(\w+)\}", lambda label: of[label[1]], rule[key]) for key in ("summary", "action")}
    expected = [{"exp_labels": labels, "exp_annotations": said}]
    series = [[f"nodegate_{each}" if " " in each.rpartition("}")[2] else f"nodegate_{each} 1x18" for each in some]
              for some in (loud, silent)]  # fmt: skip
    return [
        {
            "interval": "12h",
            "input_series": [dict(zip(("series", "values"), each.rsplit(" ", 1), strict=True)) for each in some],
            "alert_rule_test": [{"eval_time": "9d", "alertname": f"Nodegate{rule['name']}", "exp_alerts": alerts}],
        }
        for some, alerts in zip(series, (expected, []), strict=True)
    ]


def test_each_alert_is_brought_by_what_it_is_for_and_by_nothing_else(tmp_path):
    rules = {each["name"]: each for each in alert_rules._rows("fleet_alerts.csv")}
    assert rules.keys() == ALERTS.keys()
    tests = [each for name, told in ALERTS.items() for each in _promtool_test(rules[name], told)]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "12h", "tests": tests})
    )
    command = ["promtool", "test", "rules", tmp_path / "rules.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
