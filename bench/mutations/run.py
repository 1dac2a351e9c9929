"""Put each of the faults into a tree and see which test finds it.

    git worktree add --detach /tmp/tree COMMIT && make -C /tmp/tree .venv/test-installed
    nice -n 19 python -m bench.mutations.run --tree /tmp/tree bench/mutations/before.json
    python -m bench.mutations.run --tree /tmp/tree --whole bench/mutations/before.json    the survivors, all tests
    python -m bench.mutations.run --table bench/mutations/before.json bench/mutations/after.json

A fault is looked for by the tests of its room and by tests/checks, up to the first that fails. That test must pass
without the fault: else it is named in `unsure`, left out, and the tests go on. The file of results grows by one fault
at a time; faults that it has are not looked for again. The tree is changed while this runs: it is nobody's to edit.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.mutations.draw import ROOT, Fault, read, room_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULTS = Path(__file__).with_name("faults.json")
LIMIT_S = 3_600.0
CPU_LIMIT_S = 1_800  # of the process that runs the tests: a fault may make a loop endless
MOST_UNSURE = 5
OTHER_TESTS = {"commands": ("cli",), "site": ("cli", "plugin"), "demo": ("demo", "causes"), "nodegate": ("judge",)}
NEVER = ("tests/endtoend", "tests/packaging", "tests/benched", "tests/lab")  # of other subjects, or on other machines
CHILD = """
import json, sys, pytest
class First:
    names = []
    def pytest_runtest_logreport(self, report):
        if report.failed and not self.names:
            self.names.append(report.nodeid)
    def pytest_collectreport(self, report):
        if report.failed and not self.names:
            self.names.append(report.nodeid)
code = int(pytest.main(sys.argv[1:], plugins=[First()]))
print("\\n" + json.dumps([code, First.names]))
"""


@dataclass(frozen=True)
class Result:
    """What became of a fault."""

    room: str
    file: str
    function: str
    was: str
    now: str
    state: str  # found, survived, found by all tests, survived all tests, not in this tree, not known
    by: str
    unsure: list[str]
    cpu_s: float


@dataclass(frozen=True)
class Ended:
    """How some tests ended: pytest's exit code, the first that failed, and the CPU time of all processes."""

    code: int
    first: str
    cpu_s: float


def place(fault: Fault, tree: Path) -> tuple[Path, str] | None:
    """The file that has it now and its text with the fault; None where no place, or more than one, has that text."""
    files = [tree / fault.file, *sorted(tree.glob("src/nodegate/**/*.py")), *sorted(tree.glob("checks/*.py"))]
    found = {}
    for path in files:
        if path in found or not path.is_file() or (path != files[0] and path.name != files[0].name and found):
            continue
        text = path.read_text("utf-8")
        if fault.was in text and (changed := _with(fault, text)):
            found[path] = changed
            if path == files[0]:
                break
    return next(iter(found.items())) if len(found) == 1 else None


def _with(fault: Fault, text: str) -> str | None:
    """A file's text with the fault in the function of its name."""
    if not fault.function:
        return text.replace(fault.was, fault.now) if text.count(fault.was) == 1 else None
    lines = text.splitlines(keepends=True)
    for first, last in _spans(ast.parse(text), fault.function):
        part = "".join(lines[first - 1 : last])
        if part.count(fault.was) == 1:
            return "".join([*lines[: first - 1], part.replace(fault.was, fault.now), *lines[last:]])
    return None


def _spans(tree: ast.Module, function: str) -> Iterator[tuple[int, int]]:
    """First and last line of the functions of a name; of a method, the class may have got another name."""
    *_, name = function.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield node.lineno, node.end_lineno or node.lineno


def tests_of(file: str, tree: Path) -> list[str]:
    """The tests of a file's room, those named like the file first, and tests/checks; where no folder is the room's,
    the test files that import it.
    """
    room, words = room_of(file), {word for part in Path(file).with_suffix("").parts for word in part.split("_")}
    folders = [name for name in (room, *OTHER_TESTS.get(room, ())) if (tree / "tests" / name).is_dir()]
    files = [path for name in folders for path in sorted((tree / "tests" / name).rglob("test_*.py"))]
    if room != "checks" and (not folders or room == "nodegate"):
        module = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        asks = re.compile(rf"\b{re.escape(module)}\b")
        files += [path for path in sorted(tree.glob("tests/**/test_*.py")) if asks.search(path.read_text("utf-8"))]
    checks = sorted((tree / "tests/checks").glob("test_*.py"))
    first = sorted((*files, *checks), key=lambda path: -len(words & {*path.stem.split("_")} - {"test"}))
    names = [str(path.relative_to(tree)) for path in dict.fromkeys(first)]
    return [name for name in names if not name.startswith(NEVER)]


def run_tests(tree: Path, tests: Sequence[str]) -> Ended:
    """pytest -x over some tests of a tree, in a process group of its own that is ended with it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    python = tree / ".venv/bin/python"
    options = ("-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--no-header", "-p", "no:xdist")
    running = subprocess.Popen(
        [python, "-c", CHILD, *options, *tests],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S)),  # noqa: PLW1509
    )
    try:
        said = running.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        said = ""
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = said.rstrip().rpartition("\n")[2]
    if not last.startswith("["):
        return Ended(2, "(the tests did not end)", cpu_s)
    code, names = json.loads(last)
    return Ended(code, names[0] if names else "", cpu_s)


def look_for(fault: Fault, tree: Path, *, whole: bool) -> Result:
    """Run the tests with the fault in the tree, which is as it was afterwards."""
    known = (fault.room, fault.file, fault.function, fault.was, fault.now)
    where = place(fault, tree)
    if where is None:
        return Result(*known, "not in this tree", "", [], 0.0)
    path, changed = where
    tests = ["tests", "--ignore=tests/endtoend"] if whole else tests_of(str(path.relative_to(tree)), tree)
    unsure: list[str] = []
    cpu_s = 0.0
    while len(unsure) < MOST_UNSURE:
        with _Changed(path, changed):
            ended = run_tests(tree, [*tests, *(f"--deselect={name}" for name in unsure)])
        cpu_s += ended.cpu_s
        if ended.code == 0:
            return Result(*known, "survived all tests" if whole else "survived", "", unsure, round(cpu_s, 1))
        if ended.first.startswith("(") or not ended.first or run_tests(tree, [ended.first]).code == 0:
            state = "found by all tests" if whole else "found"
            return Result(*known, state, ended.first or "(an error of pytest)", unsure, round(cpu_s, 1))
        unsure.append(ended.first)
    return Result(*known, "not known: tests fail without it", "", unsure, round(cpu_s, 1))


class _Changed:
    """A file that has another text meanwhile, and no bytecode of the earlier one."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text, self._was = path, text, path.read_text("utf-8")

    def __enter__(self) -> None:
        self._write(self._text)

    def __exit__(self, *_: object) -> None:
        self._write(self._was)

    def _write(self, text: str) -> None:
        self._path.write_text(text, "utf-8")
        for compiled in self._path.parent.glob(f"__pycache__/{self._path.stem}.*"):
            compiled.unlink()


def look(asked: argparse.Namespace) -> None:
    """Look for what the file of results does not have yet."""
    results: list[Result] = _results(asked.results[0])
    states = {"survived"} if asked.whole else set()
    done = {(each.file, each.was, each.now) for each in results if each.state not in states}
    for fault in (each for each in read(FAULTS) if not each.dropped):
        if (fault.file, fault.was, fault.now) in done:
            continue
        began_s = time.monotonic()
        result = look_for(fault, asked.tree, whole=asked.whole)
        results = [each for each in results if (each.file, each.was, each.now) != (fault.file, fault.was, fault.now)]
        results.append(result)
        content = json.dumps([asdict(each) for each in results], indent=1, ensure_ascii=False)
        asked.results[0].write_text(content + "\n", "utf-8")
        took = f"{result.cpu_s:.0f} s of CPU, {time.monotonic() - began_s:.0f} s"
        print(f"{result.room:12} {result.state:18} {took:26} {result.file} {result.by}", flush=True)


def _results(file: Path) -> list[Result]:
    return [Result(**each) for each in json.loads(file.read_text("utf-8"))] if file.exists() else []


def table(files: Sequence[Path]) -> Iterator[str]:
    """Each fault with its state in each file of results, and what survived in any."""
    found = [{(each.file, each.was, each.now): each for each in _results(file)} for file in files]
    yield "| room | where | kind | " + " | ".join(file.stem for file in files) + " |"
    yield "|---" * (3 + len(files)) + "|"
    for fault in (each for each in read(FAULTS) if not each.dropped):
        states = [results.get((fault.file, fault.was, fault.now)) for results in found]
        shown = " | ".join("" if each is None else each.state for each in states)
        yield f"| {fault.room} | {Path(fault.file).name} `{fault.function}` | {fault.kind} | {shown} |"


def main() -> None:
    """Look for faults, or show what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--tree", type=Path, help="a checkout with an environment of its own")
    parser.add_argument("--whole", action="store_true", help="the survivors again, by all tests but tests/endtoend")
    parser.add_argument("--table", action="store_true", help="show the results instead")
    asked = parser.parse_args()
    if asked.table:
        print("\n".join(table(asked.results)))
    elif asked.tree is None or asked.tree.resolve() == ROOT:
        sys.exit("--tree: a checkout that nobody edits")
    else:
        asked.tree = asked.tree.resolve()
        look(asked)


if __name__ == "__main__":
    main()
