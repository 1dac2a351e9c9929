"""SSH host keys."""

import json
from pathlib import Path

import pytest
from support.recorded import PytestOutcome, run_pytest
from support.sshd import Fleet, changed
from support.unreachable import refusal, with_known_hosts

from nodegate.transport import Options


def test_strict_on_the_command_line_is_strict(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        stranger = with_known_hosts(fleet.nodes[0], tmp_path / "none")
        lax = changed(stranger, ssh_args=(*stranger.connection.ssh_args, "-o", "StrictHostKeyChecking=no"))
        for node in (lax, changed(stranger, host_keys="off")):
            for each in (node, changed(node, transport="ssh-binary")):
                assert refusal(each, Options(host_keys="strict")).kind == "host-key-unknown"


def run(fleet: Fleet, folder: Path, transport: str, *arguments: str, variables: str = "") -> PytestOutcome:
    hosts = fleet.inventory().replace(str(fleet.known_hosts), str(folder / "known"))
    (folder / "hosts.yaml").write_text(
        hosts.replace("  vars:\n", f"  vars:\n    ansible_connection: {transport}\n{variables}")
    )
    options = ["--inventory", "hosts.yaml", "--passive", "-k", "node.reachable or kernel_version"]
    return run_pytest(folder, [*options, *arguments])


@pytest.mark.parametrize("transport", ["ssh", "ssh-binary"])
def test_a_key_that_was_not_known_is_told(tmp_path: Path, transport: str) -> None:
    with Fleet(tmp_path, 2) as fleet:
        first = run(fleet, tmp_path, transport, "--host-keys", "accept-new", "--known-hosts", "known")
        said = "note: host keys on the way to 2 nodes were unknown, and accepted at first use: node[1-2]; compare them"
        assert said in first.stdout
        assert said[6:] in json.loads((first.folder / "report.json").read_text())["run"]["notes"][0]
        assert "Host keys on the way to 2 nodes were unknown" in (first.folder / "report.html").read_text()
        taken = json.loads((first.folder / "evidence/node1/facts.json").read_text())["taken_host_keys"]
        assert [key["how"] for key in taken] == ["new"]
        assert fleet.nodes[0].address in taken[0]["host"]
        again = run_pytest(tmp_path, ["--replay", str(first.folder.resolve()), "-k", "kernel_version"])
        assert said in again.stdout
        second = run(fleet, tmp_path, transport, "--known-hosts", "known")  # now they are known
        assert "host keys" not in second.stdout
        assert json.loads((second.folder / "report.json").read_text())["run"]["notes"] == []


def test_a_key_that_nobody_checks_is_told(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1) as fleet:
        off = run(fleet, tmp_path, "ssh", variables="    nodegate_host_keys: 'off'\n")
        assert (
            "note: host keys on the way to 1 node were not verified, as host key checking is off: node1" in off.stdout
        )
