"""Faults for the tests to find, drawn by a seed over the rooms of src/nodegate and checks: `faults.json`.

    python -m bench.mutations.draw --seed 26 --count 40 bench/mutations/faults.json

Each room gives one, the larger ones more. A fault is one small change of one statement: a comparison flipped, a number
or a boundary moved, a `not` left out, `and` for `or`, the other branch returned, a call left out; of each kind about
as many. A fault is known by file, function and the text that it replaces, so that it can be put
into a later tree. In the file of faults a person may set `dropped` to the reason why a fault changes nothing that
anybody could see; drawn again with the same seed, the next one of that room takes its place.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
# Files whose removal was decided when the faults were drawn: a fault in them could not be looked for afterwards.
LEAVING = (
    *("report/short.py", "report/short_reader.py", "report/part_names.py", "report/results_file.py"),
    *("packed.py", "light_marks.py", "run/packed_findings.py", "run/pack_evidence.py", "files/at_hand.py"),
    *("plugin/at_once.py", "plugin/one_step.py", "plugin/listeners.py", "taken_key.py"),
    *("node_side/load/hopper.py", "node_side/load/proof.py", "measure/burn/new_kernel.py"),
)
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
KINDS = ("boundary", "comparison", "and/or", "not", "other branch", "constant", "arithmetic", "name", "left out")
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
SUMS: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/"}  # a "/" is a path more often
MOST_LINES = 4  # of a statement: what is longer is a table


@dataclass(frozen=True)
class Fault:
    """One change: in `function` of `file`, the text `was`, which is there once, becomes `now`."""

    room: str
    file: str
    function: str  # "" at the level of the module
    kind: str
    was: str
    now: str
    dropped: str = ""


@dataclass(frozen=True)
class Source:
    """A file of the tree. Places in it are counted in bytes, as `ast` does."""

    file: str
    text: bytes

    def at(self, line: int, column: int) -> int:
        """The place of a line and column."""
        lines = self.text.split(b"\n")
        return sum(len(each) + 1 for each in lines[: line - 1]) + column

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Where a node begins."""
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Where a node ends."""
        return self.at(node.end_lineno or 0, node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Its text."""
        return self.text[self.start(node) : self.end(node)].decode()


Edit = tuple[str, int, int, str]  # kind, from, to, what stands there then


def faults_of(file: str, text: bytes, room: str) -> Iterator[Fault]:
    """Every fault that could be put into a file."""
    source = Source(file, text)
    tree = ast.parse(text)
    for name, body in _functions(tree):
        whole = text.decode() if body is tree else source.of(body)  # type: ignore[arg-type]
        for statement, node in _statements(body):
            began, was = source.start(node), source.of(node)
            if whole.count(was) != 1 or was.count("\n") >= MOST_LINES:
                continue
            for kind, first, last, put in _edits(source, statement, node):
                now = (text[began:first] + put.encode() + text[last : source.end(node)]).decode()
                if now != was and _compiles(text, first, last, put):
                    yield Fault(room, file, name, kind, was, now)


def _compiles(text: bytes, first: int, last: int, put: str) -> bool:
    try:
        compile(text[:first] + put.encode() + text[last:], "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.Module | ast.FunctionDef]]:
    """The module, each function and each method; a function inside a function belongs to it."""
    yield "", tree
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            yield from ((f"{node.name}.{each.name}", each) for each in methods if each.name != "__repr__")


def _statements(body: ast.Module | ast.FunctionDef) -> Iterator[tuple[ast.stmt, ast.stmt | ast.expr]]:
    """Statements with what of them is one text: a simple one whole, of `if`, `while` and `for` what is asked."""
    if isinstance(body, ast.Module):
        named = (each for each in body.body if isinstance(each, ast.Assign | ast.AnnAssign))
        yield from ((each, each) for each in named if isinstance(each.value, ast.Constant | ast.Tuple))
        return
    for node in ast.walk(body):
        if isinstance(node, ast.If | ast.While):
            yield node, node.test
        elif isinstance(node, ast.For):
            yield node, node.iter
        elif isinstance(node, ast.Return | ast.Assign | ast.AugAssign | ast.Expr | ast.Continue):
            yield node, node


def _edits(source: Source, statement: ast.stmt, node: ast.stmt | ast.expr) -> Iterator[Edit]:
    if isinstance(statement, ast.Expr):
        if not isinstance(statement.value, ast.Call):
            return  # a docstring or a yield
        yield "left out", source.start(node), source.end(node), "pass"
    if isinstance(statement, ast.AugAssign):
        yield "left out", source.start(node), source.end(node), "pass"
    if isinstance(statement, ast.Continue):
        yield "left out", source.start(node), source.end(node), "pass"
    for part in _parts(node):
        yield from _edits_of(source, part)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement is made of, without texts that are put together: those are messages."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.expr):
            yield child
        yield from _parts(child)
    if isinstance(node, ast.expr):
        yield node


def _edits_of(source: Source, node: ast.expr) -> Iterator[Edit]:  # noqa: C901 - a table of kinds
    start, end = source.start(node), source.end(node)
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
            kind = "boundary" if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) else "comparison"
            yield kind, source.end(left), source.start(right), f" {COMPARISONS[type(operator)]} "
        case ast.BoolOp(op=operator, values=[first, second, *_]):
            put = " or " if isinstance(operator, ast.And) else " and "
            between = source.text[source.end(first) : source.start(second)].decode()
            if between.strip() in {"and", "or"}:  # without brackets, which would be lost
                yield "and/or", source.end(first), source.start(second), put
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", start, source.start(operand), ""
        case ast.IfExp(body=body, orelse=other):
            yield "other branch", start, source.end(body), source.of(other)
        case ast.Constant(value=bool(value)):
            yield "constant", start, end, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", start, end, str(value + 1)
        case ast.Constant(value=float(value)):
            yield "constant", start, end, repr(value * 1.25)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SUMS:
            between = source.text[source.end(left) : source.start(right)].decode()
            if between.strip() in {"+", "-", "*"} and not _is_text(left) and not _is_text(right):
                yield "arithmetic", source.end(left), source.start(right), f" {SUMS[type(operator)]} "
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield "name", start, start + len(name), NAMES[name]
        case _:
            return


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Tuple | ast.List) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def room_of(file: str) -> str:
    """`measure` of src/nodegate/measure/burn/run.py, `checks`; `nodegate` of what lies beside the rooms."""
    parts = Path(file).parts
    if parts[0] == "checks":
        return "checks"
    return parts[2] if len(parts) > 3 else "nodegate"


def by_room(tree: Path) -> dict[str, dict[str, bytes]]:
    """Room -> file -> its text."""
    rooms: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path in sorted([*tree.glob("src/nodegate/**/*.py"), *tree.glob("checks/*.py")]):
        file = str(path.relative_to(tree))
        if not file.endswith(LEAVING) and "/site/checks/" not in file:
            rooms[room_of(file)][file] = path.read_bytes()
    return {room: files for room, files in rooms.items() if sum(map(len, files.values())) > 1_000}


def shares(rooms: dict[str, dict[str, bytes]], count: int) -> dict[str, int]:
    """How many faults each room gives: one, and more by its size (highest averages)."""
    sizes = {room: sum(map(len, files.values())) for room, files in rooms.items()}
    given = dict.fromkeys(sizes, 1)
    while sum(given.values()) < count:
        given[max(sizes, key=lambda room: sizes[room] / (given[room] + 1))] += 1
    return given


def draw(tree: Path, seed: int, count: int, dropped: Sequence[Fault]) -> list[Fault]:
    """The faults of a seed, with those dropped among them, which are not counted."""
    rooms = by_room(tree)
    why = {(each.file, each.function, each.was, each.now): each for each in dropped if each.dropped}
    drawn: list[Fault] = []
    deck = _deck(seed)
    for room, wanted in shares(rooms, count).items():
        kinds = _shuffled(rooms[room], room, seed)
        for _ in range(wanted):
            kind = next(each for each in deck if kinds.get(each))
            while True:
                fault = kinds[kind].pop()
                known = why.get((fault.file, fault.function, fault.was, fault.now))
                drawn.append(known or fault)
                if known is None:
                    break
    return drawn


def _deck(seed: int) -> Iterator[str]:
    """The kinds, each as often as the others, mixed."""
    order = random.Random(seed)  # noqa: S311
    while True:
        yield from order.sample(KINDS, len(KINDS))


def _shuffled(files: dict[str, bytes], room: str, seed: int) -> dict[str, list[Fault]]:
    """All faults of a room by kind, each kind in an order of its own."""
    kinds: dict[str, list[Fault]] = defaultdict(list)
    for file, text in files.items():
        for fault in faults_of(file, text, room):
            kinds[fault.kind].append(fault)
    for kind, each in kinds.items():
        random.Random(f"{seed} {room} {kind}").shuffle(each)  # noqa: S311
    return kinds


def read(path: Path) -> list[Fault]:
    """The faults of a file; none of one that is not there yet."""
    return [Fault(**each) for each in json.loads(path.read_text("utf-8"))["faults"]] if path.exists() else []


def main() -> None:
    """Draw, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout that they are drawn from")
    asked = parser.parse_args()
    drawn = draw(asked.tree, asked.seed, asked.count, read(asked.file))
    content = {"seed": asked.seed, "count": asked.count, "faults": [asdict(each) for each in drawn]}
    asked.file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for number, fault in enumerate(drawn, start=1):
        print(f"{number:3} {fault.room:12} {fault.kind:12} {fault.file} {fault.function}{fault.dropped and ' DROPPED'}")
        print(f"      {fault.was!r}\n   -> {fault.now!r}")


if __name__ == "__main__":
    main()
