"""The runs under load go to one worker and all other files to one: labs of nodes look for what each other left."""

from xdist.scheduler import LoadFileScheduling

from lab.fault_table import told  # noqa: F401 - for the tests on nodes of the lab

UNDER_LOAD = "test_load_over_ssh.py"


class InTwo(LoadFileScheduling):
    """Two sets of files, each dealt out whole: xdist's own `loadgroup` does not keep groups (pytest-xdist#1386)."""

    def _split_scope(self, nodeid):
        return "under load" if f"/{UNDER_LOAD}::" in nodeid else "others"


def pytest_xdist_make_scheduler(config, log):
    return InTwo(config, log)
