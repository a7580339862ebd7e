"""The parser of Spark SQL expressions: the columns that one reads, the functions that it calls, and its syntax errors.

The text is parsed without Spark. The parser accepts slightly more than Spark and leaves undecidable cases to Spark: nothing that
Spark can compute is refused. The allowed functions are in ``sql_expressions``, the known columns in ``fit``. The parser loads
in a fifth of a second, so this module is imported where an expression is parsed.

The tokens of an expression in Spark SQL, and where its parts end, for functions that rewrite its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import ErrorLevel, Token, TokenType
from sqlglot import expressions as sql
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlglot.expressions import Expr


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


#: Functions whose first argument of three is a unit such as DAY, and not a column.
_UNIT_FIRST = "dateadd date_add datediff date_diff timestampadd timestampdiff"
_WITH_UNIT = frozenset(_UNIT_FIRST.split())
#: Functions with keywords between their arguments.
_WITH_WORDS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")
#: Words that join the parts of an expression; a column of such a name can be recognized only if the columns are known.
_JOINING = "and as between case distinct div else end false in is like not null or then true when where"
_NEVER_NAMES = frozenset(_JOINING.split())


class SqlSyntaxError(ValueError):
    """A text that is not an expression of Spark SQL."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    :param arguments: the number of arguments; None where the form of the call determines it.
    :param within: the functions that enclose the call, from the innermost.
    :param of_constants: whether no name is among its arguments.
    """

    name: str
    arguments: int | None
    within: tuple[str, ...]
    is_filtered: bool = False
    of_constants: bool = False


@dataclass(frozen=True)
class ColumnRead:
    """A column as written, with the functions that enclose it."""

    parts: tuple[str, ...]
    within: tuple[str, ...]


@dataclass(frozen=True)
class ParsedSql:
    """The columns and calls of an expression, names in lower case, mostly in the order of the text.

    :param joins_constants: whether it joins constants by an operator, or makes a text of bytes.
    """

    columns: tuple[ColumnRead, ...]
    calls: tuple[Call, ...]
    joins_constants: bool = False


class _Parser(SparkParser):
    """The parser for Spark's dialect, which treats every function as a name with arguments."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_WORDS}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parsing for name, parsing in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name != "ANY"
    }
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}


_DIALECT = Spark()


@lru_cache(maxsize=4096)
def parse(text: str, names: frozenset[str] | None = None) -> ParsedSql | None:
    """Parse an expression; None if it is not understood because a SQL keyword may be a column name.

    :param names: the existing columns, if known. Spark accepts nearly every SQL keyword as a column name.
    :raises SqlSyntaxError: with the place of the mistake.
    """
    # The line break ends a comment, and the parentheses are those of the cast in which an expression is computed.
    whole = f"({text}\n)"
    try:
        tokens = _DIALECT.tokenize(whole)
        words = {token.text.lower() for token in tokens if _is_word(token)}
        may_be_names = words - _NEVER_NAMES if names is None else words & names
        try:
            return _said(tokens, whole)
        except SqlglotError:
            if not may_be_names:
                raise
        try:
            return _said(_as_names(_DIALECT.tokenize(whole), may_be_names), whole)
        except SqlglotError:
            return None
    except SqlglotError as problem:
        raise SqlSyntaxError(_place(problem, text)) from None


def _is_word(token: Token) -> bool:
    """Whether a token is a SQL keyword, not a name or a value."""
    return token.token_type not in {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING} and token.text.isidentifier()


def _as_names(tokens: list[Token], names: Collection[str]) -> list[Token]:
    """Turn keywords in ``names`` into names where no parenthesis follows."""

    def as_name(token: Token, following: Token | None) -> Token:
        is_called = following is not None and following.token_type == TokenType.L_PAREN
        if is_called or not _is_word(token) or token.text.lower() not in names:
            return token
        return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)

    return [as_name(token, following) for token, following in zip(tokens, [*tokens[1:], None])]


def _said(tokens: list[Token], whole: str) -> ParsedSql:
    """:raises SqlglotError: if the tokens are not a single expression."""
    trees = [
        tree for tree in _Parser(dialect=_DIALECT, error_level=ErrorLevel.IMMEDIATE).parse(tokens, whole) if tree is not None
    ]
    if len(trees) != 1 or not _is_expression(trees[0]):
        raise ParseError("")
    columns, calls, joins_constants = [], [], False
    for node in trees[0].walk(bfs=False):
        within = tuple(_around(node))
        if isinstance(node, sql.Column) and not isinstance(node.this, sql.Star) and not _is_unit(node):
            columns.append(ColumnRead(tuple(part.name.lower() for part in node.parts), within))
        elif isinstance(node, sql.Anonymous) and not isinstance(node.parent, (sql.Like, sql.ILike)):  # that is LIKE ANY (...)
            of_form = any(isinstance(part, (sql.Star, sql.Kwarg, sql.Distinct)) for part in node.expressions)
            count = None if of_form or isinstance(node.parent, sql.WithinGroup) else len(node.expressions)
            calls.append(Call(node.name.lower(), count, within, isinstance(node.parent, sql.Filter), _is_constant(node)))
        elif isinstance(node, sql.DPipe) or (isinstance(node, sql.Cast) and isinstance(node.this, sql.HexString)):
            joins_constants |= _is_constant(node)
    return ParsedSql(tuple(columns), tuple(calls), joins_constants)


def _is_constant(node: Expr) -> bool:
    """Whether a node has no column and no parameter of a lambda function."""
    return node.find(sql.Identifier) is None


def _is_expression(tree: Expr) -> bool:
    """Whether a tree is a plain expression: result names and parameters belong to queries."""
    if not isinstance(tree, sql.Paren):
        return False
    of_queries = (
        sql.Placeholder,
        sql.Parameter,
        sql.SessionParameter,
        sql.JSONExtract,
        sql.JSONBContainsTopKey,
        sql.JSONBExtract,
    )
    for node in tree.walk():
        is_nameless = isinstance(node, sql.Alias) and not isinstance(node.parent, sql.Anonymous)
        if is_nameless or isinstance(node, of_queries):
            return False
    return True


def _around(node: Expr) -> Iterator[str]:
    """The functions that enclose a node; the filter condition of an aggregate counts as part of it."""
    inner, outer = node, node.parent
    while outer is not None:
        if isinstance(outer, sql.Anonymous):
            yield outer.name.lower()
        if isinstance(outer, (sql.Filter, sql.WithinGroup)) and inner is not outer.this:
            of = outer.this.this if isinstance(outer.this, sql.WithinGroup) else outer.this
            yield of.name.lower() if isinstance(of, sql.Anonymous) else ""
        inner, outer = outer, outer.parent


def _is_unit(column: Expr) -> bool:
    """Whether a word is a time unit."""
    call = column.parent
    if not isinstance(call, sql.Anonymous) or call.name.lower() not in _WITH_UNIT:
        return False
    return len(call.expressions) == 3 and call.expressions[0] is column  # noqa: PLR2004 (a unit, an amount and a time)


def _place(problem: Exception, text: str) -> str:
    """The place where a text stops being an expression."""
    known = getattr(problem, "errors", None) or [{}]
    found, before = known[0].get("highlight") or "", known[0].get("start_context") or ""
    if not found:
        is_open = "tokenizing" in f"{problem}"
        return "a quotation mark is not closed" if is_open else "it is no single expression"
    if len(before) > len(text):  # the parenthesis around it is what was not expected
        is_closed = "Unexpected token" in f"{problem}"
        return (
            "a parenthesis is closed that is not open" if is_closed else "it ends in the middle; something is missing at its end"
        )
    rest = text[len(before) - 1 :].strip()
    return f"it cannot be read from {rest[:30]!r} on"
