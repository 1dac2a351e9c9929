"""Launches over four nodes by Debian's own Open MPI and Slurm, where docker0 has one address on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.processes import wait_until
from nodegate.errors import CannotMeasure
from nodegate.launchers.srun import Srun
from nodegate.measure.groups.launch import Launch, words
from nodegate.measure.groups.result import read
from nodegate.measure.nccl.run import Sweep
from nodegate.records.program_run import Attempt

if TYPE_CHECKING:
    from lab.mpi.site import Site

NODES = ["gpu-2", "gpu-3", "gpu-4", "gpu-5"]
MOST_TRIES = 4  # of a launch: started by srun, a rank now and then ends by a segmentation fault; why is not known


def hosts(stdout: str) -> list[str]:
    """On which nodes ranks were listed."""
    return [line.split(" on ")[1].split()[0] for line in stdout.splitlines() if "# " in line and " on " in line]


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        ("mpirun", {}),
        ("srun", {"srun": {"mpi": "pmix"}}),
        ("srun", {"srun": {"mpi": "pmi2"}}),
        ("srun", {"srun": {"partition": "gpu"}, "srun_args": ["--comment", "two words; $HOME"]}),
        ("mpirun", {"mpi_args": "--mca btl_tcp_links 2", "nccl_env": {"OMPI_MCA_plm_rsh_no_tree_spawn": "1"}}),
    ],
)
def test_a_launch_over_four_nodes_ends(four: Site, launcher: str, expected: dict[str, object]) -> None:
    for _ in range(MOST_TRIES):
        ran = four.launch(launcher, expected)
        run = read(ran, Attempt(node=NODES[0]))
        if "Signal: Segmentation fault" not in ran.stderr:
            break
    assert (run.ending, run.why, ran.stderr if run.ending != "whole" else "") == ("whole", "", "")
    assert hosts(ran.stdout) == [name for name in NODES for _ in range(2)]
    assert sorted(line.split()[-1] for line in ran.stderr.splitlines() if "ranks begin on" in line) == NODES
    assert ran.stdout.count("Using network") == len(NODES)  # the first rank on each node
    assert run.log is not None
    assert run.log.over_sockets
    assert four.left() == []


def test_slurm_is_asked_for_what_it_has(four: Site) -> None:
    launcher = four.ready("srun", {})[0].launcher
    assert isinstance(launcher, Srun)
    assert (launcher.mpi, launcher.gpus) == ("pmix", True)


def test_a_type_of_mpi_whose_library_is_missing_is_not_chosen(four: Site) -> None:
    home = "/usr/lib/x86_64-linux-gnu/pmix2/lib"
    head = four.nodes[0]
    head.run("mv", f"{home}/libpmix.so", f"{home}/away")
    try:
        launcher = four.ready("srun", {})[0].launcher
    finally:
        head.run("mv", f"{home}/away", f"{home}/libpmix.so")
    assert isinstance(launcher, Srun)
    assert launcher.mpi == "pmi2"


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_without_the_network_it_waits_at_docker0_and_that_is_no_hang_of_a_node(four: Site, launcher: str) -> None:
    members = four.ready(launcher, {})
    head = members[0].launcher
    assert not isinstance(head, CannotMeasure)
    what = Launch("all_reduce", Sweep(1 << 26, 1 << 26, 10, 3), 15.0)
    argv = words(what, members, head, "nodegate-launch-lab-")
    network = {"btl_tcp_if_include", "oob_tcp_if_include"}
    if launcher == "mpirun":
        gone = [place for place, word in enumerate(argv) if word in network]
        argv = tuple(word for place, word in enumerate(argv) if not {place - 1, place, place + 1}.intersection(gone))
    else:
        argv = tuple(word for word in argv if "btl_tcp_if_include" not in word)
    run = read(four.run(what, members, argv))
    assert run.ending == "refused"
    assert "Open MPI" in run.why
    assert "nodegate_launch_network" in run.next_step
    assert wait_until(lambda: not four.left(), 60)


def test_an_mpi_that_does_not_speak_with_slurm_is_named(four: Site) -> None:
    """Debian's Open MPI is built without PMI2."""
    members = four.ready("srun", {"srun": {"mpi": "pmi2"}, "nccl_env": {"OMPI_MCA_x": "y"}})
    head = members[0].launcher
    assert not isinstance(head, CannotMeasure)
    what = Launch("all_reduce", Sweep(1 << 26, 1 << 26, 10, 3), 30.0)
    argv = [
        word.replace("/usr/local/bin/all_reduce", "/usr/local/bin/mpi_reduce")
        for word in words(what, members, head, "m")
    ]
    for node in four.nodes:
        text = (node.root / "usr/local/bin/all_reduce_perf_mpi").read_text()
        changed = node.root / "usr/local/bin/mpi_reduce_perf_mpi"
        changed.write_text(text.replace("if has_pmi2_alone else", "if False else"))
        changed.chmod(0o755)
    run = read(four.run(what, members, tuple(argv)))
    assert run.ending == "refused"
    assert "nodegate_srun: {mpi: pmix}" in run.next_step
