"""Names that say nothing about what they name are not used for longer than five lines."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[1]
#: See ``docs/glossary.md`` for words that name things.
NO_NAMES = {"anew", "asked", "behind", "beside", "found", "one", "own", "said", "there", "told", "what"}
LINES = 5

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def long_lived_names(code: str) -> set[str]:
    """The forbidden names of definitions, and those that are bound in a scope and used more than five lines later."""
    tree = ast.parse(code)
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not NO_NAMES & words:  # an argument or an exception that is never used lives nowhere
        return {node.name for node in ast.walk(tree) if isinstance(node, SCOPES) and node.name in NO_NAMES}
    names = {node.name for node in ast.walk(tree) if isinstance(node, SCOPES) and node.name in NO_NAMES}
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, SCOPES))):
        first: dict[str, int] = {}
        for name, line in bindings(scope):
            first[name] = min(line, first.get(name, line))
        last = {node.id: node.lineno for node in sorted(names_in(scope), key=lambda node: node.lineno)}
        names |= {name for name, line in first.items() if last.get(name, line) - line >= LINES}
    return names


def bindings(scope: Scope) -> Iterator[tuple[str, int]]:
    """The forbidden names that are bound in a scope itself, with their lines."""
    inner: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while inner:
        node = inner.pop()
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NO_NAMES:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg) and node.arg in NO_NAMES:
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler) and node.name in NO_NAMES:
            yield node.name, node.lineno
        inner += ast.iter_child_nodes(node)


def names_in(scope: Scope) -> Iterator[ast.Name]:
    """Every use of a name in a scope and the scopes within it."""
    yield from (node for node in ast.walk(scope) if isinstance(node, ast.Name))


@pytest.mark.parametrize("folder", ["lakehouse", "lakehouse_tests", "benchmarks", "docs"])
def test_names_say_what_things_are(folder: str) -> None:
    names_by_module = {
        path.relative_to(CHECKOUT).as_posix(): long_lived_names(path.read_text("utf-8"))
        for path in (CHECKOUT / folder).rglob("*.py")
    }
    assert names_by_module
    assert {path: names for path, names in names_by_module.items() if names} == {}


def test_the_rule_sees_what_it_forbids() -> None:
    used_late = "def rows():\n    told = 1\n\n\n\n\n    return told\n"
    assert long_lived_names(used_late) == {"told"}
    assert long_lived_names("def rows():\n    told = 1\n    return told\n") == set()
    assert long_lived_names("def told():\n    return 1\n") == {"told"}
