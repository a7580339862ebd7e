"""Where the product can be mutated, and the mutants that a seed draws.

A site is a range of characters; each site is as likely as any other, however many changes are possible there. Left out are
docstrings, annotations, imports, ``__init__`` modules, code for type checkers, options of ``@dataclass``, and the text of
errors and log lines.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from lakehouse_tests.mutation.operators import operators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Position = tuple[int, int]
_LOGGED = {"debug", "info", "warning", "warn", "error", "exception", "critical"}
_NEVER_CHANGED = {"string", "newline", "endmarker"}
_PUNCTUATION = set("()[]{},.:=@")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Site:
    """A range of characters in a module, and the changes that are possible there: operators with their occurrences."""

    path: str
    start: Position
    end: Position
    changes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Mutant:
    """A module with one change. ``lines`` are those whose execution can execute the change; none if it happens at import."""

    path: str
    start: Position
    operator: str
    occurrence: int
    source: str
    diff: str
    lines: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """Names the change: equal for the same change of the same text of the module."""
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        return f"{self.path}:{self.start[0]}:{self.operator}:{self.occurrence}:{digest}"


class Module:
    """The text of a module, with what its syntax says about positions."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.source = (root / path).read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self._lines = self.source.split("\n")

    def sites(self) -> list[Site]:
        """All sites, in the order of the text."""
        changes: dict[tuple[Position, Position], list[tuple[str, int]]] = defaultdict(list)
        counts: Counter[str] = Counter()
        left_out = list(self._left_out())
        available = operators()
        for node in ast_nodes(get_ast(self.source)):
            if node.type in _NEVER_CHANGED or (node.type == "operator" and node.value in _PUNCTUATION):
                continue
            for name, operator in available.items():
                for start, end in operator.mutation_positions(node):
                    if not any(first <= start < last for first, last in left_out):
                        changes[start, end].append((name, counts[name]))
                    counts[name] += 1
        return [Site(self.path, *place, tuple(possible)) for place, possible in sorted(changes.items())]

    def mutant(self, start: Position, operator: str, occurrence: int) -> Mutant | None:
        """The module with the change of an operator at ``start``; None if Python does not accept it or it changes nothing."""
        mutated = mutate_code(self.source, operators()[operator], occurrence)
        if mutated is None:
            return None
        try:
            if ast.dump(ast.parse(mutated)) == self._dumped:
                return None
            compile(mutated, self.path, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        return Mutant(
            path=self.path,
            start=start,
            operator=operator,
            occurrence=occurrence,
            source=mutated,
            diff="\n".join(difflib.unified_diff(self._lines, mutated.split("\n"), self.path, self.path, "", "", 0, "")),
            lines=self._executing(start),
        )

    @cached_property
    def _dumped(self) -> str:
        return ast.dump(self.tree)

    def _executing(self, start: Position) -> tuple[int, ...]:
        """The line, then the others of its statement; none outside functions."""
        nodes = list(ast.walk(self.tree))
        bodies = [
            node.body if isinstance(node.body, list) else [node.body]
            for node in nodes
            if isinstance(node, (*_FUNCTIONS, ast.Lambda))
        ]
        if not any(self._range(body[0])[0] <= start < self._range(body[-1])[1] for body in bodies):
            return ()
        statements = [
            node for node in nodes if isinstance(node, ast.stmt) and self._range(node)[0] <= start < self._range(node)[1]
        ]
        innermost = max(statements, key=lambda node: (node.lineno, node.col_offset))
        body = getattr(innermost, "body", None)
        last = max(innermost.lineno, body[0].lineno - 1) if body else innermost.end_lineno or innermost.lineno
        return start[0], *(line for line in range(innermost.lineno, last + 1) if line != start[0])

    def _left_out(self) -> Iterator[tuple[Position, Position]]:
        for node in ast.walk(self.tree):
            yield from map(self._range, _without_behaviour(node))

    def _range(self, node: Any) -> tuple[Position, Position]:
        return self._position(node.lineno, node.col_offset), self._position(node.end_lineno, node.end_col_offset)

    def _position(self, line: int, offset: int) -> Position:
        """In characters, as parso counts; ``ast`` counts bytes."""
        return line, len(self._lines[line - 1].encode()[:offset].decode())


def _without_behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that no test should have to notice."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        yield from (node.test, *node.body)
    elif isinstance(node, ast.AnnAssign | ast.arg):
        yield from [node.annotation] if node.annotation else []
    elif isinstance(node, _FUNCTIONS):
        yield from [node.returns] if node.returns else []
    elif isinstance(node, ast.ClassDef):
        yield from (each for each in node.decorator_list if ast.unparse(each).startswith(("dataclass", "dataclasses.")))
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from (*node.exc.args, *node.exc.keywords)
    elif isinstance(node, ast.Call):
        owner, _, name = ast.unparse(node.func).rpartition(".")
        is_logged = name in _LOGGED and ("log" in owner.lower() or owner == "warnings")
        if is_logged or name.endswith(("Error", "Exception", "Warning")):
            yield from (*node.args, *node.keywords)


def modules(root: Path, product: str, folders: Sequence[str]) -> list[Module]:
    """The modules below ``folders`` of the product."""
    files = {file for folder in folders for file in (root / product / folder).rglob("*.py") if file.name != "__init__.py"}
    return [Module(root, file.relative_to(root).as_posix()) for file in sorted(files)]


def draw(candidates: Sequence[Module], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants at as many sites; all sites if these are fewer."""
    chance = random.Random(seed)
    by_path = {module.path: module for module in candidates}
    sites = [site for module in candidates for site in module.sites()]
    chance.shuffle(sites)
    mutants: list[Mutant] = []
    for site in sites:
        if len(mutants) == count:
            break
        possible = (by_path[site.path].mutant(site.start, *change) for change in chance.sample(site.changes, len(site.changes)))
        mutants += [mutant for mutant in [next((each for each in possible if each), None)] if mutant]
    return mutants
