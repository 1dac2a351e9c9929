"""The burn that a contract asks for: taken by itself, refused before any load where --burn is shorter."""

from dataclasses import replace

import pytest

from nodegate.errors import UsageError
from nodegate.node import Connection, Node
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT
from nodegate.profile import Profile
from nodegate.run.settings import Settings
from nodegate.run.site_of_run import as_agreed

LIVE = [Node("gpu01", Connection(address="192.0.2.1"))]
RECORDED = [Node("gpu01", Connection(transport="replay"))]
STRICT = policy_file.read("strict-h100").limits


def test_without_burn_the_contract_says_how_long_and_the_end_is_told() -> None:
    settings, (note,) = as_agreed(Settings(), STRICT, LIVE)
    assert settings.burn == "24h"
    assert note.startswith("--burn 24h, as the policy asks: a burn that starts now ends at 20")


@pytest.mark.parametrize("burn", ["10m", "23h", "86399s"])
def test_a_shorter_burn_is_refused_with_both_times(burn: str) -> None:
    with pytest.raises(
        UsageError, match=rf"--burn {burn}: the policy asks for 24 h \(contract.burn_h\) - write --burn 24h"
    ):
        as_agreed(Settings(burn=burn), STRICT, LIVE)


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ({"burn": "24h"}, LIVE),
        ({"burn": "3d"}, LIVE),
        ({"burn": "10m"}, RECORDED),
        ({"burn": "10m", "replay": "reports/earlier"}, LIVE),
        ({"burn": "10m", "resume": "reports/earlier"}, LIVE),
        ({"load": False}, LIVE),
        ({"profile": Profile.NIGHTLY}, LIVE),
    ],
    ids=["as long", "longer", "recorded", "replay", "resume", "passive", "another profile"],
)
def test_nothing_is_refused_where_enough_is_burnt_or_nothing_is(change: dict[str, object], nodes: list[Node]) -> None:
    settings = replace(Settings(), **change)  # type: ignore[arg-type]
    assert as_agreed(settings, STRICT, nodes) == (settings, ())


def test_a_policy_that_asks_for_no_time_changes_nothing() -> None:
    assert as_agreed(Settings(), policy_file.read(DEFAULT).limits, LIVE) == (Settings(), ())
