"""The tokens of an expression in Spark SQL, and where its parts end, for functions that rewrite its text.

The concatenated tokens are the text, including comments and spaces. The meaning of an expression belongs to ``sql_syntax``.
"""

from __future__ import annotations

import re

#: Literals, names in quotes and remarks as Spark reads them: in a raw text a backslash is nothing special.
TEXT = r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\""""
QUOTED_NAME = r"`(?:[^`]|``)*`"
REMARK = r"--[^\n\r]*|/\*.*?\*/"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+|{REMARK})
    |(?P<text>{TEXT})
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LSYDFlsydf])?(?![\w]))
    |(?P<name>{QUOTED_NAME}|[^\W\d]\w*|\d\w*)
    |(?P<sign>::|<=>|<>|!=|<=|>=|\|\||->|=>|.)
    """,
    re.DOTALL | re.VERBOSE,
)
#: Signs that open and close a group.
OPEN, CLOSED = "([", ")]"


def tokens_of(sql: str) -> list[str]:
    """The tokens of a text."""
    return [match[0] for match in _TOKEN.finditer(sql)]


def end_of_group(tokens: list[str], begin: int) -> int:
    """The position after the group that begins at token ``begin``."""
    depth = 0
    for place in range(begin, len(tokens)):
        depth += (tokens[place] in OPEN) - (tokens[place] in CLOSED)
        if not depth:
            return place + 1
    return len(tokens)


def skip(tokens: list[str], place: int) -> int:
    """The position of the next token that is neither space nor comment."""
    while place < len(tokens) and is_space(tokens[place]):
        place += 1
    return place


def opens_group(tokens: list[str], place: int) -> bool:
    """Whether the next token, spaces aside, opens a parenthesis."""
    return tokens[skip(tokens, place) : skip(tokens, place) + 1] == ["("]


def is_space(token: str) -> bool:
    """Whether a token is space or a comment."""
    return token.isspace() or token.startswith(("--", "/*"))
