"""Places of a program that can be changed: operators, numbers, calls and statements."""

import ast
import copy
from collections import Counter
from typing import NamedTuple

SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OTHER_NAME = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
HINTS = ("prefetch", "fetch")  # calls that only make others faster
SKIPPED = (
    ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Raise, ast.Assert, ast.JoinedStr, ast.Import,
    ast.ImportFrom,
)  # fmt: skip


class Place(NamedTuple):
    """One change: what is between two offsets of a file, and what takes its place."""

    file: str
    name: str  # identifies the change, also where lines have moved
    start: int
    end: int
    new: str
    lines: tuple[int, int]  # of the statement, as far as a test must reach it

    def applied(self, text):
        """Return the changed program."""
        return text[: self.start] + self.new + text[self.end :]


def planted(root, file, old, new):
    """Return the place of a text that occurs once in a file."""
    text = (root / file).read_text()
    if text.count(old) != 1:
        raise ValueError(f"{file} has {text.count(old)} times {old!r}, not once")
    start = text.index(old)
    begin = start + len(old) - len(old.lstrip())
    lines = text[:begin].count("\n") + 1, text[: start + len(old.rstrip())].count("\n") + 1
    name = f"{file}: {' '.join(old.split())} -> {' '.join(new.split()) or 'pass'}"
    indent = " " * (len(old) - len(old.lstrip()))
    return Place(file, name, start, start + len(old), new or f"{indent}pass\n", lines)


def places_of(root, file):
    """Return all places of a file, but for those outside functions."""
    text = (root / file).read_text()
    rows = text.splitlines(keepends=True)
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    if not text.isascii():  # columns count bytes
        raise ValueError(f"{file} has letters beyond ASCII")
    found, seen = [], Counter()
    for name, function in functions(ast.parse(text)):
        for body in function.body:
            for statement, node in walk(body, body):
                for new in changes_of(node):
                    start = starts[node.lineno - 1] + node.col_offset
                    end = starts[node.end_lineno - 1] + node.end_col_offset
                    old = " ".join(text[start:end].split())
                    where = f" in `{rows[node.lineno - 1].strip()}`" if len(old) < 12 else ""
                    label = f"{file}, {name}: {old} -> {new}{where}"
                    seen[label] += 1
                    if seen[label] > 1:
                        label += f" ({seen[label]})"
                    lines = statement.lineno, node.end_lineno
                    found.append(Place(file, label, start, end, new, lines))
    return found


def functions(tree, prefix=""):
    """Yield the name and the definition of all functions, those within others too."""
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{prefix}{node.name}."
            if isinstance(node, ast.FunctionDef):
                yield inner[:-1], node
        yield from functions(node, inner)


def walk(statement, node):
    """Yield a node and all below it that a test could notice, each with its statement."""
    if isinstance(node, SKIPPED) or called(getattr(node, "value", None)) in HINTS:
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield statement, node
    for name, child in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment"):
            continue
        for inner in child if isinstance(child, list) else [child]:
            if isinstance(inner, ast.AST):
                yield from walk(statement, inner)


def changes_of(node):
    """Yield what may take the place of a node."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        new.ops[0] = SWAPPED[type(node.ops[0])]()
        yield f"({ast.unparse(new)})"
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPPED:
        new.op = SWAPPED[type(node.op)]()
        yield f"({ast.unparse(new)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield repr(node.value + 1) if type(node.value) is int else repr(2 * node.value or 1.0)
    elif isinstance(node, ast.Call) and called(node) in OTHER_NAME:
        other = OTHER_NAME[called(node)]
        if isinstance(node.func, ast.Name):
            new.func.id = other
        else:
            new.func.attr = other
        yield ast.unparse(new)
    elif isinstance(node, ast.AugAssign) or is_effect(node):
        yield "pass"


def called(node):
    """Return the last name of what a call calls, if it is one."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", "") or getattr(node.func, "attr", "")


def is_effect(node):
    """Return whether a statement stores something, or calls something for its effect."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    stored = (ast.Attribute, ast.Subscript)
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], stored)
