import contextlib

import pytest
from support.sshd import NODE_PYTHON, Fleet, changed

from lab.processes import odd_seconds
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), count=2) as fleet:
        yield fleet


@pytest.fixture
def seconds():
    """A sleep so odd that it is ours alone."""
    return odd_seconds()


@pytest.fixture
def node(fleet):
    return fleet.nodes[0]


@pytest.fixture(params=["ssh", "ssh-binary", "local", "command"])
def session(request, node):
    """The same promises by every transport that runs programs."""
    local = Node("here", Connection(transport="local", python=NODE_PYTHON))
    with contextlib.closing(open_by(request.param, node, local)) as session:
        yield session


def open_by(transport, node, local):
    here = Connection(transport="command", python=NODE_PYTHON, command=("env",), lease_s=30.0)
    return connect(
        {"local": local, "command": Node("here", here)}.get(transport) or changed(node, transport=transport), Options()
    )
