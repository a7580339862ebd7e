"""The Spark SQL that a contract may contain: expressions with the same result for the same rows, whenever they are computed.

A published number can be reproduced only if its expression depends on nothing but the rows: not on time, chance, row order, the
user, other tables or files. So functions are allowed by name (see ``sql_functions``), and subqueries are refused. Columns and the
form of an expression are checked in ``sql_fit``, where the columns are known.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from lakehouse.contracts.sql_functions import OF_A_ROW, OF_ROWS
from lakehouse.contracts.sql_tokens import QUOTED_NAME, REMARK, TEXT
from lakehouse.text import suggestion

_NO_CALLS = """
all and as between by case distinct div else from group in interval is not on or order then when where
"""
_BARE_WORDS = """
current_catalog current_database current_date current_schema current_time current_timestamp current_user localtimestamp over
select session_user
"""
#: Words that may precede a parenthesis without calling a function.
_WORDS = frozenset(_NO_CALLS.split())
#: Words that depend on more than the row although they are not called.
_NEVER = frozenset(_BARE_WORDS.split())
_QUOTED = re.compile(rf"(?P<text>{TEXT})|(?P<name>{QUOTED_NAME})|(?P<remark>{REMARK})", re.DOTALL)
_CALL = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
#: Patterns with alternatives; these are not calls.
_QUANTIFIER = re.compile(r"\b(i?like\s+)(?:any|some)\b", re.IGNORECASE)
_SUBQUERY = re.compile(r"\(\s*(from|table|values|with)\b", re.IGNORECASE)
_TIME_OF_NOW = re.compile(r"\b(?:unix_timestamp|to_unix_timestamp)\s*\(\s*\)", re.IGNORECASE)
_NUMBER_FIRST = re.compile(r"[rR]?['\"]\s*[+-]?\d")
#: A text that Spark takes for a time wherever it is compared with one or becomes one, with or without a zone.
_TEXT_AS_TIME = re.compile(r"\s*(?:now|today|tomorrow|yesterday)(?:\s+\S+)?\s*", re.IGNORECASE)
#: Spark joins texts that follow each other.
_TEXTS = re.compile(rf"(?:{TEXT})(?:(?:\s|{REMARK})*(?:{TEXT}))*", re.DOTALL)
_TEXT_OF_TEXTS = re.compile(rf"{REMARK}|(?P<text>{TEXT})", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|([0-3][0-7]{2})|(.))|(['\"])\5", re.DOTALL | re.IGNORECASE)
#: A day or a time in words: Spark takes now, today, yesterday and tomorrow.
_WORD_AS_TIME = re.compile(r"\b(date|time|timestamp(?:_ltz|_ntz)?)\s*''", re.IGNORECASE)


def refused(text: str, allowed: frozenset[str]) -> str | None:
    """The part of an expression that makes its result depend on more than the rows; None if there is none.

    :param allowed: the functions that the expression may call, in lower case.
    """
    # Names and remarks leave, because quotation marks within them begin no text.
    for texts in _TEXTS.finditer(_QUOTED.sub(lambda quoted: quoted[0] if quoted["text"] else " ", text)):
        if _TEXT_AS_TIME.fullmatch(_value(texts[0])):
            return texts[0]
    code = _QUANTIFIER.sub(r"\1", _QUOTED.sub(_stand_in, text))
    if in_words := _WORD_AS_TIME.search(code):
        return f"{in_words[1]} '...'"
    if subquery := _SUBQUERY.search(code):
        return f"({subquery[1]} ...)"
    if now := _TIME_OF_NOW.search(code):
        return now[0]
    for word in _WORD.finditer(code):
        if word[0].lower() in _NEVER:
            return word[0]
    calls = (call[1] for call in _CALL.finditer(code))
    return next((f"{name}()" for name in calls if name.lower() not in allowed | _WORDS), None)


def _value(texts: str) -> str:
    """The text that Spark makes of texts that follow each other."""
    return "".join(
        each["text"][2:-1] if each["text"][0] in "rR" else _ESCAPED.sub(_character, each["text"][1:-1])
        for each in _TEXT_OF_TEXTS.finditer(texts)
        if each["text"]
    )


def _character(escaped: re.Match[str]) -> str:
    code, long_code, octal, other, quote = escaped.groups()
    if code or long_code:
        return chr(min(int(code or long_code, 16), 0x10FFFF))
    return chr(int(octal, 8)) if octal else {"n": "\n", "t": "\t", "r": "\r"}.get(other, other or quote)


def _stand_in(quoted: re.Match[str]) -> str:
    """What takes the place of a name in quotes, a remark or a text; a text that begins with a number stays one."""
    if quoted["text"]:
        return "'0'" if _NUMBER_FIRST.match(quoted["text"]) else "''"
    return "_quoted" if quoted["name"] else " "


def _of_a_row(text: str) -> str:
    return _checked(text, OF_A_ROW, "the row")


def _of_rows(text: str) -> str:
    return _checked(text, OF_A_ROW | OF_ROWS, "the rows")


def _checked(text: str, allowed: frozenset[str], rows: str) -> str:
    if word := refused(text, allowed):
        msg = (
            f"{word!r}: an expression may only depend on {rows}, so that it gives the same each time that it is computed; "
            f"docs/contracts.md lists the functions that do{suggestion(word.rstrip('()'), sorted(allowed), 0.8)}"
        )
        raise ValueError(msg)
    return text


#: An expression, or a condition, on the columns of a row.
RowExpression = Annotated[str, AfterValidator(_of_a_row)]
#: An aggregate over rows.
Aggregate = Annotated[str, AfterValidator(_of_rows)]


def cast(sql: str, kind: str) -> str:
    """The expression cast to ``kind``, as Spark computes it; the line break ends a trailing comment."""
    return f"cast(({sql}\n) as {kind})"
