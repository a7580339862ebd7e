"""Division by zero in a contract's Spark SQL: the quotient is NULL, whatever the kind of metric.

Belongs here: the rewriting of an expression's text before Spark evaluates it. Everything else that fails for a value, such as an
overflow or a text that is not a number, stays an error, because a NULL would hide it. The contract's own text does not change.
"""

from __future__ import annotations

import re

from lakehouse.contracts.sql_tokens import CLOSED, OPEN, end_of_group, is_space, opens_group, skip, tokens_of

_DIVIDES = frozenset({"/", "%", "div"})
#: Functions whose second argument divides.
_DIVISORS = frozenset({"mod", "pmod"})


def null_if_zero(sql: str) -> str:
    """Rewrite the divisions of an expression so that a zero divisor gives NULL: ``/``, ``%``, ``div``, ``mod`` and ``pmod``.

    A divisor that is a literal number is not rewritten, so most expressions do not change.
    """
    tokens = tokens_of(sql)
    return "".join(_rewritten(tokens))


def _rewritten(tokens: list[str]) -> list[str]:
    done: list[str] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.lower() in _DIVIDES and _is_operator(tokens, place):
            begin = skip(tokens, place + 1)
            end = _end_of_operand(tokens, begin)
            done += [token, *tokens[place + 1 : begin], *_guarded(tokens[begin:end])]
            place = end
        elif token.lower() in _DIVISORS and opens_group(tokens, place + 1):
            begin = skip(tokens, place + 1)
            end = end_of_group(tokens, begin)
            done += [*tokens[place : begin + 1], *_second_guarded(tokens[begin + 1 : end - 1]), *tokens[end - 1 : end]]
            place = end
        else:
            done.append(token)
            place += 1
    return done


def _is_operator(tokens: list[str], place: int) -> bool:
    """Whether a token divides; ``div`` may also be the name of a column or a field."""
    before = next((token for token in reversed(tokens[:place]) if not is_space(token)), "")
    after = tokens[skip(tokens, place + 1) : skip(tokens, place + 1) + 1]
    return bool(before) and bool(after) and (tokens[place] in "/%" or before not in {"(", ",", ".", "+", "-", "*", "/", "%"})


def _guarded(operand: list[str]) -> list[str]:
    if not operand or _is_number(operand):
        return _rewritten(operand) if operand else operand
    return ["nullif(", *_rewritten(operand), ", 0)"]


def _is_number(operand: list[str]) -> bool:
    """Whether a divisor is a literal number other than 0."""
    digits = re.match(r"[\d.]+", "".join(operand))
    return len(operand) == 1 and digits is not None and any(digit in "123456789" for digit in digits[0])


def _second_guarded(arguments: list[str]) -> list[str]:
    """The arguments of a function, the second one guarded against 0."""
    depth = 0
    for place, sign in enumerate(arguments):
        depth += (sign in OPEN) - (sign in CLOSED)
        if sign == "," and not depth:
            return [*_rewritten(arguments[:place]), ", ", *_guarded(arguments[skip(arguments, place + 1) :])]
    return _rewritten(arguments)


def _end_of_operand(tokens: list[str], begin: int) -> int:
    """The end of the operand that begins at token ``begin``: its signs, a value or a call, and accesses and casts."""
    place = begin
    while place < len(tokens) and tokens[place] in {"-", "+", "~"}:
        place = skip(tokens, place + 1)
    if place >= len(tokens):
        return begin
    if tokens[place].lower() == "case":
        place = _end_of_case(tokens, place)
    else:
        place = end_of_group(tokens, place) if tokens[place] in OPEN else place + 1
    while True:
        following = skip(tokens, place)
        after = tokens[following] if following < len(tokens) else " "
        if after in OPEN:
            place = end_of_group(tokens, following)
        elif after in {".", "::"}:
            place = skip(tokens, following + 1) + 1
        elif after.lower() == "filter" and opens_group(tokens, following + 1):
            place = end_of_group(tokens, skip(tokens, following + 1))
        elif after[:1] in {"'", '"'} and tokens[place - 1].isidentifier():  # DATE'2024-11-03'
            place = following + 1
        else:
            return place


def _end_of_case(tokens: list[str], begin: int) -> int:
    depth = 0
    for place in range(begin, len(tokens)):
        depth += (tokens[place].lower() == "case") - (tokens[place].lower() == "end")
        if not depth:
            return place + 1
    return len(tokens)
