"""The Spark SQL functions that a contract's expressions may call, with their numbers of arguments.

These are the functions whose result depends on nothing but the rows. ``docs/contracts.md`` lists them, too.
"""

from __future__ import annotations

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
#: Functions that put a text together. Of constants only they could make ``now``, which Spark takes for a time.
_TEXTS = """
array_join btrim char chr concat concat_ws date_format decode elt format_string from_json from_unixtime get_json_object
initcap json_object_keys lcase left lower lpad ltrim mask overlay printf regexp_extract regexp_extract_all regexp_replace
regexp_substr repeat replace reverse right rpad rtrim split split_part string substr substring substring_index to_char
to_json to_varchar translate trim ucase unbase64 unhex upper url_decode varchar
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
