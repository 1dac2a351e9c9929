"""docs/guide/adding-a-launcher.md can be followed: its launcher is registered and asked for what a launch needs."""

import sys
from types import ModuleType

import pytest
from support.pages import Page

from nodegate.errors import CannotMeasure
from nodegate.launchers import LAUNCHERS
from nodegate.launchers.launcher import Launcher, heard, look
from nodegate.measure.groups.settings import launch_settings
from nodegate.measure.nccl.launches import refusal
from nodegate.node import Node

PAGE = Page("adding-a-launcher.md")
HOSTS = ("gpu01", "gpu02")


@pytest.fixture
def flux(monkeypatch):
    module = ModuleType("flux_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(PAGE.block("python"), "adding-a-launcher.md", "exec"), module.__dict__)  # noqa: S102 - our own page
    found: type[Launcher] = module.Flux
    monkeypatch.setitem(LAUNCHERS, found.name, found)
    return found


@pytest.mark.parametrize("given", ["flux", "Flux-Core"])
def test_the_inventory_may_name_it(flux, given):
    assert launch_settings(Node("gpu01", expected={"launcher": given})).launcher == flux.name


def test_it_launches_by_the_words_that_the_page_prints(flux):
    settings = launch_settings(Node("gpu01", expected={"launcher": "flux", "nccl_env": {"NCCL_IB_HCA": "mlx5"}}))
    found = flux.known("/usr/bin/flux", heard(b"launcher flux-core 0.68.0\nnodes 2\n"), settings)
    assert " ".join(found.start(HOSTS, 8, "10.0.0.0/16", 300.0)) == PAGE.block("text")
    assert dict(found.for_ranks("10.0.0.0/16")) == {"NCCL_IB_HCA": "mlx5"}
    with pytest.raises(CannotMeasure, match="reaches no Flux instance"):
        flux.known("/usr/bin/flux", heard(b"launcher flux-core 0.68.0\n"), settings)


def test_a_node_is_asked_for_it(flux):
    assert flux.look in look(flux)
    assert flux.look not in look(None)


def test_its_messages_are_understood(flux):
    said = refusal("flux-run: ERROR: job unsatisfiable: resource constraint\n")
    assert said == ("the launch failed: flux-run: ERROR: job unsatisfiable: resource constraint", flux.refusals[0][1])
