"""The program that is sent to a node: the payload's modules and pynvml, packed into one Python source for stdin.

Nothing is written to the node's disk: the modules are imported from memory, under their own names.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import zlib
from importlib import resources
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PACKAGE = "nodegate.probe.payload"
# -I: no module of the login's own folders or PYTHON* variables can take the place of the standard library; -S: faster.
PYTHON_OPTIONS = ("-I", "-S")

# Read by whatever Python the node has: the first lines must be good Python 2 as well.
_PROGRAM = """\
# nodegate: reads the state of this node and writes one JSON document; changes nothing.
import sys
if sys.version_info < (3, 6):
    sys.exit("nodegate needs Python 3.6 or newer on the node, this is " + sys.version.split()[0])
import base64, importlib.machinery, json, zlib
SOURCES = json.loads(zlib.decompress(base64.b64decode(b"{sources}")).decode("utf-8"))


class FromMemory:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in SOURCES:
            is_package = any(other.startswith(name + ".") for other in SOURCES)
            return importlib.machinery.ModuleSpec(name, FromMemory, origin="(sent)", is_package=is_package)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        exec(compile(SOURCES[name], "(sent) " + name, "exec"), module.__dict__)


sys.meta_path.insert(0, FromMemory)
from {package}.main import main
main(**json.loads({options!r}))
"""


def program(*, sections: Sequence[str] | None = None, limits_s: Mapping[str, float] | None = None) -> bytes:
    """The source to give to `python3 -` on a node.

    Args:
        sections: the sections of the document to read; None: all.
        limits_s: time limits in seconds that replace a section's own.

    Raises:
        UsageError: pynvml is not installed here, or is not the one of nvidia-ml-py.
    """
    options = {"sections": None if sections is None else list(sections), "limits_s": dict(limits_s or {})}
    return _PROGRAM.format(sources=_packed(), package=PACKAGE, options=json.dumps(options)).encode("ascii")


@functools.lru_cache(maxsize=1)
def _packed() -> str:
    sources = dict.fromkeys(("nodegate", "nodegate.probe"), "")
    sources |= {f"{PACKAGE}.{name}".removesuffix(".__init__"): text for name, text in payload().items()}
    sources["pynvml"] = pynvml_source()
    return base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode("ascii")


def payload() -> dict[str, str]:
    """The source of each module of the payload, by its name without the package."""
    files = [file for file in resources.files(PACKAGE).iterdir() if file.name.endswith(".py")]
    return {file.name.removesuffix(".py"): file.read_text("utf-8") for file in sorted(files, key=lambda one: one.name)}


def pynvml_source() -> str:
    """The source of the installed pynvml.

    Raises:
        UsageError: it is not installed, or the retired package `pynvml` stands in its place.
    """
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.loader is None:
        raise UsageError("the Python module pynvml is not installed here", hint="pip install nvidia-ml-py")
    if not (spec.origin or "").endswith("pynvml.py"):
        raise UsageError(
            f"pynvml comes from {spec.origin}, the retired package `pynvml`, and not from nvidia-ml-py",
            hint="pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    get_source = getattr(spec.loader, "get_source", None)
    source = get_source("pynvml") if get_source else None
    if not isinstance(source, str):
        raise UsageError(
            f"the source of {spec.origin} cannot be read", hint="pip install --force-reinstall nvidia-ml-py"
        )
    return source
