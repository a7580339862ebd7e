"""Which Spark SQL a contract may contain: expressions that give the same for the same rows, whenever they are computed.

A published number can be made again only if its expression depends on nothing but the rows: not on the time, on chance, on the
order of rows, on who computes it, on other tables or files. So functions are allowed by name (:data:`OF_A_ROW`, :data:`OF_ROWS`),
and a subquery is refused. ``docs/contracts.md`` lists them. Types and columns are checked where the columns are known.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_ROW_FUNCTIONS = """
abs acos acosh add_months aggregate array array_contains array_distinct array_except array_intersect array_join array_max
array_min array_position array_size array_sort array_union ascii asin asinh atan atan2 atanh base64 bigint bin bit_count
bit_length boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce concat
concat_ws contains conv cos cosh cot crc32 date date_add date_diff date_format date_from_unix_date date_part date_sub
date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees double element_at elt
encode endswith exists exp expm1 extract factorial filter find_in_set float floor forall format_number format_string from_json
from_unixtime from_utc_timestamp get get_json_object greatest hash hex hour hypot if ifnull ilike initcap instr int isnan
isnotnull isnull json_array_length json_object_keys last_day lcase least left len length levenshtein like ln locate log log10
log1p log2 lower lpad ltrim make_date make_dt_interval make_interval make_timestamp make_ym_interval map map_contains_key
map_entries map_from_arrays map_keys map_values mask md5 minute mod month monthname months_between named_struct nanvl negative
next_day nullif nullifzero nvl nvl2 octet_length overlay parse_url pi pmod position positive pow power printf quarter radians
regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace
reverse right rint rlike round rpad rtrim second sequence sha sha1 sha2 sign signum sin sinh size slice smallint sort_array
soundex space split split_part sqrt startswith string struct substr substring substring_index tan tanh timestamp
timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint to_binary to_char to_date to_json
to_number to_timestamp to_unix_timestamp to_utc_timestamp to_varchar transform translate trim trunc try_add try_cast
try_divide try_element_at try_mod try_multiply try_subtract try_to_date try_to_number try_to_timestamp typeof ucase unbase64
unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode varchar weekday weekofyear
width_bucket xxhash64 year zeroifnull zip_with
"""
_AGGREGATES = """
any approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop covar_samp every kurtosis
max mean median min percentile percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp
variance
"""
_NO_CALLS = """
all and as between by case distinct div else from group in interval is not on or order then when where
"""
_BARE_WORDS = """
current_catalog current_database current_date current_schema current_time current_timestamp current_user localtimestamp over
select session_user
"""
#: Functions of the values of one row.
OF_A_ROW = frozenset(_ROW_FUNCTIONS.split())
#: Functions of sets of rows whose result does not depend on their order.
OF_ROWS = frozenset(_AGGREGATES.split())
#: Words that may stand in front of a parenthesis and call nothing.
_WORDS = frozenset(_NO_CALLS.split())
#: What depends on more than the row without being called.
_NEVER = frozenset(_BARE_WORDS.split())
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_SUBQUERY = re.compile(r"\(\s*(from|table|values|with)\b", re.IGNORECASE)
_TIME_OF_NOW = re.compile(r"\b(?:unix_timestamp|to_unix_timestamp)\s*\(\s*\)", re.IGNORECASE)


def refused(text: str, allowed: frozenset[str]) -> str | None:
    """What in an expression makes its result depend on more than the rows; None if nothing does.

    :param allowed: the functions that it may call, in lower case.
    """
    code = _QUOTED_NAME.sub("_quoted", _TEXT.sub("''", text))
    if subquery := _SUBQUERY.search(code):
        return f"({subquery[1]} ...)"
    if now := _TIME_OF_NOW.search(code):
        return now[0]
    for word in _WORD.finditer(code):
        if word[0].lower() in _NEVER:
            return word[0]
    calls = (call[1] for call in _CALL.finditer(code))
    return next((f"{name}()" for name in calls if name.lower() not in allowed | _WORDS), None)


def _of_a_row(text: str) -> str:
    return _checked(text, OF_A_ROW, "the row")


def _of_rows(text: str) -> str:
    return _checked(text, OF_A_ROW | OF_ROWS, "the rows")


def _checked(text: str, allowed: frozenset[str], rows: str) -> str:
    if word := refused(text, allowed):
        msg = (
            f"{word!r}: an expression may only depend on {rows}, so that it gives the same each time that it is computed; "
            "docs/contracts.md lists the functions that do"
        )
        raise ValueError(msg)
    return text


#: An expression, or a condition, on the columns of a row.
RowExpression = Annotated[str, AfterValidator(_of_a_row)]
#: An aggregate over rows.
Aggregate = Annotated[str, AfterValidator(_of_rows)]
