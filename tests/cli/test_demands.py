"""`nodegate demands`: a file for each node, with all that a run would hold it to; what a run refuses is refused."""

import json
from pathlib import Path

import pytest

from nodegate import cli
from nodegate.demands.demands import parse
from nodegate.demands.limits import baselines_of

HOSTS = """\
all:
  vars: {nodegate_ports: [29500]}
  hosts:
    gpu01: {nodegate_platform: hgx-h100-8, nodegate_serial: 7XK0001}
    gpu02: {nodegate_limits: {rdma.rails: 4}}
"""
SITE = "platform: hgx-h100-8\nlimits:\n  gpu.power_limit_w: {value: 690, unit: W, source: the site}\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(HOSTS)
    Path("limits.yaml").write_text(SITE)
    return tmp_path


def demands(*words):
    return cli.main(["demands", *words, "--inventory", "hosts.yaml"])


def test_each_node_has_a_file_of_its_own(site, capsys):
    assert demands("all", "--to", "out/new", "--baseline", "limits.yaml", "--policy", "strict-h100") == 0
    assert capsys.readouterr().out.startswith("2 written into out/new; each goes to /etc/nodegate/demands.yaml")
    assert sorted(path.name for path in Path("out/new").iterdir()) == ["gpu01.yaml", "gpu02.yaml"]
    first, second = (parse(Path(f"out/new/gpu0{number}.yaml").read_bytes(), "f") for number in (1, 2))
    assert (first.node, first.platform, first.serial) == ("gpu01", "hgx-h100-8", "7XK0001")
    assert first.variables == {"nodegate_ports": [29500], "nodegate_serial": "7XK0001"}
    assert second.variables == {"nodegate_ports": [29500], "nodegate_limits": {"rdma.rails": 4}}
    limits = baselines_of(second).for_node(second.as_node("gpu02", {"platform": "hgx-h100-8"}), None, None)
    assert limits.limit("gpu.power_limit_w").value == 690
    assert limits.limit("gpu.power_limit_w").source == "limits.yaml gpu.power_limit_w: the site"
    assert limits.limit("contract.burn_h").value == 24
    assert limits.limit("rdma.rails").value == 4


def test_one_node_goes_to_stdout_and_is_the_same(site, capsys):
    assert demands("gpu01") == 0
    printed = parse(capsys.readouterr().out.encode(), "f")
    assert demands("gpu01", "--to", ".") == 0
    assert parse(Path("gpu01.yaml").read_bytes(), "f").sha256 == printed.sha256


def test_the_probe_finds_the_hash_in_the_head(site, capsys):
    assert demands("gpu01") == 0
    text = capsys.readouterr().out
    assert f' "sha256": "{json.loads(text)["sha256"]}",\n' in text[:400]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["all"], "2 nodes, each with a file of its own - add --to DIR"),
        (["gpu9"], "no host or group is called 'gpu9'"),
        (["gpu01", "--policy", "strict"], "did you mean strict-h100"),
        (["gpu01", "--baseline", "none.yaml"], "none.yaml: cannot read it"),
        (["gpu01", "--to", "hosts.yaml"], "hosts.yaml: cannot be written: File exists"),
    ],
)
def test_what_cannot_be_written_is_refused(site, capsys, words, said):
    assert demands(*words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "line"),
    [
        ("nodegate_port: [1]", "hosts.yaml:2: gpu01.nodegate_port: unknown variable"),
        ("nodegate_ports: [x]", "hosts.yaml:2: gpu01: nodegate_ports"),
        ("nodegate_expect: {drivr: x}", "hosts.yaml:2: gpu01: nodegate_expect: unknown item 'drivr'"),
        ("nodegate_limits: {gpu.cuont: 8}", "unknown limit 'gpu.cuont'"),
        ("nodegate_gaps: {x: {reason: r, owner: o, expires: '2999-01-01'}}", "nodegate_gaps: unknown claim 'x'"),
        ("nodegate_platform: nope", "hosts.yaml:2: gpu01: nodegate_platform: no baseline for 'nope'"),
    ],
)
def test_what_a_run_refuses_is_refused_with_its_line(site, capsys, variable, line):
    Path("hosts.yaml").write_text(f"all:\n  vars: {{{variable}}}\n  hosts: {{gpu01: }}\n")
    assert demands("gpu01") == 2
    assert line in capsys.readouterr().err


def test_a_wrong_baseline_is_refused_with_its_own_line(site, capsys):
    Path("limits.yaml").write_text(SITE.replace("690", "yes"))
    assert demands("gpu01", "--baseline", "limits.yaml") == 2
    assert "limits.yaml:3: " in capsys.readouterr().err
