"""A program that is sent to a node: nodegate's modules and pynvml, packed into one Python source for stdin.

Nothing is written to the node's disk: the modules are imported from memory, under their own names.
"""

import base64
import functools
import importlib.util
import json
import threading
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources

from nodegate.errors import UsageError

# -I: no module of the login's own folders or PYTHON* variables can replace the standard library; -S: faster.
PYTHON_OPTIONS = ("-I", "-S")
_PACKING = threading.Lock()

# Any Python version may read it: the first lines must be valid Python 2 as well.
_PROGRAM = """\
# nodegate: {purpose}
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
from {main} import main
main(**json.loads({options!r}))
"""

# A module that another one imports from node_side/, for programs that are no more than these two.
_HELPER = """import sys, types
package = sys.modules.setdefault("nodegate.node_side", types.ModuleType("nodegate.node_side"))
package.{name} = types.ModuleType("nodegate.node_side.{name}")
exec(compile({source!r}, "(sent) {name}", "exec"), package.{name}.__dict__)
"""


def pack(*, main: str, packages: Sequence[str], options: Mapping[str, object], purpose: str) -> bytes:
    """The source to give to `python3 -I -S -` on a node.

    Args:
        main: the module whose `main(**options)` is called.
        packages: what is sent: a package with all its modules, a module alone.
        options: values that JSON can represent.
        purpose: what the program does on the node, in one line: its first line, for people who find it on the node.

    Raises:
        UsageError: pynvml is not installed here, or is not the one of nvidia-ml-py.
    """
    with _PACKING:  # a campaign asks from 64 threads at once: one packs, the others wait for it
        sources = _packed(tuple(packages))
    return _PROGRAM.format(sources=sources, main=main, options=json.dumps(options), purpose=purpose).encode("ascii")


def modules_of(package: str) -> dict[str, str]:
    """The source of each module of a package, by its name without the package."""
    files = [file for file in resources.files(package).iterdir() if file.name.endswith(".py")]
    return {file.name.removesuffix(".py"): file.read_text("utf-8") for file in sorted(files, key=lambda one: one.name)}


def pynvml_source() -> str:
    """The source of the installed pynvml.

    Raises:
        UsageError: it is not installed, or the retired package `pynvml` is in its place.
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


@functools.cache
def node_source(name: str) -> str:
    """The source of a module of node_side/, by its name there: "guard", "tools.find_tools"."""
    path = name.replace(".", "/") + ".py"
    return resources.files("nodegate.node_side").joinpath(path).read_text("utf-8")


@functools.cache
def node_source_with(name: str, helper: str) -> str:
    """The source of a module of node_side/ that imports another one there, which needs nothing but Python's own."""
    return _HELPER.format(name=helper, source=node_source(helper)) + node_source(name)


@functools.lru_cache(maxsize=8)
def _packed(packages: tuple[str, ...]) -> str:
    sources: dict[str, str] = {}
    for package in packages:
        sources |= _sources_of(package)
    names = [name.split(".") for name in sources]
    parents = {".".join(parts[:count]) for parts in names for count in range(1, len(parts))}
    sources |= {parent: sources.get(parent, "") for parent in sorted(parents)}
    sources["pynvml"] = pynvml_source()
    return base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode("ascii")


def _sources_of(name: str) -> dict[str, str]:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is None:
        package, _, module = name.rpartition(".")
        return {name: modules_of(package)[module]}
    return {f"{name}.{module}".removesuffix(".__init__"): text for module, text in modules_of(name).items()}
