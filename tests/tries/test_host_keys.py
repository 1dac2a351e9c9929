"""SSH host keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.sshd import Fleet, changed
from support.tries import tried
from support.unreachable import refusal, with_known_hosts

from nodegate.transport import Options

if TYPE_CHECKING:
    from pathlib import Path


@tried(
    "`--host-keys strict` with `StrictHostKeyChecking=no` or `nodegate_host_keys: off` in the inventory",
    before="an unknown key is accepted without a word",
    now="refused: strict on the command line wins",
)
def test_strict_on_the_command_line_is_strict(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        stranger = with_known_hosts(fleet.nodes[0], tmp_path / "none")
        lax = changed(stranger, ssh_args=(*stranger.connection.ssh_args, "-o", "StrictHostKeyChecking=no"))
        for node in (lax, changed(stranger, host_keys="off")):
            for each in (node, changed(node, transport="ssh-binary")):
                assert refusal(each, Options(host_keys="strict")).kind == "host-key-unknown"
