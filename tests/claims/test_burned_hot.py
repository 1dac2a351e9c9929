"""The claim `burned`: it says how long and how hot, and stays open where the burn was no burn."""

import pytest
from fleet.load import burn
from fleet.machine import Machine
from support.judged_fleet import judged_alone
from support.wrong_alike import ORDERED

from nodegate.claims.prove import claims_of_node
from nodegate.claims.verdict import node_verdict
from nodegate.profile import Profile
from nodegate.records.claim import State, in_words
from nodegate.records.verdict import GOOD, NodeVerdict

NODES = 4


def burned(plant, claim="burned"):
    machines = [Machine.hgx_h100(f"node{number:02d}", number) for number in range(1, NODES + 1)]
    for machine in machines:
        plant(machine)
    records = judged_alone(machines, ORDERED)
    claims = {node: claims_of_node(Profile.DELIVERY, each, lambda _: "") for node, each in records.items()}
    verdicts = {node_verdict(each, claims[node]) for node, each in records.items()}
    return verdicts, next(each for each in claims["node01"] if each.claim == claim)


def drawing(watts, path="cublas"):
    def change(document):
        for gpu in document["gpus"]:
            gpu["path"] = path
            for window in burn.windows_under_load(gpu):
                window["power_w"] = [watts - 20, watts, watts + 5]

    return lambda machine: machine.under_load(burn.NAME, change)


def test_a_real_burn_says_how_long_and_how_hot():
    verdicts, claim = burned(lambda machine: None)
    assert verdicts == {NodeVerdict.ACCEPTED}
    assert in_words(claim.amounts) == (
        "8 GPUs: time at work 599 s, power in bf16 99.6 % of the limit, temperature under load 63 to 67 °C"
    )


LOW = "GPU 0: power in bf16 {:.3g} % of the limit, expected at least 85 %"


@pytest.mark.parametrize(
    ("watts", "path", "why"),
    [
        (350, "cublas", LOW.format(50)),
        (590, "cublas", LOW.format(590 / 7)),
        (450, "ptx", "cooling and power supply were not stressed"),
    ],
)
def test_a_fleet_that_burns_at_a_part_of_its_power_is_not_accepted(watts, path, why):
    verdicts, claim = burned(drawing(watts, path))
    assert not verdicts & GOOD
    assert (claim.state, claim.amounts) == (State.NOT_PROVEN, ())
    assert why in claim.why


def test_own_kernels_may_draw_less_and_the_claim_says_so():
    _, claim = burned(drawing(560, "ptx"))
    assert claim.state is State.PROVEN
    assert "power in bf16 80 % of the limit" in in_words(claim.amounts)


def test_own_kernels_do_not_prove_the_rate_of_a_board_until_theirs_is_known():
    _, compute = burned(drawing(690, "ptx"), "compute")
    assert compute.state is State.NOT_PROVEN
    assert compute.why.startswith(
        "the value of a good board is unknown, there is only a floor of 297 TFLOPS (derived: 30 % of the peak"
    )


def test_capped_boards_are_at_their_limit():
    def plant(machine):
        drawing(495)(machine)
        for gpu in machine.sections["nvml"]["gpus"]:
            machine.set_gpu(gpu["index"], "power_limit_enforced_mw", 500_000)
            machine.set_gpu(gpu["index"], "power_limit_mw", 500_000)

    verdicts, claim = burned(plant)
    assert verdicts == {NodeVerdict.REJECTED}  # by power.limit: the platform has 700 W
    assert claim.state is State.PROVEN
