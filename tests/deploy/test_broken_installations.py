"""Forty ways in which our own installation breaks, with the real script and program: none of them drains the node.

This machine has no GPU, so an installation that is whole calls it unfit and drains it: that is the first test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "deploy" / "slurm-prolog.sh"
SUITE = ("checks", "baselines")
# Slurm's answers, and whether anything was changed.
_SCONTROL = """#!/bin/sh
[ "$1" = update ] && { echo "$*" >>HERE/told; shift 3; }
echo "NodeName=gpu01"
[ -e HERE/told ] && echo "   State=IDLE+DRAIN" || echo "   State=IDLE"
echo "   Partitions=gpu"
[ -e HERE/told ] && sed -n 's/.*state=drain reason=/   Reason=/p' HERE/told
exit 0
"""
_PROGRAM = """#!/bin/sh
exec "HERE/bin/python3" -I -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from nodegate.cli import main
sys.exit(main())' HERE/lib "$@"
"""
GPULESS = pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine may be a fit node")


class Site:
    """An installation and its Slurm."""

    def __init__(self, home: Path) -> None:
        self.home, self.program, self.conf = home, home / "bin/nodegate", home / "hooks.conf"
        self.package = home / "lib/nodegate"
        self.options = f"--kept {home}/verdict.json --state {home}/state"
        (home / "bin").mkdir()
        self.script("bin/python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')  # with its libraries
        self.script("bin/nodegate", _PROGRAM)
        self.script("bin/scontrol", _SCONTROL)
        self.conf.write_text("")

    def script(self, name: str, text: str) -> None:
        file = self.home / name
        file.write_text(text.replace("HERE", str(self.home)))
        file.chmod(0o755)

    def holds(self, name: str, text: str) -> None:
        """A file of the package or suite has this in place of what it had; it was a link to the source."""
        file = self.package / name
        file.unlink()
        file.write_text(text)

    def half(self, name: str) -> None:
        text = (self.package / name).read_text()
        self.holds(name, text[: len(text) // 2])

    def prolog(self) -> tuple[int, str, bool]:
        """Its exit code, what it printed, and whether the node was drained."""
        if self.conf.is_file() and not self.conf.is_symlink():
            held = f"NODEGATE_OPTIONS={self.options}\n".encode() + self.conf.read_bytes()
            self.conf.write_bytes(held)
        environment = {"NODEGATE": str(self.program), "NODEGATE_CONF": str(self.conf), "SLURMD_NODENAME": "gpu01"}
        environment |= {"PATH": str(self.home / "bin")}
        done = subprocess.run([HOOK], env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, (self.home / "told").exists()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("whole") / "nodegate"
    shutil.copytree(ROOT / "src/nodegate", package, ignore=shutil.ignore_patterns("__pycache__"))
    for part in SUITE:
        shutil.copytree(ROOT / part, package / "suite" / part, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.fixture
def site(tmp_path: Path, unpacked: Path) -> Site:
    shutil.copytree(unpacked, tmp_path / "lib/nodegate", copy_function=os.link)
    return Site(tmp_path)


@GPULESS
def test_a_whole_installation_drains_an_unfit_node(site: Site) -> None:
    code, said, is_drained = site.prolog()
    assert (code, is_drained) == (1, True), said
    assert said.startswith("nodegate: unfit: ")
    assert said.endswith("; drained\n")


@GPULESS
def test_observing_it_only_says_so(site: Site) -> None:
    site.conf.write_text("mode = observe\n")
    code, said, is_drained = site.prolog()
    assert (code, is_drained, "would be drained" in said) == (0, False, True)


def archive(site: Site, share: float) -> None:
    """The one file for compute nodes, of which a copy stopped halfway."""
    shutil.copy(ROOT / "deploy/one_file/__main__.py", site.home / "lib")
    zipapp.create_archive(site.home / "lib", site.home / "one.pyz", sys.executable)
    raw = (site.home / "one.pyz").read_bytes()
    site.program.write_bytes(raw[: int(len(raw) * share)])


def options(*more: str) -> Callable[[Site], None]:
    def set_them(site: Site) -> None:
        site.options = " ".join((site.options, *more)).replace("HERE", str(site.home))

    return set_them


def demands(text: str, mode: int = 0o644) -> Callable[[Site], None]:
    def write(site: Site) -> None:
        file = site.home / "demands.yaml"
        file.write_text(text)
        file.chmod(mode)
        site.options += f" --demands {file}"

    return write


def baseline(text: str) -> Callable[[Site], None]:
    def write(site: Site) -> None:
        (site.home / "site.yaml").write_text(text)
        site.options += f" --baseline {site.home}/site.yaml"

    return write


def no_folder(name: str) -> Callable[[Site], None]:
    return lambda site: shutil.rmtree(site.package / name)


def python(text: str) -> Callable[[Site], None]:
    def write(site: Site) -> None:
        (site.home / "bin/python3").unlink()
        site.script("bin/python3", text)

    return write


def relinked(name: str, target: str) -> Callable[[Site], None]:
    def link(site: Site) -> None:
        (site.home / name).unlink()
        (site.home / name).symlink_to(target)

    return link


def folder(name: str) -> Callable[[Site], None]:
    return lambda site: ((site.home / name).unlink(), (site.home / name).mkdir())[1]


BROKEN: dict[str, Callable[[Site], object]] = {
    "no program": lambda site: site.program.unlink(),
    "program not executable": lambda site: site.program.chmod(0o644),
    "program empty": lambda site: site.program.write_text(""),
    "program of another machine": lambda site: site.program.write_bytes(b"\x7fELF" + bytes(99)),
    "program a folder": folder("bin/nodegate"),
    "program without interpreter": lambda site: site.script("bin/nodegate", "#!/no/such/python\n"),
    "program a link to nothing": relinked("bin/nodegate", "/no/such/program"),
    "program hangs": lambda site: (
        site.script("bin/nodegate", "#!/bin/sh\nexec sleep 60\n"),
        site.conf.write_text("NODEGATE_LIMIT_S=1\n"),
    ),
    "program killed": lambda site: site.script("bin/nodegate", "#!/bin/sh\nkill -9 $$\n"),
    "program ends with 1": lambda site: site.script("bin/nodegate", "#!/bin/sh\nexit 1\n"),
    "no python": relinked("bin/python3", "/no/such/python"),
    "python of another release": python("#!/bin/sh\necho 'SyntaxError: invalid syntax' >&2; exit 1\n"),
    "python without its library": python("#!/bin/sh\necho 'No module named encodings' >&2; exit 1\n"),
    "nothing in the package": lambda site: (
        shutil.rmtree(site.package),
        site.package.mkdir(),
        (site.package / "__init__.py").touch(),
    ),
    **{f"half of {name}": lambda site, name=name: site.half(name) for name in ("cli.py", "hook/guard.py", "facts.py")},
    **{f"{name} empty": lambda site, name=name: site.holds(name, "") for name in ("cli.py", "hook/hooks.py")},
    **{f"{name} gone": no_folder(name) for name in ("hook", "node_side", "records", "suite", "suite/checks")},
    "baselines gone": no_folder("suite/baselines"),
    "node program broken": lambda site: site.half("node_side/probe/main.py"),
    "half of a check": lambda site: site.half("suite/checks/test_gpu.py"),
    "a check that cannot be imported": lambda site: site.holds("suite/checks/test_gpu.py", "import no_such_module\n"),
    "half of the causes": lambda site: site.holds("suite/checks/causes.yaml", "conditions: [\n"),
    "half of a baseline": lambda site: site.holds("suite/baselines/common.yaml", "limits: {\n"),
    "baseline empty": lambda site: site.holds("suite/baselines/common.yaml", ""),
    "a module of the library is ours": lambda site: (site.home / "lib/json.py").write_text("broken = 1\n"),
    "demands of another node": demands("nodegate_demands: 1\nnode: other\n"),
    "demands damaged": demands("{"),
    "demands that others can write": demands("{}", 0o666),
    "demands missing": options("--demands HERE/none.yaml"),
    "site's baseline missing": options("--baseline HERE/none.yaml"),
    "site's baseline damaged": baseline("limits: [\n"),
    "site's baseline with a mistyped key": baseline("limits:\n  gpu.no_such_limit: {value: 1, source: x}\n"),
    "no such platform": options("--platform no-such"),
    "no such option": options("--no-such-option"),
    "an option without its number": options("--fresh soon"),
    "a breaker of 0": options("--breaker 0"),
    "settings of rubbish": lambda site: site.conf.write_text("exit 1\n'\"$(\n"),
    "settings of zeros": lambda site: site.conf.write_bytes(b"\xff\x00" * 99),
    "settings with a mistyped key": lambda site: site.conf.write_text("NODEGATE_NODE=gpu*\n"),
    "settings with a mistyped mode": lambda site: site.conf.write_text("mode = observed\n"),
    "settings too large": lambda site: site.conf.write_text("#" * 70000),
    "settings a folder": folder("hooks.conf"),
    "settings a link to nothing": relinked("hooks.conf", "/no/such/file"),
    "no scontrol": lambda site: (site.home / "bin/scontrol").unlink(),
    "scontrol without an answer": lambda site: site.script("bin/scontrol", "#!/bin/sh\nexec sleep 60\n"),
    "scontrol refuses": lambda site: site.script("bin/scontrol", "#!/bin/sh\necho 'Unable to contact' >&2; exit 1\n"),
    "scontrol of another release": lambda site: site.script("bin/scontrol", "#!/bin/sh\necho 'usage: scontrol'\n"),
    "scontrol of another cluster": lambda site: site.script(
        "bin/scontrol", "#!/bin/sh\nprintf 'NodeName=login1\\n   State=IDLE\\n'\n"
    ),
    **{f"{share:.0%} of the one file": lambda site, share=share: archive(site, share) for share in (0.01, 0.5, 0.99)},
}


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=name) for name, spoil in BROKEN.items()])
def test_a_broken_installation_drains_nobody(site: Site, spoil: Callable[[Site], object]) -> None:
    spoil(site)
    code, said, is_drained = site.prolog()
    assert (code, is_drained) == (0, False), said
    assert "could not tell" in said or "not drained: " in said
