"""The probe's real program, run on this machine as a node would run it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.stalls import undisturbed

from lab.processes import children_of, name_of, wait_until
from nodegate.node_program import PYTHON_OPTIONS
from nodegate.probe.collect import decode, program


@dataclass(frozen=True)
class Ran:
    """What the program left: its raw output and the sections of its document."""

    raw: bytes
    document: Mapping[str, Any]

    def section(self, name):
        return self.document["sections"][name]

    def data(self, name):
        section = self.section(name)
        assert "data" in section, section
        return section["data"]


def run_probe(*, sections=None, limits_s=None, root=None, environment=None, python=sys.executable, programs=()):
    """Run the program; `root` is a made file tree, `environment` adds to the test's own."""
    variables = dict(os.environ, **(environment or {}))
    if root is not None:
        variables["NODEGATE_PROBE_ROOT"] = str(root)
    done = undisturbed(
        lambda: subprocess.run(
            [python, *PYTHON_OPTIONS, "-"],
            input=program(sections=sections, limits_s=limits_s, programs=programs),
            capture_output=True,
            env=variables,
            timeout=120,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return Ran(done.stdout, decode(done.stdout).raw)


def nothing_is_left(sent, environment, *, children):
    """Whether the children of a program end, of which there are so many when it is killed."""
    argv = [sys.executable, *PYTHON_OPTIONS, "-"]
    variables = dict(os.environ, **environment)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=variables) as running:
        assert running.stdin is not None
        running.stdin.write(sent)
        running.stdin.close()
        assert wait_until(lambda: len(children_of(running.pid)) == children, limit_s=60)
        left = children_of(running.pid)
        running.kill()
    return wait_until(lambda: not any(name_of(pid) for pid in left))
