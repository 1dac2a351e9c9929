"""The inventory's settings for a node's tools: nodegate_tools, _tool_paths, _image and _cublas."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.files.hints import did_you_mean, shown
from nodegate.toolbox.tool_list import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.node import Node

RUNTIMES = ("docker", "podman", "enroot", "apptainer", "singularity")
MOST_FOLDERS = 64
OWN_KERNELS = "none"
_PATH = re.compile(r"/[^\0-\x1f\x7f]{0,1023}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}", re.ASCII)  # docker, podman: [host[:port]/]name[:tag]
_FILE_OR_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+-]{0,254}", re.ASCII)  # enroot: name or file
_FILE = re.compile(r"/[A-Za-z0-9_./:@+-]{1,254}", re.ASCII)  # apptainer: a file, or a folder with a root file system
_REST = {"docker": _REFERENCE, "podman": _REFERENCE, "enroot": _FILE_OR_NAME, "apptainer": _FILE, "singularity": _FILE}
_EXAMPLE = "docker://nvcr.io/nvidia/pytorch:24.05-py3, podman://IMAGE, enroot://NAME or apptainer:///FILE.sif"


@dataclass(frozen=True)
class Image:
    """A container image on the node and the program that starts it."""

    runtime: str
    reference: str

    def __str__(self) -> str:
        return f"{self.runtime}://{self.reference}"


@dataclass(frozen=True)
class ToolSettings:
    """Where a node's tools are (inventory). `paths`: tool name -> absolute path; nothing else is tried.

    `cublas` is the folder or file of the cuBLAS that a burn uses, `OWN_KERNELS` if it shall use none, "" if not said.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    image: Image | None = None
    cublas: str = ""


def tool_settings(node: Node) -> ToolSettings:
    """The settings of a node.

    Raises:
        UsageError: a value is invalid, with the node's file and line.
    """
    return ToolSettings(_paths(node), _folders(node), _image(node), _cublas(node))


def _paths(node: Node) -> Mapping[str, str]:
    given = node.mapping("tools")
    if given is None:
        raise node.wrong("nodegate_tools must map tools to paths", "for example {gpu_burn: /opt/gpu-burn/gpu_burn}")
    for name, path in given.items():
        if name not in NAMES:
            raise node.wrong(f"nodegate_tools: unknown tool {shown(str(name))}", did_you_mean(str(name), NAMES))
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            raise node.wrong(f"nodegate_tools: {name}: {shown(str(path))} is not an absolute path", "start it with /")
    return {str(name): str(path) for name, path in given.items()}


def _folders(node: Node) -> tuple[str, ...]:
    given = node.expected.get("tool_paths", ())
    folders = [one for one in given.split(":") if one] if isinstance(given, str) else given
    if not isinstance(folders, (list, tuple)) or len(folders) > MOST_FOLDERS:
        raise node.wrong(f"nodegate_tool_paths must be a list of at most {MOST_FOLDERS} folders", "[/opt/tools]")
    for folder in folders:
        if not isinstance(folder, str) or not _PATH.fullmatch(folder):
            raise node.wrong(f"nodegate_tool_paths: {shown(str(folder))} is not an absolute path", "start it with /")
    return tuple(folders)


def _image(node: Node) -> Image | None:
    given = node.expected.get("image", "")
    if given == "":
        return None
    runtime, mark, reference = str(given).partition("://")
    if not mark or runtime not in RUNTIMES:
        raise node.wrong(f"nodegate_image: {shown(str(given))} does not name a container runtime", f"write {_EXAMPLE}")
    if not _REST[runtime].fullmatch(reference):
        raise node.wrong(f"nodegate_image: {shown(reference)} is not a valid image for {runtime}", f"write {_EXAMPLE}")
    return Image(runtime, reference)


def _cublas(node: Node) -> str:
    given = node.expected.get("cublas", "")
    if given in ("", OWN_KERNELS):
        return str(given)
    if not isinstance(given, str) or not _PATH.fullmatch(given):
        hint = f"the folder that has libcublas.so.*, or {OWN_KERNELS} for nodegate's own kernels"
        raise node.wrong(f"nodegate_cublas: {shown(str(given))} is not an absolute path", hint)
    return given
