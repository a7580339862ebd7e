"""SQL in contracts gives the same for the same rows: what depends on more is refused, with the word that does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse.contracts.sql_expressions import (
    OF_A_ROW,
    OF_ROWS,
    Aggregate,
    RowExpression,
    outside_aggregates,
    places_of_sums,
    wrong_count,
)

ROW, ROWS = TypeAdapter(RowExpression), TypeAdapter(Aggregate)


@pytest.mark.parametrize(
    "text",
    [
        "amount > 0 AND (currency IN ('EUR', 'USD') OR note = 'now()')",
        "if(hour(event_ts) < 6, 1, 0)",
        "cast(amount AS decimal(9, 2)) BETWEEN (1) AND (2)",
        "CASE WHEN (a) THEN (1) ELSE (2) END",
        "`current_date` = day  -- a column of this name",
        "exists(tags, tag -> tag = 'late')",
        "name LIKE ANY ('a%', 'b%') OR name ilike some ('c%')",
        "event_ts > timestamp '2024-01-01 00:00:00' AND event_date < DATE\"2024-01-01\" OR timestamp r' -100' < event_ts",
        "name IN ('todays', 'today is a day', 'nowhere', 'not now', 'today_1', 'tomorrow, at ten', 'now()')",
        "name <> r'now\\' AND `now` <> 'now()' -- now()\r AND amount > 0 /* now() */",
    ],
)
def test_an_expression_of_the_row_is_taken(text: str) -> None:
    assert ROW.validate_python(text) == text
    assert ROWS.validate_python(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "coalesce(sum(amount), 0)",
        "count(DISTINCT user)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)",
        "sum(amount) FILTER (WHERE region IN ('north'))",
    ],
)
def test_an_aggregate_is_taken_over_rows_and_not_of_one(text: str) -> None:
    assert ROWS.validate_python(text) == text
    with pytest.raises(ValidationError, match="may only depend on the row,"):
        ROW.validate_python(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        *((f"{name}() > event_ts", name) for name in ("current_timestamp", "current_date", "localtimestamp", "current_user")),
        *((f"{name}(amount)", f"{name}()") for name in ("first", "last", "any_value", "collect_list", "collect_set", "listagg")),
        *((f"{name}(amount)", f"{name}()") for name in ("max_by", "mode", "percentile_approx", "uniform", "shuffle", "randn")),
        *((f"{name}('a')", f"{name}()") for name in ("now", "Rand", "uuid", "input_file_name", "java_method", "reflect", "user")),
        ("current_date > event_date", "current_date"),
        ("amount > (SELECT max(amount) FROM orders)", "SELECT"),
        ("max((select count(*) from text.`/etc/passwd`))", "select"),
        ("exists(select 1)", "select"),
        ("amount IN (FROM orders)", "(FROM ...)"),
        ("unix_timestamp( ) > 1", "unix_timestamp( )"),
        ("system.builtin.now()", "system.builtin.now()"),
        ("sum(amount) OVER (ORDER BY id)", "OVER"),
        ("/* a remark */ NOW ( )", "NOW()"),
        ("now/* a remark */() > event_ts", "now()"),
        ("now -- a remark\n() > event_ts", "now()"),
        ("amount > 0 -- a remark that ends here\r or now() > event_ts", "now()"),
        (r"name <> r'\' OR now() > event_ts OR name <> 'x'", "now()"),
        ("reflect/**/('java.lang.System', 'getenv', 'HOME') <> ''", "reflect()"),
        ("unix_timestamp(/* of now */) > 1", "unix_timestamp( )"),
        ("event_ts > timestamp 'now'", "'now'"),
        ("event_ts > TIMESTAMP_NTZ/**/' now UTC'", "' now UTC'"),
        ('event_date < date "today"', '"today"'),
        ("cast('Now' as timestamp) > event_ts", "'Now'"),
        ("event_date = to_date('tomorrow')", "'tomorrow'"),
        ("event_ts > 'yesterday Europe/Berlin'", "'yesterday Europe/Berlin'"),
        (r"event_date < date '\u0074oday'", r"'\u0074oday'"),
        (r"event_date < to_date('\164oday')", r"'\164oday'"),
        ("event_ts > 'no' /* a remark */ 'w'", "'no'   'w'"),
        ("`a'b` > now() OR name <> 'x'", "now()"),
        ("event_ts > 'today+01:00'", "'today+01:00'"),
        ("event_ts > 'tomorrow-1'", "'tomorrow-1'"),
        ("event_ts > 'yesterday\tUTC'", "'yesterday\tUTC'"),
        *((f"event_ts > '{begin}now'", f"'{begin}now'") for begin in (r"\b", r"\0", r"\Z", "\x01", r"\001")),
        (r"event_ts > '\U0000006eow'", r"'\U0000006eow'"),
        (r"event_ts > 'now\Z'", r"'now\Z'"),
    ],
)
def test_what_depends_on_more_is_refused_with_its_word(text: str, word: str) -> None:
    for kind in (ROW, ROWS):
        with pytest.raises(ValidationError) as problem:
            kind.validate_python(text)
    [error] = problem.value.errors()
    assert error["msg"].startswith(f"Value error, {word!r}: an expression may only depend on the rows")


def test_these_functions_need_no_argument() -> None:
    need_none = "array concat make_dt_interval make_interval make_ym_interval map named_struct pi struct unix_timestamp"
    assert {name for name in OF_A_ROW if wrong_count(name, 0) is None} == {*need_none.split()}


def test_the_documentation_lists_the_functions() -> None:
    page = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()
    section = page.partition("### Which SQL a contract may contain")[2].partition("\n### ")[0]
    for functions in (OF_A_ROW, OF_ROWS):
        assert f"`{'`, `'.join(sorted(functions))}`" in " ".join(section.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if(tier = 'gold', sum(if(tier = 'x', 1, 0)), 0)", "if(NULL = 'gold', sum(if(tier = 'x', 1, 0)), 0)"),
        ("sum(x) FILTER (WHERE tier > 1) + `tier`", "sum(x) FILTER (WHERE tier > 1) + NULL"),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY tier) -- tier",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY tier) -- tier",
        ),
        ("max(a.tier) + a.tier + tier(1) + 'tier' + TIER", "max(a.tier) + a.tier + tier(1) + 'tier' + NULL"),
        ("round(sum(tier) / tier, 2)", "round(sum(tier) / NULL, 2)"),
    ],
)
def test_columns_outside_of_aggregates_are_rewritten(text: str, expected: str) -> None:
    assert outside_aggregates(text, {"tier": "NULL"}) == expected


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("sum(amount)", 2),
        ("coalesce(sum(kwh), 0)", 3),
        ("sum(amount) - sum(kwh)", 3),
        ("count(*) FILTER (WHERE hour(at) < 6)", 0),
        ("sum(if(tier = 'gold', amount, 0.125))", 3),
        ("sum(CASE WHEN tier = 'gold' THEN number END)", 0),
        ("sum(cast(label AS decimal(9, 1)))", 1),
        ("-sum(number) + count_if(tier = 'x')", 0),
        ("if(tier = 'gold', sum(amount), 0)", 2),
        ("sum(amount) / 3", None),
        ("sum(amount * number)", None),
        ("round(sum(amount))", None),
        ("sum(fine)", None),  # of so many places, Spark may drop some
        ("sum(label)", None),
        ("sum(1e-3)", None),
        ("sum(cast(label AS double))", None),
    ],
)
def test_places_that_sums_may_have(text: str, places: int | None) -> None:
    assert places_of_sums(text, {"amount": 2, "kwh": 3, "number": 0, "fine": 9}) == places
