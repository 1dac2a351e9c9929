"""A warning that programs print when they start is not the first error, whatever comes after it."""

import pytest
from support.job_logs import judge

from nodegate.triage import render

WARNINGS = {
    "libibverbs": "libibverbs: Warning: couldn't load driver 'librxe-rdmav34.so': librxe-rdmav34.so:"
    " cannot open shared object file: No such file or directory",
    "Open MPI": "[node-4:04112] mca_base_component_repository_open: unable to open mca_pml_ucx: libucp.so.0: cannot"
    " open shared object file: No such file or directory (ignored)",
    "the rendezvous' first attempt": "[W socket.cpp:663] [c10d] The client socket has failed to connect to"
    " [node-0]:29500 (errno: 111 - Connection refused).",
}
ERRORS = {
    "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered": "cuda_ecc",
    "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.": "cuda_oom",
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("warning", WARNINGS)
def test_the_error_behind_a_warning_is_the_first(tmp_path, warning, error):
    found = judge(tmp_path, {"job.log": [WARNINGS[warning], "building the model", error]})
    assert (found.root.kind.id, found.sure) == (ERRORS[error], True)
    assert "not in the image" not in render.text(found)


@pytest.mark.parametrize("warning", WARNINGS)
def test_a_warning_alone_is_never_sure(tmp_path, warning):
    assert not judge(tmp_path, {"job.log": [WARNINGS[warning]]}).sure
