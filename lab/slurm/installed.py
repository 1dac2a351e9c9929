"""nodegate on a lab node, in an environment of its own as docs/guide/running.md says: /opt/nodegate."""

from __future__ import annotations

import compileall
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from lab import probe_limits

if TYPE_CHECKING:
    from lab.nodes.node import LabNode

ROOT = Path(__file__).parents[2]
HOME = "opt/nodegate"
_SCRIPT = "#!/opt/nodegate/bin/python3\nimport sys\nfrom nodegate.cli import main\nsys.exit(main())\n"
_SUITE = ("checks", "baselines", "inventory", "reports/templates")  # as in the wheel (pyproject.toml)


def unpack(folder: Path, answer_limit_s: float = 15.0) -> Path:
    """What the wheel carries, for all nodes, compiled as pip leaves it; a reading and scontrol may take longer."""
    package = folder / "nodegate"
    shutil.copytree(ROOT / "src/nodegate", package)
    modules = {file.stem: file.read_text() for file in (package / "node_side/probe").glob("*.py")}
    for name, text in probe_limits.patient(modules).items():
        (package / f"node_side/probe/{name}.py").write_text(text)
    slurm = package / "hook/slurm.py"
    slurm.write_text(probe_limits.replaced(slurm.read_text(), "LIMIT_S = 5.0", f"LIMIT_S = {answer_limit_s}"))
    incidents = package / "kernel_log/incidents.py"  # between tests a node forgets its log, and does not boot again
    incidents.write_text(probe_limits.replaced(incidents.read_text(), "since_s + INCIDENT_S", "since_s + 86400.0"))
    compileall.compile_dir(package, quiet=1)
    for part in _SUITE:
        shutil.copytree(ROOT / part, package / "suite" / part)
    return folder


def install(node: LabNode, unpacked: Path) -> None:
    """Give a node its /opt/nodegate, before it boots: its own Python, our package and deploy/, and what they need.

    The libraries are those of the environment that runs us; all that a hook imports of them is plain Python.
    """
    home = node.root / HOME
    packages = home / "lib" / _python(node.root) / "site-packages"
    for folder in (home / "bin", home / "libraries", packages / "nodegate"):
        folder.mkdir(parents=True)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    (home / "bin/nodegate").write_text(_SCRIPT)
    (home / "bin/nodegate").chmod(0o755)
    shutil.copytree(ROOT / "deploy", home / "deploy", symlinks=True)
    (packages / "libraries.pth").write_text(f"/{HOME}/libraries\n")
    inside = f"/run/nodes/{node.name}/root/{HOME}"
    node.space.inside("mount", "--bind", sysconfig.get_path("purelib"), f"{inside}/libraries")
    own = f"{inside}/{(packages / 'nodegate').relative_to(home)}"
    node.space.inside("mount", "--bind", str(unpacked / "nodegate"), own)
    for bound in (f"{inside}/libraries", own):
        node.space.inside("mount", "-o", "remount,bind,ro", bound)


def _python(image: Path) -> str:
    """The folder name of the node's own Python, python3.11."""
    return next(path.name for path in sorted((image / "usr/lib").glob("python3.*")))
