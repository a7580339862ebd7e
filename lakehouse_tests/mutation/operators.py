"""The changes that a mutant can make: operators of cosmic-ray, and four of the same interface that it lacks.

Only changes that a person could make by mistake are tried: a boundary, a negation, a neighbour. A change whose usual result is
a ``TypeError`` (``+`` to ``**``) says nothing about a test.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import parso
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS = (
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
    *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
)
_BINARY = (
    *("Add_Sub", "Sub_Add", "Mul_Add", "Mul_FloorDiv", "Div_Mul", "Div_FloorDiv", "FloorDiv_Mul", "FloorDiv_Div"),
    *("Mod_Mul", "Pow_Mul", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr"),
)
_OTHERS = (
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert"),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop", "ExceptionReplacer"),
)
_EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class ReplaceInWithNotIn(Operator):
    """``in`` becomes ``not in``."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "comparison":
            yield from ((each.start_pos, each.end_pos) for each in self._membership(node))

    def mutate(self, node: Any, index: int) -> Any:
        replaced = self._membership(node)[index]
        node.children[node.children.index(replaced)] = parso.parse(" not in")
        return node

    @staticmethod
    def _membership(node: Any) -> list[Any]:
        return [each for each in node.children[1::2] if each.get_code().strip() == "in"]

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class ReplaceNotInWithIn(Operator):
    """``not in`` becomes ``in``."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "comp_op" and self._is_not_in(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return parso.parse(" in")

    @staticmethod
    def _is_not_in(node: Any) -> bool:
        return [child.value for child in node.children] == ["not", "in"]

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class ExchangeBuiltIn(Operator):
    """A call of ``min`` becomes one of ``max``, ``any`` one of ``all``, and the other way round."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "name" and node.value in _EXCHANGED and self._is_called(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        node.value = _EXCHANGED[node.value]
        return node

    @staticmethod
    def _is_called(node: Any) -> bool:
        following = node.get_next_sibling()
        is_first = node.parent is not None and node.parent.children[0] is node
        return is_first and following is not None and following.type == "trailer" and following.children[0].value == "("

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class NegateFilter(Operator):
    """The condition of a comprehension is negated; ``AddNot`` does so for statements."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        node.children[1] = parso.parse(f" not ({node.children[1].get_code().strip()})")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


_OF_THIS_MODULE = (ReplaceInWithNotIn, ReplaceNotInWithIn, ExchangeBuiltIn, NegateFilter)


@cache
def operators() -> dict[str, Operator]:
    """The operators by name."""
    names = [
        *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISONS),
        *(f"ReplaceBinaryOperator_{pair}" for pair in _BINARY),
        *_OTHERS,
    ]
    of_cosmic_ray = {name: get_operator(f"core/{name}")() for name in names}
    return of_cosmic_ray | {kind.__name__: kind() for kind in _OF_THIS_MODULE}
