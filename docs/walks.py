"""Walks through the product: how often the folder changes while the lake is followed through the calls of an operation.

python docs/walks.py                             # each walk with its changes of folder
python docs/walks.py --stops "silver to gold"    # the stops of a walk

``docs/write_structure.py`` writes the figures into ``docs/architecture.md``. The source is read with ``ast``; nothing is imported
or run. A walk begins at a function (``WALKS``). These rules define it:

- **The lake.** A value carries the lake if its class is ``Lake``, or has an attribute of this class. The class of a name is that
  of its annotation, or of the value that was last assigned to it. The class of an attribute is that of its annotation, or of what
  ``__init__`` assigns to it. The class of a call is the called class, or the annotation of the result. Of ``X | Y`` it is the
  first one that stands in the product. Other expressions have no class.
- **A stop** is a call of a function of the product, if an argument or the receiver of the method carries the lake. The function
  is found by the import of its name, or as a method of the receiver's class or of its bases. The call of a class is a call of its
  ``__init__``. A function that is passed to something outside the product, with the lake among the later arguments, is called
  there.
- **The order** is that of the code: receiver and arguments before the call, all branches of a condition one after the other, the
  body of a loop once, a nested function where it is defined. The body of a called function comes right after its stop, at its
  first stop only. The return from it is no stop.
- **Left out** are the modules that only name, open and write tables (``LEFT_OUT``), and the functions that give Dagster or the
  server something to run later; a walk may begin at one.
- **The end** is after 1,600 stops.

The figure is the number of times that two consecutive stops lie in modules of different folders.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CHECKOUT = Path(__file__).parents[1]
#: Each walk with the function where it begins, in which the lake is a parameter, an attribute of one, or a variable.
WALKS = {
    "file to Bronze": "lakehouse.orchestration.assets.source_assets:bronze_asset",
    "Bronze to silver": "lakehouse.orchestration.assets.source_assets:silver_asset",
    "silver to gold": "lakehouse.orchestration.assets.metric_assets:gold_asset",
    "decision of a steward": "lakehouse.stewardship.commands:_decide",
    "rebuild": "lakehouse.silver.commands:rebuild",
    "promotion": "lakehouse.gold.promotion.promotion:promote",
    "reproduction": "lakehouse.gold.reproduction.reproduce:reproduce",
    "number over HTTP": "lakehouse.gold.numbers.routes:routes",
}
#: Modules, and packages with all their modules, that only name, open and write tables.
LEFT_OUT = (
    "lakehouse.lake",
    "lakehouse.locations",
    "lakehouse.delta.layout",
    "lakehouse.delta.row_writer",
    "lakehouse.delta.partition_writer",
    "lakehouse.ledger.log_table",
)
#: What stands in the annotation of a function whose result is run later.
_RUN_LATER = ("dg.", "Definitions", "APIRouter")
_MOST_STOPS = 1600

_Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Module:
    """A module of the product, with the names that it defines and imports."""

    name: str
    path: Path
    tree: ast.Module
    defined: dict[str, Class | Function] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.defined[node.name] = Class(self, node)
            elif isinstance(node, _Def):
                self.defined[node.name] = Function(self, node)


@dataclass(frozen=True, eq=False)
class Class:
    """A class of the product."""

    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the product, or a method of ``owner``."""

    module: Module
    node: _Def
    owner: Class | None = None


#: An annotation, with the module whose names it uses.
Kind = tuple[Module, ast.expr]


class Code:
    """The modules of the product, and what names and annotations mean in them."""

    def __init__(self, checkout: Path = CHECKOUT) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted((checkout / "lakehouse").rglob("*.py")):
            name = ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
        self.method, self.attribute, self.carries = cache(self._method), cache(self._attribute), cache(self._carries)

    def named(self, module: Module, node: ast.expr) -> Module | Class | Function | None:
        """What a name, or a name in a module or class, means in a module."""
        if isinstance(node, ast.Name):
            return self._meaning(module, node.id)
        holder = self.named(module, node.value) if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Attribute) and isinstance(holder, Module):
            return self._meaning(holder, node.attr)
        return self.method(holder, node.attr) if isinstance(node, ast.Attribute) and isinstance(holder, Class) else None

    def _meaning(self, module: Module, name: str) -> Module | Class | Function | None:
        if name in module.defined:
            return module.defined[name]
        origin, original = module.imported.get(name, (module.name, name))
        holder = self.modules.get(origin)
        submodule = self.modules.get(f"{origin}.{original}")
        return submodule or (None if holder in (None, module) else self._meaning(holder, original))

    def class_of(self, kind: Kind | None) -> Class | None:
        """The class of the product that an annotation names; the first one of a union."""
        if kind is None:
            return None
        module, node = kind
        if isinstance(node, ast.BinOp):
            return self.class_of((module, node.left)) or self.class_of((module, node.right))
        named = self.named(module, node)
        return named if isinstance(named, Class) else None

    def _method(self, owner: Class, name: str) -> Function | None:
        """A method or property of a class or of its bases."""
        of_class = (Function(owner.module, n, owner) for n in owner.node.body if isinstance(n, _Def) and n.name == name)
        bases = (base for node in owner.node.bases if (base := self.class_of((owner.module, node))))
        return next((found for found in chain(of_class, (self.method(base, name) for base in bases)) if found), None)

    def _attribute(self, owner: Class, name: str) -> Kind | None:
        """The annotation of an attribute or property, or the kind of what ``__init__`` assigns to it."""
        for node in owner.node.body:
            if isinstance(node, ast.AnnAssign) and _name(node.target) == name:
                return owner.module, node.annotation
        if found := self.method(owner, name):
            return (found.module, found.node.returns) if found.node.returns else None
        init = self.method(owner, "__init__")
        scope, nodes = (Scope(self, init), ast.walk(init.node)) if init else (None, ())
        for target, value in chain.from_iterable(map(_assigned, nodes)):
            if scope and isinstance(target, ast.Attribute) and target.attr == name:
                return scope.kind(value)
        return None

    def _carries(self, owner: Class | None) -> bool:
        """Whether a value of a class is a lake, or has one."""
        if owner is None or owner.node.name == "Lake":
            return owner is not None
        names = {node.attr for node in ast.walk(owner.node) if isinstance(node, ast.Attribute) and _name(node.value) == "self"}
        names |= {_name(node.target) for node in owner.node.body if isinstance(node, ast.AnnAssign)}
        kinds = (self.class_of(self.attribute(owner, name)) for name in names if not self.method(owner, name))
        return any(kind is not None and kind.node.name == "Lake" for kind in kinds)


class Scope:
    """The names of a function with their kinds."""

    def __init__(self, code: Code, function: Function, outer: Scope | None = None) -> None:
        self.code, self.module = code, function.module
        args = function.node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        self.names: dict[str, Kind | None] = dict(outer.names) if outer else {}
        self.names |= {arg.arg: (self.module, arg.annotation) if arg.annotation else None for arg in every}
        if function.owner is not None and every:
            self.names[every[0].arg] = function.owner.module, ast.Name(function.owner.node.name)

    def bind(self, target: ast.expr, kind: Kind | None) -> None:
        """Give the names of the target of an assignment their kinds."""
        if isinstance(target, ast.Name):
            self.names[target.id] = kind
        elif isinstance(target, ast.Tuple):
            inner = kind[1].slice if kind and isinstance(kind[1], ast.Subscript) else None
            parts = inner.elts if isinstance(inner, ast.Tuple) else []
            for place, element in enumerate(target.elts):
                self.bind(element, (kind[0], parts[place]) if kind and place < len(parts) else None)

    def called(self, node: ast.expr) -> Function | Class | None:
        """The function or class that an expression means; None for what does not stand in the product, or is not known."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        found = None if _name(root) in self.names else self.code.named(self.module, node)
        if found is None and isinstance(node, ast.Attribute) and (owner := self.code.class_of(self.kind(node.value))):
            found = self.code.method(owner, node.attr)
        return found if isinstance(found, Function | Class) else None

    def kind(self, node: ast.expr) -> Kind | None:
        """The kind of an expression, as far as annotations and constructors say it."""
        if isinstance(node, ast.Attribute):
            owner = self.code.class_of(self.kind(node.value))
            return self.code.attribute(owner, node.attr) if owner else None
        if isinstance(node, ast.Await):
            return self.kind(node.value)
        called = self.called(node.func) if isinstance(node, ast.Call) else None
        if isinstance(called, Class):
            return called.module, ast.Name(called.node.name)
        if called is not None:
            return (called.module, called.node.returns) if called.node.returns else None
        return self.names.get(_name(node))


class Walk:
    """A walk; its stops are the called functions, in the order of the code."""

    def __init__(self, code: Code, begin: str) -> None:
        module, _, name = begin.partition(":")
        entry = code.modules[module].defined[name]
        self.stops: list[Function] = []
        self._passed: set[_Def] = set()
        if isinstance(entry, Function):
            self._enter(entry, code)
        if len(self.stops) < 2:  # noqa: PLR2004 (the first one is where it begins)
            msg = f"The walk from {begin} meets no call that takes the lake: name a function of the product that passes it on"
            raise ValueError(msg)

    def changes(self) -> int:
        """How often the folder changes."""
        return sum(before.module.path.parent != after.module.path.parent for before, after in pairwise(self.stops))

    def _enter(self, called: Function, code: Code) -> None:
        later = self.stops and any(word in ast.unparse(called.node.returns or ast.Name("")) for word in _RUN_LATER)
        is_left_out = any(f"{called.module.name}.".startswith(f"{name}.") for name in LEFT_OUT)
        if later or is_left_out or len(self.stops) == _MOST_STOPS:
            return
        self.stops.append(called)
        if called.node not in self._passed:
            self._passed.add(called.node)
            self._visit_all(called.node.body, Scope(code, called))

    def _visit_all(self, nodes: Iterable[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, _Def):
            scope.names[node.name] = None
            self._visit_all(node.body, Scope(scope.code, Function(scope.module, node), scope))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            self._visit_all([*node.generators, node.elt], scope)
        elif isinstance(node, ast.DictComp):
            self._visit_all([*node.generators, node.key, node.value], scope)
        elif isinstance(node, ast.IfExp):
            self._visit_all([node.test, node.body, node.orelse], scope)
        else:
            self._visit_all(ast.iter_child_nodes(node), scope)
            for target, value in _assigned(node):
                annotated = (scope.module, node.annotation) if isinstance(node, ast.AnnAssign) else None
                scope.bind(target, annotated or scope.kind(value))
            if isinstance(node, ast.Call):
                self._call(node, scope)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if called := scope.called(node.func):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            self._follow(called, [*receiver, *arguments], scope)
            return
        for place, argument in enumerate(node.args):
            if passed := scope.called(argument):
                self._follow(passed, arguments[place + 1 :], scope)

    def _follow(self, called: Function | Class, arguments: Sequence[ast.expr], scope: Scope) -> None:
        """Go to a called function if one of the arguments carries the lake."""
        function = scope.code.method(called, "__init__") if isinstance(called, Class) else called
        if function and any(scope.code.carries(scope.code.class_of(scope.kind(argument))) for argument in arguments):
            self._enter(function, scope.code)


def folder_changes(code: Code) -> dict[str, int]:
    """Each walk with its changes of folder."""
    return {name: Walk(code, begin).changes() for name, begin in WALKS.items()}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment with their values; a tuple that gets a tuple one by one."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts)
        else:
            yield target, node.value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How often the folder changes in the walks through the product.")
    parser.add_argument("--stops", metavar="WALK", choices=WALKS, help="print the stops of this walk")
    walk = parser.parse_args().stops
    if walk:
        print(*(f"{stop.module.name}:{stop.node.name}" for stop in Walk(Code(), WALKS[walk]).stops), sep="\n")
    else:
        print(*(f"{count:5} {name}" for name, count in folder_changes(Code()).items()), sep="\n")
