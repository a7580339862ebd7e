"""The Spark SQL that a contract may contain: expressions with the same result for the same rows, whenever they are computed.

A published number can be reproduced only if its expression depends on nothing but the rows: not on time, chance, row order, the
user, other tables or files. So functions are allowed by name, with their numbers of arguments, and subqueries are refused. The
quotient of a division by zero is NULL, whatever the kind of metric. Columns and the form of an expression are checked in ``fit``,
where the columns are known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator
from sqlglot import exp

from lakehouse.contracts.sql_syntax import (
    CLOSED,
    OPEN,
    QUOTED_NAME,
    REMARK,
    TEXT,
    end_of_call,
    end_of_group,
    is_part,
    opens_group,
    parse,
    skip,
    tokens_of,
)
from lakehouse.text import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Functions of one row, with the fewest and the most arguments; None for any number.
_BY_ARGUMENTS: dict[tuple[int, int | None], str] = {
    (0, 0): "pi",
    (0, 2): "make_ym_interval unix_timestamp",
    (0, 4): "make_dt_interval",
    (0, 7): "make_interval",
    (0, None): "array concat map named_struct struct",
    (1, 1): """
        abs acos acosh array_distinct array_max array_min array_size ascii asin asinh atan atanh base64 bigint bin
        bit_count bit_length boolean cardinality cast cbrt char char_length character_length chr cos cosh cot crc32
        date date_from_unix_date day dayname dayofmonth dayofweek dayofyear decimal degrees double exp expm1 factorial
        float hex initcap int isnan isnotnull isnull json_array_length json_object_keys last_day lcase len length ln
        log10 log1p log2 lower map_entries map_keys map_values md5 month monthname negative nullifzero octet_length
        positive quarter radians reverse rint sha sha1 sign signum sin sinh size smallint soundex space sqrt string
        tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint try_cast typeof ucase unbase64
        unhex unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode varchar weekday weekofyear
        year zeroifnull
    """,
    (1, 2): """
        array_sort bround btrim ceil ceiling floor from_unixtime log ltrim round rtrim sort_array to_binary to_date
        to_json to_timestamp to_unix_timestamp trim try_to_date try_to_timestamp
    """,
    (1, 5): "mask",
    (1, 7): "make_timestamp",
    (1, None): "coalesce concat_ws format_string hash hour minute printf second xxhash64",
    (2, 2): """
        add_months array_contains array_except array_intersect array_position array_union atan2 contains date_format
        date_part date_sub date_trunc datepart element_at encode endswith exists extract filter find_in_set forall
        format_number from_utc_timestamp get get_json_object hypot ifnull instr left map_contains_key map_from_arrays
        mod nanvl next_day nullif nvl pmod pow power regexp regexp_count regexp_like regexp_substr repeat right rlike
        sha2 startswith to_char to_number to_utc_timestamp to_varchar transform trunc try_add try_divide
        try_element_at try_mod try_multiply try_subtract try_to_number
    """,
    (2, 3): """
        array_join date_add date_diff dateadd datediff from_json ilike levenshtein like locate lpad months_between
        parse_url position regexp_extract regexp_extract_all regexp_instr replace rpad sequence split substr substring
    """,
    (2, None): "decode elt greatest least",
    (3, 3): """
        conv if make_date nvl2 slice split_part substring_index timestampadd timestampdiff translate zip_with
    """,
    (3, 4): "aggregate overlay regexp_replace",
    (4, 4): "width_bucket",
}
#: Functions of sets of rows whose result does not depend on row order.
_AGGREGATES_BY_ARGUMENTS: dict[tuple[int, int | None], str] = {
    (1, 1): """
        any avg bit_and bit_or bit_xor bool_and bool_or count_if every kurtosis max mean median min percentile_cont
        percentile_disc skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp variance
    """,
    (1, 2): "approx_count_distinct",
    (1, None): "count",
    (2, 2): """
        corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
        regr_syy
    """,
    (2, 3): "percentile",
}
#: Functions of one row.
OF_A_ROW = frozenset(name for names in _BY_ARGUMENTS.values() for name in names.split())
#: Functions of sets of rows.
OF_ROWS = frozenset(name for names in _AGGREGATES_BY_ARGUMENTS.values() for name in names.split())
#: Functions that yield a text, or its bytes. Of constants only they could make ``now``, which Spark takes for a time.
_TEXTS = """
array_join base64 bin btrim char chr concat concat_ws conv date_format dayname decode elt encode format_number format_string
from_json from_unixtime get_json_object hex initcap json_object_keys lcase left lower lpad ltrim mask md5 monthname overlay
parse_url printf regexp_extract regexp_extract_all regexp_replace regexp_substr repeat replace reverse right rpad rtrim sha
sha1 sha2 soundex space split split_part string substr substring substring_index to_binary to_char to_json to_varchar
translate trim typeof ucase unbase64 unhex upper url_decode url_encode varchar
"""
OF_TEXTS = frozenset(_TEXTS.split())
_ARGUMENTS = {
    name: bounds
    for table in (_BY_ARGUMENTS, _AGGREGATES_BY_ARGUMENTS)
    for bounds, names in table.items()
    for name in names.split()
}


def wrong_count(name: str, count: int) -> str | None:
    """The mistake in the number of arguments of a call, as a sentence; None if ``name`` takes ``count`` arguments.

    :param name: an allowed function, in lower case.
    """
    least, most = _ARGUMENTS.get(name, (0, None))
    if count >= least and (most is None or count <= most):
        return None
    bounds = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
    noun = "argument" if bounds == "1" else "arguments"
    return f"{name}() takes {bounds} {noun}, and there {'is' if count == 1 else 'are'} {count or 'none'}"


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
#: A text that Spark takes for a time wherever it is compared with one or becomes one, with or without an offset or a zone. Java
#: trims every character up to the blank.
_ZONE_AFTER = r"[ \t]*[+-][\d:]*|[ \t]+[A-Za-z][\w~/.+:-]*"
_TEXT_AS_TIME = re.compile(rf"[\0-\x20]*(?:now|today|tomorrow|yesterday)(?:{_ZONE_AFTER})?[\0-\x20]*", re.IGNORECASE)
#: Spark joins texts that follow each other.
_SQL_EXPRESSIONS_TEXTS = re.compile(rf"(?:{TEXT})(?:(?:\s|{REMARK})*(?:{TEXT}))*", re.DOTALL)
_TEXT_OF_TEXTS = re.compile(rf"{REMARK}|(?P<text>{TEXT})", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|(['\"])\5", re.DOTALL)
_OF_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
#: A day or a time in words: Spark takes now, today, yesterday and tomorrow.
_WORD_AS_TIME = re.compile(r"\b(date|time|timestamp(?:_ltz|_ntz)?)\s*''", re.IGNORECASE)


def refused(text: str, allowed: frozenset[str]) -> str | None:
    """The part of an expression that makes its result depend on more than the rows; None if there is none.

    :param allowed: the functions that the expression may call, in lower case.
    """
    # Names and remarks leave, because quotation marks within them begin no text.
    for texts in _SQL_EXPRESSIONS_TEXTS.finditer(_QUOTED.sub(lambda quoted: quoted[0] if quoted["text"] else " ", text)):
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
    return chr(int(octal, 8)) if octal else _OF_LETTERS.get(other, other or quote)


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


_DIVIDES = frozenset({"/", "%", "div"})
#: Functions whose second argument divides.
_DIVISORS = frozenset({"mod", "pmod"})


def null_if_zero(sql: str) -> str:
    """Rewrite the divisions of an expression so that a zero divisor gives NULL: ``/``, ``%``, ``div``, ``mod`` and ``pmod``.

    A divisor that is a literal number is not rewritten, so most expressions do not change.
    """
    tokens = tokens_of(sql)
    return "".join(_rewritten(tokens))


def outside_aggregates(sql: str, instead: Mapping[str, str]) -> str:
    """Rewrite columns of an expression where they are in no aggregate: there they have one value for all rows.

    :param instead: what each of these columns becomes, by name in lower case.
    """
    tokens, done, place = tokens_of(sql), list[str](), 0
    while place < len(tokens):
        name, is_call, end = tokens[place].lower().strip("`"), opens_group(tokens, place + 1), place + 1
        if name in OF_ROWS and is_call:
            end = end_of_call(tokens, skip(tokens, end))
            done += tokens[place:end]
        else:
            is_column = not is_call and not is_part(tokens, place)
            done.append(instead.get(name, tokens[place]) if is_column else tokens[place])
        place = end
    return "".join(done)


#: Up to so many places, Spark gives a sum, a difference or a choice of decimals all places of both.
_PLACES_KEPT = 6


def places_of_sums(text: str, of_columns: Mapping[str, int]) -> int | None:
    """The places after the point that sums and counts in an expression may have; None for an expression that may round, or whose
    places are not known.

    :param of_columns: the places of whole numbers and decimals, by column.
    """
    parsed = parse(text)
    places = None if parsed is None else _places(parsed.tree, of_columns)
    return places if places is None or places <= _PLACES_KEPT else None


def _places(tree: Any, of_columns: Mapping[str, int]) -> int | None:
    within: list[Any] = []
    called = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    if called in {"count", "count_if"} or isinstance(tree, exp.Null):
        return 0
    if isinstance(tree, exp.Literal) and not tree.is_string:
        whole, _, rest = f"{tree.this}".partition(".")
        return len(rest) if f"{whole}{rest}".isdecimal() else None
    if isinstance(tree, exp.Column) and len(tree.parts) == 1:
        return of_columns.get(tree.name.lower())
    if called in {"sum", "coalesce", "nvl", "ifnull"}:
        within = tree.expressions
    elif isinstance(tree, exp.Cast) and tree.to.this == exp.DataType.Type.DECIMAL:
        sizes = [f"{size.this}" for size in tree.to.expressions]
        return int(sizes[1]) if len(sizes) > 1 else 0  # each row is rounded by itself
    elif isinstance(tree, exp.Paren | exp.Neg | exp.Filter):
        within = [tree.this]
    elif isinstance(tree, exp.Add | exp.Sub):
        within = [tree.left, tree.right]
    elif isinstance(tree, exp.If):
        within = [tree.args["true"], tree.args.get("false") or exp.Null()]
    elif isinstance(tree, exp.Case):
        within = [*(part.args["true"] for part in tree.args["ifs"]), tree.args.get("default") or exp.Null()]
    found = [_places(part, of_columns) for part in within]
    return None if not found or None in found else max(places for places in found if places is not None)


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
    before = "".join(tokens_of("".join(tokens[:place]), spaces=False)[-1:])
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
