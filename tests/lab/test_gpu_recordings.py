"""Recordings of real boards (lab/recordings): the parsers make of each what they made of it when it was kept."""

import json
from collections.abc import Mapping

import pytest
from support import gpu_stand_in

from lab.gpu.recording import MADE_OF_IT, parsed
from lab.nvml.scenario import healthy_h100
from nodegate.measure.burn import document as burn_document

FOLDER = gpu_stand_in.ROOT / "lab" / "recordings"
KEPT = sorted(each for each in FOLDER.iterdir() if each.is_dir())
STAND_IN = "the stand-in"


@pytest.fixture(scope="module", params=[STAND_IN, *(each.name for each in KEPT)])
def recording(request, tmp_path_factory):
    """Each folder that is kept; and always one that is made now, so that this is tested where none is kept yet."""
    if request.param != STAND_IN:
        return FOLDER / str(request.param)
    done = gpu_stand_in.run(
        tmp_path_factory.mktemp("stand-in"), healthy_h100(1), "--keep", "--only", "own kernels", "--only", "copies"
    )
    (made,) = (done.folder / "recordings").iterdir()
    return made


def test_the_parsers_make_of_it_what_they_made_of_it_then(recording):
    then: Mapping[str, object] = json.loads((recording / MADE_OF_IT).read_text())
    assert parsed(recording) == then
    assert then["facts"]
    assert then["numbers"]


def test_every_product_of_it_is_right(recording):
    files = sorted(recording.glob("burn-*.json"))
    assert files
    for file in files:
        for gpu in burn_document.decode(file.read_text()).gpus:
            assert gpu.error == ""
            assert [(each.mismatches, each.reference_errors) for each in gpu.phases] == [(0, 0)] * len(gpu.phases)
            assert gpu.phases
