"""The parser of Spark SQL expressions: the columns that one reads, the functions that it calls, and its syntax errors.

The text is parsed without Spark. The parser accepts slightly more than Spark and leaves undecidable cases to Spark: nothing that
Spark can compute is refused. The allowed functions are in ``sql_expressions``, the known columns in ``fit``. The parser loads in
a fifth of a second, so this module is imported where an expression is parsed.

Functions that rewrite the text of an expression use its tokens, and where its parts end.
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
    from collections.abc import Collection, Iterator, Mapping

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


def tokens_of(sql: str, *, spaces: bool = True) -> list[str]:
    """The tokens of a text.

    :param spaces: whether spaces and comments between tokens count as tokens.
    """
    tokens = (match[0] for match in _TOKEN.finditer(sql))
    return [token for token in tokens if spaces or not is_space(token)]


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


def end_of_call(tokens: list[str], begin: int) -> int:
    """The position after a call with the arguments at token ``begin``, and its ``FILTER (...)`` and ``WITHIN GROUP (...)``."""
    end = end_of_group(tokens, begin)
    while True:
        place = skip(tokens, end)
        words = [token.lower() for token in tokens[place:] if not is_space(token)][:2]
        if words[:2] == ["within", "group"]:
            place = skip(tokens, place + 1)
        if not (words[:1] in (["filter"], ["within"]) and opens_group(tokens, place + 1)):
            return end
        end = end_of_group(tokens, skip(tokens, place + 1))


def is_part(tokens: list[str], place: int) -> bool:
    """Whether a name follows a point: then it is neither a function nor a column."""
    return bool(place) and tokens[place - 1] == "."


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
    :param tree: the expression as sqlglot parsed it.
    """

    columns: tuple[ColumnRead, ...]
    calls: tuple[Call, ...]
    joins_constants: bool
    tree: Expr

    @property
    def reads_all_columns(self) -> bool:
        """Whether a star stands for columns; that of ``count(*)`` stands for rows."""
        return any(not _counts_rows(star) for star in self.tree.find_all(sql.Star))

    def texts_as_times(self, kinds: Mapping[str, str] | None, of_texts: Collection[str]) -> list[str]:
        """The parts that Spark turns from a text into a time without a pattern, although the text may have only a time of day:
        Spark then takes the day of the computation.

        :param kinds: the types of the columns; a column of another name is a parameter of a lambda function. None if they are
            unknown: then only literal texts are judged.
        :param of_texts: the functions that yield a text.
        """
        kind_of = _Kinds(kinds, of_texts)
        parts = [part for node in self.tree.walk(bfs=False) for part in kind_of.taken_for_times(node)]
        return list(dict.fromkeys(map(self.text_of, parts)))

    @staticmethod
    def text_of(part: Expr) -> str:
        """The text of a part of the expression, for messages."""
        return part.transform(_as_written).sql(_DIALECT, normalize_functions=False)


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
        elif isinstance(node, sql.DPipe) or (isinstance(node, sql.Cast) and node.find(sql.HexString, sql.Anonymous)):
            joins_constants |= _is_constant(node) and (isinstance(node, sql.DPipe) or node.to.this in sql.DataType.TEXT_TYPES)
    return ParsedSql(tuple(columns), tuple(calls), joins_constants, trees[0].this)


def _counts_rows(star: Expr) -> bool:
    call = star.parent
    return isinstance(call, sql.Anonymous) and call.name.lower() == "count" and len(call.expressions) == 1


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


#: A text with only a time of day, as Spark reads it.
_TIME_OF_DAY = re.compile(r"[\0-\x20\x7f]*(?:T\d|\d{1,2}:)")
_COMPARISONS = (sql.EQ, sql.NEQ, sql.GT, sql.GTE, sql.LT, sql.LTE, sql.NullSafeEQ, sql.NullSafeNEQ, sql.Between, sql.In)
_INSTANTS = sql.DataType.TEMPORAL_TYPES - {sql.DType.DATE, sql.DType.DATE32, sql.DType.TIME, sql.DType.TIMETZ}
_MAKE_TIMES = frozenset({"timestamp", "to_timestamp", "try_to_timestamp"})
_NAMES_OF_TIMES = """
date_trunc from_utc_timestamp make_timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd to_utc_timestamp
"""
_YIELD_TIMES = _MAKE_TIMES.union(_NAMES_OF_TIMES.split())
#: Functions whose arguments get one type, with the position of the first of these arguments.
_NAMES_OF_ONE_TYPE = """
array array_contains array_except array_intersect array_position array_union coalesce greatest ifnull least nullif nvl sequence
"""
_OF_ONE_TYPE = dict.fromkeys(_NAMES_OF_ONE_TYPE.split(), 0) | {"nvl2": 1}
#: Functions that yield their first argument, or an entry of it.
_NAMES_OF_PASSING = "array_distinct array_max array_min element_at get max min slice sort_array try_element_at"
_PASSING = frozenset(_NAMES_OF_PASSING.split())
#: The positions of the arguments that Spark turns into times.
_NAMES_OF_READERS = "date_format from_utc_timestamp hour minute second to_utc_timestamp unix_micros unix_millis unix_seconds"
_TIMES_READ = dict.fromkeys(_NAMES_OF_READERS.split(), (0,)) | {"date_trunc": (1,), "months_between": (0, 1)}
_TIMES_READ_WITH_UNIT = dict.fromkeys(_WITH_UNIT, (1, 2)) | dict.fromkeys(("timestampadd", "dateadd", "date_add"), (2,))
_OF_THE_CLOCK = re.compile(r"'?(?:h|mi|s)", re.IGNORECASE)


def _as_written(node: Expr) -> Expr:
    """A plain cast, which sqlglot's Spark reads as one that fails softly."""
    is_plain = isinstance(node, sql.TryCast) and not node.args.get("safe")
    return sql.Cast(this=node.this, to=node.args["to"]) if is_plain else node


@dataclass(frozen=True)
class _Kinds:
    """What is known of the values of an expression's parts: ``text`` for a text of the rows, ``word`` for a literal one,
    ``clock`` for a time of day, ``time`` for an instant, ``other``; None if unknown.
    """

    kinds: Mapping[str, str] | None
    of_texts: Collection[str]

    def taken_for_times(self, node: Expr) -> Iterator[Expr]:
        """The operands of ``node`` that become times without a pattern, and may lack a day."""
        for operands, refused in self._operands(node):
            for operand in operands:
                kind = self.of(operand)
                if kind in refused or (kind == "word" and _TIME_OF_DAY.match(_word(operand))):
                    yield operand.this if kind == "clock" and isinstance(operand, sql.Cast) else operand

    def _operands(self, node: Expr) -> Iterator[tuple[list[Expr], set[str | None]]]:
        """The operands that become times, and the kinds that may lack a day."""
        arguments = list(node.expressions) if isinstance(node, sql.Anonymous) else []
        name = node.name.lower() if isinstance(node, sql.Anonymous) else ""
        if isinstance(node, sql.Cast) and node.to.this in _INSTANTS:
            yield [node.this], {"text", "clock", None}
        elif name in _MAKE_TIMES and len(arguments) == 1:
            yield arguments, {"text", "clock", None}
        elif isinstance(node, sql.Extract) and _OF_THE_CLOCK.match(node.name):
            yield [node.expression], {"text"}
        elif name in {"date_part", "datepart"} and _OF_THE_CLOCK.match(arguments[0].sql(_DIALECT)):
            yield arguments[1:], {"text"}
        elif name in _TIMES_READ or (name in _WITH_UNIT and len(arguments) == 3):  # noqa: PLR2004 (a unit, and two values)
            places = _TIMES_READ.get(name) or _TIMES_READ_WITH_UNIT[name]
            yield [arguments[place] for place in places if place < len(arguments)], {"text"}
        elif isinstance(node, (sql.Add, sql.Sub)) and any(isinstance(side, sql.Interval) for side in (node.left, node.right)):
            yield [node.left, node.right], {"text"}
        for together in self._of_one_type(node):
            if "time" in map(self.of, together):
                yield together, {"text", "clock"}

    def _of_one_type(self, node: Expr) -> list[list[Expr]]:
        """The lists of operands of ``node`` that Spark brings to one type."""
        if isinstance(node, sql.Case):
            branches = [branch.this for branch in node.args["ifs"]] if node.this else []
            return [[node.this, *branches] if node.this else [], self._results(node)]
        if isinstance(node, sql.If) and not isinstance(node.parent, sql.Case):
            return [self._results(node)]
        if isinstance(node, (*_COMPARISONS, sql.Sub)):
            parts = [node.this, node.args.get("expression"), node.args.get("low"), node.args.get("high"), *node.expressions]
            return [[part for part in parts if part is not None]]
        if isinstance(node, sql.Anonymous) and node.name.lower() in _OF_ONE_TYPE:
            return [node.expressions[_OF_ONE_TYPE[node.name.lower()] :]]
        return []

    def _results(self, node: Expr) -> list[Expr]:
        branches = [branch.args["true"] for branch in node.args["ifs"]] if isinstance(node, sql.Case) else [node.args["true"]]
        last = node.args.get("default" if isinstance(node, sql.Case) else "false")
        return [*branches, *([last] if last is not None else [])]

    def of(self, node: Expr) -> str | None:  # noqa: PLR0911 (one return per form)
        """The kind of a part."""
        if isinstance(node, (sql.Paren, sql.Filter, sql.WithinGroup, sql.Bracket)):
            return self.of(node.this)
        if isinstance(node, sql.Column):
            name = ".".join(part.name.lower() for part in node.parts)
            kind = "other" if self.kinds is None else self.kinds.get(name, "other" if len(node.parts) > 1 else None)
            return {"string": "text", "timestamp": "time", None: None}.get(kind, "other")
        if isinstance(node, (sql.RawString, sql.Concat)) or (isinstance(node, sql.Literal) and node.is_string):
            return "word"
        if isinstance(node, sql.Cast):
            if node.to.this in {sql.DType.TIME, sql.DType.TIMETZ}:
                return "clock"
            return "text" if node.to.this in sql.DataType.TEXT_TYPES else "time" if node.to.this in _INSTANTS else "other"
        if isinstance(node, (sql.Case, sql.If)):
            return self._common(self._results(node))
        if isinstance(node, (sql.Add, sql.Sub)) and any(isinstance(side, sql.Interval) for side in (node.left, node.right)):
            kind = self.of(node.right if isinstance(node.left, sql.Interval) else node.left)
            return "time" if kind in {"text", "word", "clock"} else kind
        if isinstance(node, (sql.Dot, sql.Identifier)):
            return self._of_parameter(node) if isinstance(node, sql.Identifier) else None
        if isinstance(node, sql.Anonymous):
            return self._of_call(node)
        return "text" if isinstance(node, (sql.DPipe, sql.Trim, sql.Substring, sql.Overlay)) else "other"

    def _of_parameter(self, name: Expr) -> str | None:
        """The kind of a lambda function's parameter: that of the entries of the array that the function is called for."""
        function = name.find_ancestor(sql.Lambda)
        while function is not None and name.name not in (names := [each.name for each in function.expressions]):
            function = function.find_ancestor(sql.Lambda)
        call = function and function.parent
        if function is None or not isinstance(call, sql.Anonymous):
            return None
        place = names.index(name.name)
        if call.name.lower() == "aggregate":
            return self.of(call.expressions[0]) if place and function is call.expressions[2] else None
        return self.of(call.expressions[place if call.name.lower() == "zip_with" else 0])

    def _of_call(self, call: Expr) -> str | None:
        name, arguments = call.name.lower(), list(call.expressions)
        if name in _OF_ONE_TYPE:
            return self._common(arguments[_OF_ONE_TYPE[name] :])
        if name in _PASSING and arguments:
            return self.of(arguments[0])
        makes_time = name in _YIELD_TIMES or (name in _TIMES_READ_WITH_UNIT and "add" in name)
        return "time" if makes_time else "text" if name in self.of_texts else "other"

    def _common(self, nodes: list[Expr]) -> str | None:
        """The kind to which Spark brings several values."""
        kinds = [self.of(node) for node in nodes]
        return next((kind for kind in ("time", "text", "clock", None, "word") if kind in kinds), "other")


def _word(node: Expr) -> str:
    """The value of a literal text; Spark joins texts that follow each other."""
    return "".join(part.name for part in node.expressions) if isinstance(node, sql.Concat) else node.name
