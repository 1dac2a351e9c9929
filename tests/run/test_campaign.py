"""The end of a campaign over a node that does not let go."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sshd import Fleet, changed

from lab.processes import running, wait_until
from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.measure.durations import durations_of
from nodegate.profile import Profile
from nodegate.records.run_folder import RunFolder
from nodegate.run.campaign import Campaign
from nodegate.run.gate import Gate
from nodegate.run.judging import Judging
from nodegate.run.load import Connections, Plan
from nodegate.run.progress import Progress
from nodegate.run.run_evidence import RunEvidence
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport import Options, connect


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Campaign]:
    """A campaign in whose only node a program runs that hears no signal; it would be waited for a long time."""
    monkeypatch.setattr("nodegate.transport.guarded.CLOSE_S", 600.0)
    deaf = tmp_path / "deaf-python"
    deaf.write_text("#!/bin/sh\ntrap '' TERM INT HUP\nsleep 300\n")
    deaf.chmod(0o755)
    with Fleet(tmp_path) as fleet:
        node = changed(fleet.nodes[0], python=str(deaf))
        folder = RunFolder.create(tmp_path / "run", profile="delivery", started_epoch_s=0.0)
        judging = Judging({node.name: node}, Profile.DELIVERY, Baselines.read(), Waivers(()), RunEvidence(folder))
        connections = Connections(lambda node: connect(node, Options()), lambda session: Toolbox(session, node))
        campaign = Campaign(
            Plan([node], durations_of(Profile.DELIVERY)), folder, connections, Gate(judging), Progress(None)
        )
        campaign.start()
        assert wait_until(lambda: running(str(deaf)) and any(session._open for session in campaign._sessions))
        yield campaign


def test_whoever_is_in_a_hurry_does_not_wait_for_it(held: Campaign) -> None:
    hurry = threading.Event()
    ending = threading.Thread(target=held.cancel, args=(hurry.is_set,))
    ending.start()
    ending.join(3)
    assert ending.is_alive()
    hurry.set()
    ending.join(60)
    assert not ending.is_alive()
