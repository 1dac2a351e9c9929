"""The inventory's settings for a node's tools: nodegate_tools, _tool_paths, _image and _cublas."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodegate.files.text_file import did_you_mean, shown
from nodegate.node import Node
from nodegate.node_settings.kinds import PATH
from nodegate.toolbox.tool_list import NAMES

RUNTIMES = ("docker", "podman", "enroot", "apptainer", "singularity")
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

    `cublas` is the folder or file of the cuBLAS that a burn uses, "none" if it shall use none, "" if not said.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    image: Image | None = None
    cublas: str = ""


def tool_settings(node: Node) -> ToolSettings:
    """The settings of a node. Raises UsageError: a value is invalid, with the node's file and line."""
    return ToolSettings(_paths(node), node.settings.tool_paths, _image(node), node.settings.cublas)


def _paths(node: Node) -> Mapping[str, str]:
    given = node.settings.tools
    for name, path in given.items():
        if name not in NAMES:
            raise node.wrong(f"nodegate_tools: unknown tool {shown(name)}", did_you_mean(name, NAMES), variable="tools")
        if not isinstance(path, str) or not PATH.fullmatch(path):
            message = f"nodegate_tools: {name}: {shown(str(path))} is not an absolute path"
            raise node.wrong(message, "start it with /", variable="tools")
    return {name: str(path) for name, path in given.items()}


def _image(node: Node) -> Image | None:
    given = node.settings.image
    if not given:
        return None
    runtime, mark, reference = given.partition("://")
    wrong = ""
    if not mark or runtime not in RUNTIMES:
        wrong = f"{shown(given)} does not name a container runtime"
    elif not _REST[runtime].fullmatch(reference):
        wrong = f"{shown(reference)} is not a valid image for {runtime}"
    if wrong:
        raise node.wrong(f"nodegate_image: {wrong}", f"write {_EXAMPLE}", variable="image")
    return Image(runtime, reference)
