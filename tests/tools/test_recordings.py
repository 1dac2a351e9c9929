"""What the parser of each tool makes of each of its recordings, field by field: tests/golden/tools.

To accept other words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
from support.recordings import FOLDER

from nodegate.errors import CannotMeasure
from nodegate.probe.gpu import Gpus
from nodegate.tools import fabric_manager, gpu_burn, nccl_tests, nvbandwidth, nvidia_smi, perftest
from nodegate.unknown import Unknown

GOLDEN = Path(__file__).parents[1] / "golden" / "tools"
GIB = 1 << 30
COLLECTIVE = {"2.13-healthy.txt": "all_reduce", "2.15-healthy.txt": "reduce_scatter", "2.9-alltoall.txt": "alltoall"}


def of_nccl_tests(name, text):
    errors = FOLDER / "nccl_tests" / name.replace(".txt", ".stderr.txt")
    stderr = errors.read_text("utf-8") if errors.exists() else ""
    test = nccl_tests.parse(text, stderr, collective=COLLECTIVE.get(name, ""))
    gaps = test.gaps(ranks=8, size_bytes=GIB)
    return test, {"wrong": test.wrong, "corrupt": test.corrupt, "checked": test.checked, "gaps of 8 x 1 GiB": gaps}


def of_gpu_burn(name, text):
    run = gpu_burn.parse("", text) if name == "init-failed.txt" else gpu_burn.parse(text)
    return run, {gpu.index: gpu.rate_gflops for gpu in run.gpus}


def of_fabric_manager(_, text):
    return [(entry, fabric_manager.switch_error(entry)) for entry in fabric_manager.parse_log(text)]


def of_nvidia_smi(_, text):
    gpus = parsed(nvidia_smi.parse_xml, text)
    apart = [replace(gpus, devices=()), *gpus.devices] if isinstance(gpus, Gpus) else [gpus]
    return [*apart, nvidia_smi.lost_handles(text), nvidia_smi.corrupted_inforoms(text)]


def parsed(parse, *given):
    try:
        return parse(*given)
    except CannotMeasure as why:
        return f"{why}"


def lines(found, name=""):
    """A line for each field, and for each part of one that has several."""
    if is_dataclass(found) and not isinstance(found, Unknown):
        for each in fields(found):
            yield from lines(getattr(found, each.name), f"{name} {each.name}")
    elif isinstance(found, (tuple, list)) and any(map(is_dataclass, found)):
        for each in found:
            yield from [f"{name} {each}"] if name else lines(each)
    else:
        yield f"{name} = {sorted(found) if isinstance(found, frozenset) else found}".strip()


TOOLS: Mapping[str, Callable[[str, str], object]] = {
    "fabric_manager": of_fabric_manager,
    "gpu_burn": of_gpu_burn,
    "nccl_tests": of_nccl_tests,
    "nvbandwidth": lambda _, text: nvbandwidth.parse(text),
    "nvidia_smi": of_nvidia_smi,
    "perftest": lambda _, text: (parsed(perftest.parse, text), perftest.trouble(text, "")),
}


def test_every_folder_has_its_parser():
    assert TOOLS.keys() == {folder.name for folder in FOLDER.iterdir()}


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_read_of_each_recording(tool):
    said = []
    for file in sorted((FOLDER / tool).iterdir()):
        found = parsed(TOOLS[tool], file.name, file.read_bytes().decode())
        said.append("\n".join([f"# {file.name}", *lines(found), ""]))
    golden = GOLDEN / f"{tool}.txt"
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("\n".join(said))
    assert "\n".join(said) == golden.read_text()


@pytest.mark.parametrize(("written", "said"), [("something else\n", "has no entry: something else"), ("", "is empty")])
def test_a_log_of_the_fabric_manager_without_an_entry_is_quoted(written, said):
    with pytest.raises(CannotMeasure, match=said):
        fabric_manager.parse_log(written)
