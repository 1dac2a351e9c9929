"""docs/guide/demands.md can be followed: its commands print what it says, and bootcheck answers by its table."""

import json
import re
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet.machine import Machine

from nodegate import cli
from nodegate.demands import here
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import LINE_LENGTH, bootcheck

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "demands.md").read_text("utf-8")
INVENTORY, CONSOLE = (
    re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0] for language in ("yaml", "console")
)
ROWS = re.findall(r"^\| ([^|]+?) \| `([^`]+)` \| (\d) \|$", PAGE, re.MULTILINE)
OF_THE_DAY = re.compile(r'"(sha256|made)": "[^"]+"')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu01")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    Path("hosts.yaml").write_text(INVENTORY)
    return tmp_path


def test_its_commands_print_what_it_says(folder, capsys):
    commands = re.findall(r"^\$ nodegate (.*?)(?: \| head -(\d+))?\n((?:(?!\$).*\n)*)", CONSOLE, re.MULTILINE)
    assert len(commands) == 2
    for words, most, said in commands:
        assert cli.main(shlex.split(words)) == 0
        printed = capsys.readouterr().out.splitlines(keepends=True)[: int(most) if most else None]
        assert OF_THE_DAY.sub("", "".join(printed)) == OF_THE_DAY.sub("", said)


def unmounted(data, _file):
    data["mounts"]["data"]["table"] = data["mounts"]["data"]["table"].replace("/mnt/data", "/mnt/other")


def another_driver(data, _file):
    data.update(json.loads(json.dumps(data).replace("550.163.01", "550.144.03")))


def taken(data, _file):
    data["jobs"]["data"]["listening_ports"].append(29500)


def of_gpu02(data, file):
    file.write_text(Path("demands/gpu02.yaml").read_text())


def another_chassis(data, _file):
    data["system"]["data"]["dmi"]["product_serial"] = "7XK0099"


def edited(data, file):
    file.write_text(file.read_text().replace("29500", "29501"))


def writable(data, file):
    file.chmod(0o666)


WRONG: dict[str, Callable[[Any, Path], None]] = {
    "nothing": lambda _data, _file: None,
    "the mount is missing": unmounted,
    "another driver": another_driver,
    "a program listens on the port": taken,
    "the file of gpu02": of_gpu02,
    "the file of gpu01 on another chassis": another_chassis,
    "a file that was edited": edited,
    "a file that others can write": writable,
}


def test_the_table_is_whole():
    assert [row[0] for row in ROWS] == list(WRONG)


@pytest.mark.parametrize(("what", "line", "code"), ROWS)
def test_bootcheck_answers_so(folder, monkeypatch, what, line, code):
    assert cli.main(["demands", "all", "--inventory", "hosts.yaml", "--to", "demands"]) == 0
    file = Path("demands.yaml")  # a longer name than /etc/nodegate/demands.yaml would be cut
    file.write_text(Path("demands/gpu01.yaml").read_text())
    file.chmod(0o644)
    monkeypatch.setattr(here, "FILE", file)
    document: Any = Machine.hgx_h100().document()
    WRONG[what](document["sections"], file)
    outcome = bootcheck(
        demanded=here.demands_here, measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=document)
    )
    assert len(line) < LINE_LENGTH
    assert outcome.line.startswith(line.replace("/etc/nodegate/", ""))
    assert int(outcome.exit) == int(code)


@pytest.mark.parametrize("path", re.findall(r"`?(/opt/nodegate/deploy/[\w.-]+)", PAGE))
def test_what_it_names_is_there(path):
    assert (ROOT / path.removeprefix("/opt/nodegate/")).exists()
