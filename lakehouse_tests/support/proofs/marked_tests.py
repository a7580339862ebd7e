"""The tests that are marked ``law`` or ``proof``, found in the source: nothing is imported, so that it takes a second.

A mark counts where pytest reads it: on a test, its class or its module, on one of its cases (``pytest.param``), on a case of a
fixture that it uses, or in a constant that one of these names. A mark elsewhere is a stray one, which this module would miss.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse_tests.support.proofs.shards import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MARKS = ("law", "proof")
_HELPERS = f"{TESTS}.support.laws"
#: The modules that apply the marks for others.
_APPLYING = ("support/laws.py",)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class MarkedTests:
    """Names of marked test functions, and the places of stray marks; both below ``lakehouse_tests``."""

    tests: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)


def marked_tests(folder: Path) -> MarkedTests:
    """The marked tests of all modules below ``folder``."""
    result = MarkedTests()
    for path in sorted(folder.rglob("*.py")):
        name, text = path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")
        if name in _APPLYING or not re.search(r"\b(law|proof)\b", text):
            continue
        module = _Module(ast.parse(text))
        collected = re.fullmatch(r"test_.*|.*_test", path.stem) is not None
        if collected:
            result.tests += [f"{name}::{test}" for test in module.tests()]
        result.stray += [f"{name}:{line}" for line in module.stray(collected=collected)]
    return result


def defined_tests(path: Path) -> set[str]:
    """The names of all tests of a module, marked or not: functions, and those of classes with ``::`` between."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, _Function):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {node.name, *(f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, _Function))}
        elif isinstance(node, ast.Assign):
            names |= _targets(node)
    return names


class _Module:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._laws = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == _HELPERS
            for alias in node.names
            if alias.name == "law"
        }
        self._constants: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and self._carries(node.value):
                self._constants |= _targets(node)
        self._fixtures = self._marked_fixtures()

    def tests(self) -> Iterator[str]:
        """The names of marked tests."""
        yield from self._tests_of(self._tree.body, every="pytestmark" in self._constants)

    def stray(self, *, collected: bool) -> list[int]:
        """The lines of marks that no test carries."""
        carrying: list[ast.expr] = []
        for node in ast.walk(self._tree) if collected else ():
            if isinstance(node, _Function | ast.ClassDef):
                carrying += node.decorator_list
        for node in self._assignments() if collected else ():
            carrying += [node.value] if node.value else []
        seen = {id(inner) for expression in carrying for inner in ast.walk(expression)}
        return sorted(node.lineno for node in ast.walk(self._tree) if self._is_mark(node) and id(node) not in seen)

    def _assignments(self) -> Iterator[ast.Assign | ast.AnnAssign]:
        bodies = [self._tree.body, *(node.body for node in self._tree.body if isinstance(node, ast.ClassDef))]
        yield from (node for body in bodies for node in body if isinstance(node, ast.Assign | ast.AnnAssign))

    def _tests_of(self, body: Iterable[ast.stmt], *, every: bool) -> Iterator[str]:
        for node in body:
            if isinstance(node, _Function) and node.name.startswith("test"):
                if every or self._any_carries(node.decorator_list) or _arguments(node) & self._fixtures:
                    yield node.name
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                own_mark = any(
                    "pytestmark" in _targets(inner) and self._carries(inner.value)
                    for inner in node.body
                    if isinstance(inner, ast.Assign | ast.AnnAssign)
                )
                whole = every or own_mark or self._any_carries(node.decorator_list)
                yield from (f"{node.name}::{name}" for name in self._tests_of(node.body, every=whole))
            elif isinstance(node, ast.Assign) and (every or self._carries(node.value)):
                yield from sorted(name for name in _targets(node) if name.startswith("test"))

    def _marked_fixtures(self) -> set[str]:
        functions = [node for node in ast.walk(self._tree) if isinstance(node, _Function) and not node.name.startswith("test")]
        fixtures = [node for node in functions if any("fixture" in ast.unparse(one) for one in node.decorator_list)]
        marked = {node.name for node in fixtures if self._any_carries(node.decorator_list)}
        while more := {node.name for node in fixtures if _arguments(node) & marked} - marked:
            marked |= more
        return marked

    def _any_carries(self, expressions: Iterable[ast.expr]) -> bool:
        return any(self._carries(expression) for expression in expressions)

    def _carries(self, expression: ast.expr | None) -> bool:
        if expression is None:
            return False
        return any(
            self._is_mark(node) or (isinstance(node, ast.Name) and node.id in self._constants) for node in ast.walk(expression)
        )

    def _is_mark(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in MARKS:
            holder = node.value
            return "mark" in (getattr(holder, "attr", None), getattr(holder, "id", None)) or (
                isinstance(holder, ast.Name) and holder.id == "laws"
            )
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._laws


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
