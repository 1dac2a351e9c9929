"""No file is opened for reading but by `files`: anything else could wait for a pipe, or never end."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "nodegate"
ELSEWHERE = (  # on the node there is nothing of the project but the standard library
    "node_side/",
    "files/bounded.py",
    "files/bounded.py",  # as strict, and follows no link: only root may have written it
)
OPENS = frozenset(
    ("open", "fdopen", "open_code", "read_text", "read_bytes", "from_path", "from_file", "loadtxt", "read_csv")
)
DATABASE = "sqlite3.connect"
OWN = "a file of the installation"
EXCEPTIONS = {
    ("knowledge/tables.py", "resources.files(__package__).joinpath(name).read_text"): OWN,
    ("job/prometheus.py", "opener(access.ca_file).open"): "a connection",
    ("notices/http.py", "opener().open"): "a connection",
    ("job/tables.py", "resources.files(__package__).joinpath(name).read_text"): OWN,
    ("node_program.py", "file.read_text"): OWN,
    ("node_program.py", "resources.files('nodegate.node_side').joinpath(path).read_text"): OWN,
    ("certificate/page.py", "(folder / 'certificate.css').read_text"): OWN,
    ("report/html.py", "(folder / name).read_text"): OWN,
    ("commands/init.py", "files('nodegate.site').joinpath(name).read_text"): OWN,
    ("triage/page.py", "(folder / 'report.css').read_text"): OWN,
    ("watch/html.py", "(_HERE / 'page.css').read_text"): OWN,
    ("hook/current_verdict.py", "_BOOT.read_text"): "a file of /proc",
    ("scheduler/hold.py", "Path(f'/proc/{process}/stat').read_text"): "a file of /proc",
    ("hook/current_verdict.py", "os.open"): "a lock",
    ("hook/spool.py", "open"): "a descriptor that the trusted opener gave",
    ("night/state.py", "os.open"): "a lock",
    ("records/manifest.py", "os.open"): "appends",
    ("records/run_folder.py", "os.open"): "a folder, held by a lock",
    ("transport/known_hosts.py", "os.open"): "appends",
    ("transport/known_hosts.py", "os.fdopen"): "appends",
    ("transport/identities.py", "paramiko.PKey.from_path"): "both files that it opens were read before",
    ("plugin/interrupt.py", "os.open"): "/dev/null",
    ("commands/output.py", "os.open"): "/dev/null",
    ("toolbox/carried.py", "tarfile.open"): "an archive that is made",
    ("transport/openssh.py", "_Master.open"): "a connection",
    ("past/database.py", DATABASE): "SQLite opens it; a pipe or a device is refused before",
    ("past/events.py", "os.open"): "appends",
    ("commands/diff.py", DATABASE): "in memory",
    ("triage/reading.py", "source.open"): "by the one opener",
    ("triage/packed.py", "archive.open"): "a member of an archive that the one opener has opened",
}


@cache
def found():
    files = {file.relative_to(SOURCE).as_posix(): file for file in SOURCE.rglob("*.py")}
    trees = {name: ast.parse(file.read_text("utf-8")) for name, file in files.items() if not name.startswith(ELSEWHERE)}
    return {(name, each) for name, tree in trees.items() for each in openings(tree)}


def openings(tree):
    """The calls that open a file which they do not write anew."""
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    return [ast.unparse(call.func) for call in calls if _named(call.func) in OPENS and not _writes(call)]


def _named(called):
    """The last name of what is called; of functions only `open`: another is imported from where it is defined."""
    if ast.unparse(called) == DATABASE:
        return "open"
    if isinstance(called, ast.Name):
        return called.id if called.id == "open" else ""
    return called.attr if isinstance(called, ast.Attribute) else ""


def _writes(call):
    given = (*call.args, *(one.value for one in call.keywords))
    modes = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(len(mode) < 4 and mode[:1] in tuple("wxa") for mode in modes)


def test_every_file_is_opened_in_one_place():
    assert found() - EXCEPTIONS.keys() == set()


def test_each_exception_is_needed():
    assert EXCEPTIONS.keys() - found() == set()
