"""The real program on this very machine: whatever it is, the document is whole, honest and small."""

import os
import platform
import re
import time
import uuid
from pathlib import Path

import pytest
from support import bare
from support.payload import run_probe

from lab.processes import MARK, marked, wait_until
from nodegate.probe.host import numbers_in
from nodegate.unknown import Unknown, Why

CONTRACT = Path(__file__).parent.parent.parent / "docs" / "reference" / "probe-document.md"


@pytest.fixture(scope="module")
def ran():
    return run_probe()


def test_every_documented_section_is_there(ran):
    assert set(ran.document["sections"]) | {"nvidia_smi"} == set(
        re.findall(r"^### `(\w+)`$", CONTRACT.read_text(), re.MULTILINE)
    )


def test_every_section_has_data_or_a_known_reason(ran):
    for name, section in ran.document["sections"].items():
        assert section["duration_s"] >= 0
        assert "data" in section or Why(section["why"]), name


def test_the_head_says_who_read_it_when_and_how_long_it_took(ran):
    head = ran.document
    assert head["schema"] == "nodegate.probe/1"
    assert head["uid"] == os.getuid()
    assert abs(time.time() - head["epoch_s"]) < 60
    assert 0 < head["duration_s"] < 30


def test_system_is_this_machine(ran):
    system, usage = ran.data("system"), os.statvfs("/")
    assert system["kernel_release"] == platform.release()
    assert system["cpu_count"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert "MemTotal:" in system["meminfo"]
    assert system["uptime_s"] > 0
    assert system["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert ran.data("mounts")["usage"]["/"]["size_bytes"] == usage.f_blocks * usage.f_frsize
    assert ran.data("mounts")["usage"]["/"]["read_only"] is bool(usage.f_flag & os.ST_RDONLY)
    assert any(line.split()[1] == "/" for line in ran.data("mounts")["table"].splitlines())
    assert ran.data("limits")["self"]["nofile"][0] > 0
    assert isinstance(ran.data("clock")["adjtimex"]["status"], int)
    cpus = numbers_in(ran.data("cpus")["online"])
    assert not isinstance(cpus, Unknown)
    assert len(cpus) == os.sysconf("SC_NPROCESSORS_ONLN")


def test_without_nvidia_everything_of_it_is_missing_and_nothing_is_invented(tmp_path):
    variables = {"LD_LIBRARY_PATH": str(bare.libraries(tmp_path / "libraries"))}
    ran = run_probe(sections=["nvml", "driver"], root=tmp_path / "without-nvidia", environment=variables)
    assert ran.section("nvml")["why"] == "missing"
    assert ran.section("nvidia_smi")["why"] == "missing"
    driver = ran.data("driver")
    assert (driver["loaded"], driver["version"]["why"]) == (False, "missing")
    assert (driver["gpus"], driver["devices"]) == ({}, {})


def test_only_the_named_sections_are_read():
    assert set(run_probe(sections=["pci", "clock"]).document["sections"]) == {"pci", "clock"}


def test_a_daemon_that_a_login_script_starts_is_ended_too(tmp_path):
    from lab.nodes.tree import NodeTree

    mark = uuid.uuid4().hex
    tree = NodeTree(tmp_path)
    started = tree.path("/tmp/started")
    daemon = f"{MARK}={mark} /usr/bin/setsid /bin/sh -c 'echo $$ > {started}; exec /bin/sleep 300' &\n"
    tree.program("/bin/sh", f"{daemon}while [ ! -s {started} ]; do :; done\nprintf 'NCCL_DEBUG=INFO\\0HOME=/root\\0'\n")
    ran = run_probe(sections=["environment"], root=tmp_path)
    assert ran.data("environment")["variables"] == {"NCCL_DEBUG": "INFO"}
    assert started.read_text().strip().isdigit()
    assert wait_until(lambda: not marked(mark))


def test_what_the_inventory_requires_is_looked_for(tmp_path):
    shell = tmp_path / "own-compiler"
    shell.write_text("#!/bin/sh\n")
    shell.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = ["own-compiler", "no-such-compiler"]
    tools = run_probe(sections=["software"], programs=asked, environment=path).data("software")["tools"]
    assert (tools["own-compiler"], tools["no-such-compiler"]) == (str(shell), "")
    assert "docker" in tools


def test_disks_are_those_that_are_built_in(tmp_path):
    disks = {"nvme0n1": ("7501476528", "0"), "sr0": ("2048", "1"), "nvme1n1": ("0", "0"), "loop0": ("8", "")}
    for name, (sectors, removable) in disks.items():
        folder = tmp_path / "sys/block" / name
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{sectors}\n")
        if removable:
            (folder / "device").mkdir()
            (folder / "device" / "model").write_text("CM6\n")
            (folder / "device" / "serial").write_text("S6ZZNE0W500001      \n")
            (folder / "removable").write_text(f"{removable}\n")
    found = run_probe(sections=["disks"], root=tmp_path).data("disks")
    assert found == {"nvme0n1": {"sectors": "7501476528", "model": "CM6", "serial": "S6ZZNE0W500001      "}}
