"""Nodes that must not be reached, and nodes known by other files."""

import pytest
from support.sshd import changed

from nodegate.errors import Unreachable
from nodegate.transport import Options, connect


def refusal(node, options=None):
    """Why the node cannot be reached."""
    with pytest.raises(Unreachable) as caught:
        connect(node, options or Options()).close()
    assert node.name in caught.value.reason
    assert caught.value.next_step
    return caught.value


def with_known_hosts(node, file):
    """The node, known by this file only."""
    words = [f"UserKnownHostsFile={file}" if "UserKnownHosts" in w else w for w in node.connection.ssh_args]
    return changed(node, ssh_args=tuple(words))
