"""What a prolog may conclude from Slurm's words on the job: whole nodes only where no other job can be on a GPU."""

import pytest

from nodegate.hook.hooks import gets_every_gpu, may_open_port


@pytest.fixture
def node(tmp_path):
    (tmp_path / "dev").mkdir()
    for name in (*(f"nvidia{number}" for number in range(4)), "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "every"),
    [
        ({"SLURM_JOB_GPUS": "0,1,2,3"}, True),
        ({"SLURM_JOB_GPUS": "3,2,1,0"}, True),
        ({"SLURM_JOB_GPUS": "0,1,2"}, False),
        ({"SLURM_JOB_GPUS": "0,1,2,3,4"}, False),
        ({"SLURM_JOB_GPUS": "0,1,2,2"}, False),
        ({"SLURM_JOB_GPUS": ""}, False),
        ({}, False),
        ({"SLURM_JOB_GPUS": "0,1,2,3", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, False),
        ({"SLURM_JOB_GPUS": "0,1,2,3", "SLURM_SHARDS_ON_NODE": "8"}, False),
    ],
)
def test_all_gpus_are_the_jobs_where_it_has_each_whole(node, environ, *, every):
    assert gets_every_gpu(environ, node) is every


def test_parts_of_gpus_are_not_gpus(node):
    (node / "proc/driver/nvidia/capabilities/gpu0/mig/gi1").mkdir(parents=True)
    assert not gets_every_gpu({"SLURM_JOB_GPUS": "0,1,2,3"}, node)


def test_a_node_without_gpus_has_none_to_give(tmp_path):
    assert not gets_every_gpu({"SLURM_JOB_GPUS": ""}, tmp_path)


@pytest.mark.parametrize(
    ("nodes", "may"),
    [("gpu-[2-3]", True), ("gpu-2", True), ("gpu-[1-3]", False), ("gpu-3,gpu-2", False), ("", True), ("gpu-[", True)],
)
def test_the_port_is_the_first_nodes(nodes, *, may):
    assert may_open_port({"SLURM_JOB_NODELIST": nodes}, "gpu-2") is may
    assert may_open_port({}, "gpu-2")
