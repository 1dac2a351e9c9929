"""Libraries, tools and packages on the node. Section `software`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_DRIVER = ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")  # the driver, and what compiles kernels for its GPUs


@dataclass(frozen=True)
class NcclLibrary:
    """One NCCL library found on the node. `version` is read from the file's real name."""

    path: str
    version: Known[str]


@dataclass(frozen=True)
class Software:
    """Libraries and tools on the node. `tools` maps a program to its path, "" if it is missing."""

    nccl: Known[tuple[NcclLibrary, ...]]
    cuda: Known[Mapping[str, str]]  # folder -> version
    nvcc: Known[str]
    ofed: Known[str]
    packages: Known[Mapping[str, str]]
    tools: Mapping[str, str]
    libraries: Known[Mapping[str, str]]  # that the inventory requires -> path, "" if it was not found
    no_compiler: bool  # the driver's library is there, its compiler for PTX is not


def parse(found: Mapping[str, object]) -> Software:
    """The data of section `software`. Raises CannotMeasure: it lacks the tools."""
    step = "read what the node sent in the evidence file"
    tools = read.needed(read.mapping(found, "tools"), "tools on the node", step)
    driver, compiler = (value_or(read.mapping(found, "driver_libraries"), {}).get(name) for name in _DRIVER)
    return Software(
        nccl=read.mapped(read.records(found, "nccl"), lambda files: tuple(map(_nccl, files))),
        cuda=read.mapped(read.mapping(found, "cuda"), _cuda),
        nvcc=read.text(found, "nvcc"),
        ofed=read.mapped(read.text(found, "ofed"), lambda text: text.rstrip(":")),
        packages=read.mapped(read.mapping(found, "packages"), _texts),
        tools=_texts(tools),
        libraries=read.mapped(read.mapping(found, "libraries"), _texts),
        no_compiler=bool(driver) and compiler == [],
    )


def cuda_version_in(written: str) -> Known[str]:
    """The toolkit version in the text of version.json or version.txt."""
    if match := re.match(r"\s*CUDA Version ([0-9]+(?:\.[0-9]+){1,3})", written):
        return match[1]
    try:
        parts = json.loads(written)
    except (ValueError, RecursionError):
        return read.wrong("version.json or version.txt", written)
    return read.text(read.mapping(read.record(parts), "cuda"), "version")


def nccl_version_in(file: str) -> Known[str]:
    """The version in a library's real name: "libnccl.so.2.21.5" is 2.21.5."""
    match = re.fullmatch(r"(?:.*/)?libnccl(?:-\w+)?\.so\.([0-9]+\.[0-9]+\.[0-9]+)", file)
    return match[1] if match else Unknown(Why.MISSING, f"no version in the file name {shown(file)}")


def _nccl(entry: Mapping[str, object]) -> NcclLibrary:
    return NcclLibrary(value_or(read.text(entry, "path"), ""), read.mapped(read.text(entry, "file"), nccl_version_in))


def _cuda(folders: Mapping[str, object]) -> Mapping[str, str]:
    """Versions by folder; "" if the file has none."""
    return {folder: value_or(read.mapped(read.body(folders, folder), cuda_version_in), "") for folder in folders}


def _texts(found: Mapping[str, object]) -> Mapping[str, str]:
    return {name: value_or(read.text(found, name), "") for name in found}
