"""Ways in which our own installation breaks, with the real script and program: none of them drains the node.

This machine has no GPU, so an installation that is whole calls it unfit and drains it: that is the first test.
"""

import os
import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "deploy" / "slurm-prolog.sh"
# Slurm's answers; a file says whether anything was changed.
_SCONTROL = """#!/bin/sh
[ "$1" = update ] && { echo "$*" >>HERE/changed; exit 0; }
[ -e HERE/changed ] && state=IDLE+DRAIN || state=IDLE
printf 'NodeName=gpu01\\n   State=%s\\n   Partitions=gpu\\n' $state
[ -e HERE/changed ] && sed -n 's/.*state=drain reason=/   Reason=/p' HERE/changed
exit 0
"""
_PROGRAM = """#!/bin/sh
exec "HERE/bin/python3" -I -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from nodegate.cli import main
sys.exit(main())' HERE/lib "$@"
"""
GONE, FOLDER, LINK, HALF, PLAIN = "gone", "a folder", "a link to nothing", "half", "mode 644"
OPTIONS, PROGRAM, PYTHON, CONF, SCONTROL = "options", "bin/nodegate", "bin/python3", "hooks.conf", "bin/scontrol"
PACKAGE, CHECKS, BASELINE = "lib/nodegate", "lib/nodegate/suite/checks", "lib/nodegate/suite/baselines/common.yaml"
GPULESS = pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine may be a fit node")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    package = tmp_path_factory.mktemp("whole") / "nodegate"
    shutil.copytree(ROOT / "src/nodegate", package, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("checks", "baselines"):
        shutil.copytree(ROOT / part, package / "suite" / part, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.fixture
def site(tmp_path, unpacked):
    shutil.copytree(unpacked, tmp_path / PACKAGE, copy_function=os.link)
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'  # with its libraries
    for name, text in {PROGRAM: _PROGRAM, SCONTROL: _SCONTROL, PYTHON: python, CONF: ""}.items():
        write(tmp_path / name, text.replace("HERE", str(tmp_path)))
    return tmp_path


def write(file, text):
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # it may be a link to the source
    file.write_text(text)
    file.chmod(0o755)


def spoil(site, where, how):
    file = site / where
    half = file.read_text()[: file.stat().st_size // 2] if how == HALF else ""
    if how == PLAIN:
        file.chmod(0o644)
        return
    shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    if how == LINK:
        file.symlink_to("/no/such/file")
    elif how == FOLDER:
        file.mkdir()
    elif how != GONE:
        write(file, half or how)


def prolog(site, options="", settings=""):
    """Its exit code, what it printed, and whether the node was drained."""
    options = f"--kept {site}/verdict.json --state {site}/state {options.replace('HERE', str(site))}"
    environment = {"NODEGATE": str(site / PROGRAM), "NODEGATE_CONF": str(site / CONF), "SLURMD_NODENAME": "gpu01"}
    environment |= {"NODEGATE_OPTIONS": options, "PATH": str(site / "bin"), "NODEGATE_LIMIT_S": "60"}
    if settings:
        (site / CONF).write_text(settings, errors="surrogateescape")
    for _ in range(10):  # another test may measure this machine
        done = subprocess.run([HOOK], env=environment, capture_output=True, text=True, timeout=120, check=False)
        if not done.stdout.startswith("nodegate: busy:"):
            break
    return done.returncode, done.stdout, (site / "changed").exists()


@GPULESS
def test_a_whole_installation_drains_an_unfit_node_and_observing_says_so(site):
    code, said, is_drained = prolog(site, settings="mode = observe\n")
    assert (code, is_drained, "would be drained" in said) == (0, False, True), said
    code, said, is_drained = prolog(site, settings="mode = enforce\n")
    assert (code, is_drained, said.endswith("; drained\n")) == (1, True, True), said


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "how"),
    [
        *((PROGRAM, how) for how in (GONE, FOLDER, LINK, PLAIN, "", "\x7fELF\0\0", "#!/no/such/python\n")),
        *((PROGRAM, f"#!/bin/sh\n{how}\n") for how in ("kill -9 $$", "exit 1", "echo '{' >&2; exit 1")),
        *((PYTHON, how) for how in (GONE, LINK, PLAIN, "#!/bin/sh\necho 'No module named encodings' >&2; exit 1\n")),
        *((f"{PACKAGE}/{name}", HALF) for name in ("cli.py", "hook/guard.py", "node_side/probe/main.py")),
        *((f"{PACKAGE}/{name}", "") for name in ("cli.py", "hook/hooks.py", "hook/slurm.py")),
        *((f"{PACKAGE}/{name}", GONE) for name in ("hook", "node_side", "records", "suite", "suite/checks")),
        ("lib/nodegate/__init__.py", "raise SystemExit(1)\n"),
        ("lib/json.py", "broken = 1\n"),
        *((f"{CHECKS}/test_gpu.py", how) for how in (HALF, "import no_such_module\n")),
        (f"{CHECKS}/causes.yaml", "conditions: [\n"),
        *((BASELINE, how) for how in ("limits: {\n", "", "- 1\n")),
        ("lib/nodegate/suite/baselines", GONE),
        *((SCONTROL, how) for how in (GONE, LINK, "#!/bin/sh\nexec sleep 60\n", "#!/bin/sh\necho 'usage: scontrol'\n")),
        *((SCONTROL, f"#!/bin/sh\n{how}\n") for how in ("exit 1", "printf 'NodeName=n1\\n   State=IDLE\\n'")),
        *((CONF, how) for how in (FOLDER, LINK, "exit 1\n'\"$(\n", "\0\x7f" * 99, "#" * 70000)),
        *((OPTIONS, how) for how in ("--no-such-option", "--fresh soon", "--breaker 0", "--platform no-such")),
        *((OPTIONS, how) for how in ("--baseline HERE/none.yaml", "--demands HERE/none.yaml", "--demands HERE/bin")),
        *((OPTIONS, f"--demands HERE/{name}") for name in (CONF, "open.yaml")),
    ],
    ids=repr,
)
def test_a_broken_installation_drains_nobody(site, where, how):
    write(site / "open.yaml", "{}")
    (site / "open.yaml").chmod(0o666)
    if where != OPTIONS:
        spoil(site, where, how)
    code, said, is_drained = prolog(site, how if where == OPTIONS else "")
    assert (code, is_drained) == (0, False), said
    assert "could not tell" in said or "not drained: " in said or GPULESS.args[0]


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_part_of_the_one_file_drains_nobody(site, share):
    shutil.copy(ROOT / "deploy/one_file/__main__.py", site / "lib")
    zipapp.create_archive(site / "lib", site / "one.pyz", sys.executable)
    raw = (site / "one.pyz").read_bytes()
    (site / PROGRAM).write_bytes(raw[: int(len(raw) * share)])
    code, said, is_drained = prolog(site)
    assert (code, is_drained, "could not tell" in said) == (0, False, True), said
