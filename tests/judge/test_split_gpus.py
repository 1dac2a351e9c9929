"""GPUs that are split by MIG have no whole GPU to load: by design where the site says so, else something is open."""

import pytest
from fleet.machine import Machine
from support.healthy_platforms import every

from nodegate.baseline.baseline import Baselines
from nodegate.errors import CannotMeasure, NotApplicable, NotDone
from nodegate.judge.context import Context
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence

OF_WHOLE_GPUS = ("burn", "gpu_copies", "nccl", "nccl_groups")


def context(machine: Machine, **expected: object) -> Context:
    def nothing(name: str) -> Evidence:
        raise CannotMeasure(f"no evidence of {name}", next_step="measure this node again")

    def no_fleet() -> object:
        raise NotImplementedError

    return Context(
        Node("gpu01", expected=expected, origin="hosts.yaml:7"),
        Evidence("gpu01", "facts", 0.0, 0.0, document=machine.document()),
        baselines=Baselines.read(),
        profile=Profile.DELIVERY,
        fleet=no_fleet,
        measured=nothing,
    )


@pytest.fixture
def split() -> Machine:
    machine = Machine.hgx_h100()
    every(machine, "mig_mode", [1, 1])
    return machine


@pytest.mark.parametrize("name", OF_WHOLE_GPUS)
def test_mig_by_policy_is_not_applicable(split: Machine, name: str) -> None:
    with pytest.raises(NotApplicable, match="MIG is on for every GPU") as said:
        context(split, mig="on").resolve(name)
    assert not isinstance(said.value, NotDone)


@pytest.mark.parametrize("name", OF_WHOLE_GPUS)
@pytest.mark.parametrize("expected", [{}, {"mig": "off"}])
def test_mig_that_nobody_asked_for_leaves_the_claims_open(split: Machine, name: str, expected: dict[str, str]) -> None:
    with pytest.raises(NotDone, match=r"nodegate_mig: on"):
        context(split, **expected).resolve(name)


def test_one_split_gpu_hides_no_other(split: Machine) -> None:
    split.set_gpu(3, "mig_mode", [0, 0])
    with pytest.raises(CannotMeasure, match="no evidence of burn"):
        context(split, mig="mixed").resolve("burn")
