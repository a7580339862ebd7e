"""Every key of a contract is read by the product, or declared as a description or as LakeLogic's.

The search is by name: a key without effect that has the name of another attribute (``days``, ``name``) is not detected.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import BaseModel

import lakehouse
from lakehouse.contracts.base import Documented
from lakehouse.contracts.loader import Contract
from lakehouse.contracts.source_rules import FOR_LAKELOGIC, Materialization

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Keys that people read in the file, and no code: those of :class:`Documented` that are not shown anywhere.
FOR_PEOPLE = {(Documented, "version"), (Documented, "info"), (Documented, "tags")}
#: ``partition_by`` has one accepted value.
CHECKED_ONLY = {(Materialization, name) for name in (*FOR_LAKELOGIC, "partition_by")}
_VALIDATORS = {"field_validator", "model_validator"}


def models(annotation: Any, seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """The models that an annotation mentions, and those that their fields mention."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        for field in annotation.model_fields.values():
            models(field.annotation, seen)
    for argument in get_args(annotation):
        models(argument, seen)
    return seen


def attributes_read(tree: ast.AST) -> Iterator[str]:
    """The attributes that code reads, by name, apart from what validators read: checking a key is no effect."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and any(_names_validator(decorator) for decorator in node.decorator_list):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        yield from attributes_read(node)


def _names_validator(decorator: ast.AST) -> bool:
    return any(isinstance(node, ast.Name) and node.id in _VALIDATORS for node in ast.walk(decorator))


@cache
def read_by_product() -> frozenset[str]:
    folder = Path(str(lakehouse.__file__)).parent
    return frozenset(name for path in folder.rglob("*.py") for name in attributes_read(ast.parse(path.read_text("utf-8"))))


def owner(model: type[BaseModel], field: str) -> type[Any]:
    """The class that declares a field."""
    return next(base for base in reversed(model.__mro__) if field in getattr(base, "__annotations__", {}))


@pytest.mark.parametrize("model", sorted(models(Contract, set()), key=lambda model: model.__name__))
def test_each_key_is_read(model: type[BaseModel]) -> None:
    unread = {(owner(model, field), field) for field in model.model_fields if field not in read_by_product()}
    assert unread - FOR_PEOPLE - CHECKED_ONLY == set(), "make the key work, or remove it"


def test_a_validator_is_no_use() -> None:
    code = "@field_validator('a')\ndef check(self):\n    return self.a\ndef use(self):\n    return self.b\n"
    assert set(attributes_read(ast.parse(code))) == {"b"}


def test_all_parts_of_contracts_are_searched() -> None:
    names = {model.__name__ for model in models(Contract, set())}
    assert {"SourceContract", "MetricContract", "RowRule", "Marker", "ValueBound", "TypeLateness", "Trailing"} <= names
