"""What holds for every test.

A shell starts what runs in its background with SIGINT ignored, and so does everything that is started from there. Tests
press Ctrl-C in runs of their own: those must not inherit that.

Runs of pytest that tests start do not load the plugin of hypothesis, as on the machines of those who use nodegate: that
takes a quarter of the time of a short run.

Hypothesis measures how long an example takes by the clock on the wall, which says nothing on a machine that is busy.

A warning is an error here, and not in pyproject.toml: a run over nodes, which reads that too, must not end by one.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("nodegate", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("nodegate")


@pytest.fixture(autouse=True, scope="session")
def runs_without_hypothesis():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", f"{os.environ.get('PYTEST_ADDOPTS', '')} -p no:hypothesispytest".strip())
        yield


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error")
    config.addinivalue_line("markers", "long: about ten seconds and more; run by `make lab`, not by `make test`")
