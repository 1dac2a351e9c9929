"""`nodegate gang` inside real jobs of Slurm: all nodes well, one that hangs, one too slow for all, no job at all."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.schemas import read_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.mpi.site import Site

NODES = ["gpu-2", "gpu-3", "gpu-4", "gpu-5"]
PROGRAM = "usr/local/bin/all_reduce_perf_mpi"
HANGS = "#!/bin/sh\nsleep 300\n"
MOST_TRIES = 3  # of a job: started by srun, a rank of Open MPI now and then ends by a segmentation fault


@pytest.fixture
def hangs(four: Site) -> Iterator[None]:
    """gpu-4's program begins and never meets the others."""
    file = four.nodes[2].root / PROGRAM
    held = file.read_text()
    file.write_text(HANGS)
    yield
    file.write_text(held)


def gang(four: Site, nodes: list[str], *options: str) -> tuple[int, dict[str, Any]]:
    """What it says in a job on these nodes, and its exit code."""
    for _ in range(MOST_TRIES):
        words = shlex.join(["/opt/nodegate/bin/nodegate", "gang", "--json", "--gpus", "2", "--limit", "20", *options])
        script = f"{words} >/tmp/gang.json 2>/tmp/gang.err; echo $? >/tmp/gang.code"
        job = four.slurm.submit(script, "-w", ",".join(nodes), f"-N{len(nodes)}", "--exclusive")
        four.slurm.wait_for(partial(four.slurm.job, job), "COMPLETED", 240.0)
        head = four.nodes[NODES.index(nodes[0])]
        code, printed = int(head.run("cat", "/tmp/gang.code")), head.run("cat", "/tmp/gang.json")
        assert printed, head.run("cat", "/tmp/gang.err")
        said = read_output(printed)
        if "ignal" not in said["why"]:
            break
    assert four.left() == []
    return code, said


def test_a_job_whose_nodes_are_well(four: Site) -> None:
    code, said = gang(four, NODES, "--at-least", "50")
    assert (code, said["schema"], said["verdict"], said["bad"]) == (0, "nodegate.gang/1", "fit", []), said["why"]
    assert said["nodes"] == NODES
    assert said["why"].startswith("all_reduce over them: 1")


@pytest.mark.usefixtures("hangs")
def test_the_node_that_hangs_is_named(four: Site) -> None:
    code, said = gang(four, NODES)
    assert (code, said["verdict"], said["bad"]) == (1, "unfit", ["gpu-4"]), said["why"]
    assert "gpu-4: no end within 20 s" in said["why"]


@pytest.mark.usefixtures("hangs")
def test_of_two_nodes_nobody_can_say_which(four: Site) -> None:
    code, said = gang(four, NODES[1:3])
    assert (code, said["bad"]) == (2, [])
    assert "one of gpu-3, gpu-4:" in said["why"]


def test_what_is_below_the_limit_everywhere_blames_no_node(four: Site) -> None:
    code, said = gang(four, NODES, "--at-least", "5000")
    assert (code, said["bad"]) == (2, [])


def test_outside_a_job_and_in_a_prolog_it_is_refused(four: Site) -> None:
    for settings, why in (((), "not inside a job"), (("SLURM_SCRIPT_CONTEXT=prolog_slurmd",), "this is a prolog")):
        words = ["env", *settings, "/opt/nodegate/bin/nodegate", "gang"]
        refused = four.nodes[0].run("sh", "-c", f"{shlex.join(words)} 2>&1; echo code $?")
        assert why in refused
        assert "code 2" in refused
