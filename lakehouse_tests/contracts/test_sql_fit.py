"""The SQL of a contract is compared with what it is computed from when the contract is loaded, without Spark."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import ContractError, fit, load_catalog, load_contract, sources_beside
from lakehouse.contracts.loader import check_files
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract
from lakehouse.delta.columns import bronze_columns, silver_columns
from lakehouse_tests.support.expressions import COLUMNS, MEASURES, OF_ROW, UNFIT_MEASURES, UNFIT_OF_ROW

if TYPE_CHECKING:
    from pathlib import Path

TYPED = {name: kind for name, kind in COLUMNS.items() if name not in {"event_ts", "event_date"}}
SALES = {
    "dataset": "sales",
    "primary_key": ["id"],
    "clocks": {"event": "at", "timezone": "Europe/Berlin"},
    "model": {"fields": [{"name": name, "type": kind} for name, kind in TYPED.items()]},
}


def _source(**changes: object) -> SourceContract:
    return SourceContract.model_validate(SALES | changes)


def _write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(dedent(text))


SOURCE = """\
    dataset: sales
    primary_key: [id]
    clocks: {event: at}
    model:
      fields:
        - {name: id, type: string}
        - {name: customer_id, type: string}
        - {name: amount, type: "decimal(12,2)"}
"""
CUSTOMERS = """\
    dataset: customers
    kind: dimension
    primary_key: [customer_id]
    clocks: {event: at}
    model:
      fields:
        - {name: customer_id, type: string}
        - {name: tier, type: string}
"""
METRIC = """\
    metric: revenue
    source: sales
    joins: [{{dimension: customers, on: customer_id, columns: [tier]}}]
    grain: [tier]
    measures:
      - {{name: total, sql: "{sql}", type: "decimal(18,2)"}}
"""
DERIVED = """\
    metric: doubled
    from: [revenue]
    grain: [tier]
    measures:
      - {{name: total, sql: "{sql}", type: "decimal(18,2)"}}
"""


def _mistakes(folder: Path) -> list[str]:
    try:
        load_catalog(folder, bundled=False)
    except ContractError as error:
        return [text.removeprefix(f"{folder}/") for text in error.mistakes]
    return []


@pytest.mark.parametrize("text", OF_ROW)
def test_a_rule_that_spark_can_compute_is_taken(text: str) -> None:
    assert not [*fit.sql_misfits(_source(quality={"row_rules": [{"sql": text}]}), {})]


@pytest.mark.parametrize("text", UNFIT_OF_ROW)
def test_a_rule_that_spark_cannot_compute_is_refused(text: str) -> None:
    [(where, message)] = fit.sql_misfits(_source(quality={"row_rules": [{"sql": "n > 1"}, {"sql": text}]}), {})
    assert where == ("quality", "row_rules", 1, "sql")
    assert message.startswith(f"{text!r}: ")


@pytest.mark.parametrize("text", MEASURES)
def test_a_measure_that_spark_can_compute_is_taken(text: str) -> None:
    assert not [*fit.sql_misfits(_metric(text), {"sales": _source()})]
    assert not [*fit.sql_misfits(_metric(text), {})]


@pytest.mark.parametrize("text", UNFIT_MEASURES)
def test_a_measure_that_spark_cannot_compute_is_refused(text: str) -> None:
    mistakes = [*fit.sql_misfits(_metric(text), {"sales": _source()})]
    assert mistakes
    assert {where for where, _ in mistakes} == {("measures", 0, "sql")}


def _metric(text: str) -> MetricContract:
    measures = [{"name": "total", "sql": text, "type": "double"}]
    return MetricContract.model_validate({"metric": "m", "source": "sales", "grain": ["region"], "measures": measures})


def test_the_columns_are_those_of_the_tables() -> None:
    kafka = {"kafka": {"topic": "t", "servers": "a:1"}, "format": "json", "landing": "kafka"}
    for contract in (
        _source(),
        _source(source=kafka),
        _source(kind="dimension", primary_key=["id"], materialization={"reprocess_policy": "merge"}),
    ):
        filled = {*fit._sql_fit_fields(contract), *fit._filled(contract)}
        assert filled == {name for name, _ in silver_columns(contract)}
        assert {*filled, *fit._filled(contract, "raw_payload", "malformed_reason")} == {
            name for name, _ in bronze_columns(contract)
        }


def test_a_mistake_has_file_line_place_expression_and_the_near_name(tmp_path: Path) -> None:
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql="sum(amuont)"))
    [mistake] = _mistakes(tmp_path)
    place, _, text = mistake.partition("sql: ")
    assert place == "revenue.yaml:6: measures.0."
    assert text.startswith("'sum(amuont)': no column of sales is called 'amuont' (did you mean 'amount'?); ")
    assert text.endswith("there are id, customer_id, amount, tier")


@pytest.mark.parametrize("sql", ["sum(if(tier = 'gold', amount, 0))", "count(distinct source_file)", "max(Amount)"])
def test_columns_of_joins_and_of_the_lakehouse_are_known(tmp_path: Path, sql: str) -> None:
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql=sql))
    assert not _mistakes(tmp_path)


def test_a_column_of_the_grain_is_looked_for(tmp_path: Path) -> None:
    metric = METRIC.format(sql="sum(amount)").replace("grain: [tier]", "grain: [teir]")
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=metric)
    [mistake] = _mistakes(tmp_path)
    assert mistake.startswith("revenue.yaml:4: grain.0: no column of sales is called 'teir' (did you mean 'tier'?)")


def test_a_metric_without_its_source_fails_once(tmp_path: Path) -> None:
    _write(tmp_path, revenue=METRIC.format(sql="sum(amuont)").replace("joins:", "# joins:"))
    assert _mistakes(tmp_path) == ["revenue.yaml:2: source: no contract has 'dataset: sales'"]


@pytest.mark.parametrize(
    ("rules", "is_taken"),
    [
        ({"sql": "count(distinct window_start)"}, False),
        ({"sql": "count(distinct hour(Window_Start))"}, False),
        ({"sql": "count_if(hour(window_start) < 12)", "additive": True}, True),
        ({"sql": "count(distinct region)"}, True),
    ],
)
@pytest.mark.parametrize("rollups", [["week", "fiscal_year"], []])
def test_a_longer_period_has_no_start_of_a_window(rules: dict[str, Any], is_taken: bool, rollups: list[str]) -> None:
    content = {"metric": "m", "source": "sales", "window": {"size": "PT1H"}, "publication": {"rollups": rollups}}
    metric = MetricContract.model_validate(content | {"measures": [{"name": "n", "type": "bigint", **rules}]})
    mistakes = [*fit.sql_misfits(metric, {"sales": _source()})]
    assert (not mistakes) == (is_taken or not rollups)
    assert all(where == ("measures", 0, "sql") and "a week is computed" in text for where, text in mistakes)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("2 * revenue.total", None),
        ("revenue.total / nullif(revenue.row_count, 0)", None),
        ("if(tier = 'gold', revenue.total, 0)", None),
        ("sum(revenue.total)", "sum() adds up rows, and here the expression is computed of each row by itself"),
        ("revenue.total + totl", "no column of the inputs is called 'totl'; there are revenue, tier"),
        ("revenue.total +", "'revenue.total +' is no expression in Spark SQL: it ends in the middle"),
    ],
)
def test_a_derived_measure_reads_its_inputs(tmp_path: Path, sql: str, message: str | None) -> None:
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql="sum(amount)"), doubled=DERIVED.format(sql=sql))
    mistakes = _mistakes(tmp_path)
    assert len(mistakes) == (message is not None)
    assert all(mistake.startswith("doubled.yaml:5: measures.0.sql: ") and message in mistake for mistake in mistakes)


TRAINING_SET = """\
    training_set: payments
    entity: {source: sales, where: "%s"}
    features:
      columns: [amount, {name: small, sql: "%s", type: boolean}]
    label: {source: chargebacks, on: id, sql: "%s", maturity: P60D}
    split: {train: 2024-01-01}
"""
CHARGEBACKS = """\
    dataset: chargebacks
    primary_key: [id]
    clocks: {event: at}
    model: {fields: [{name: id, type: string}, {name: is_fraud, type: int}]}
"""


@pytest.mark.parametrize(
    ("where", "feature", "label", "message"),
    [
        ("amount > 0", "amount < 9", "max(is_fraud)", []),
        ("amuont > 0", "amount < 9", "max(is_fraud)", ["t.yaml:2: entity.where: 'amuont > 0': no column of sales is called"]),
        ("amount > 0", "is_fraud < 9", "max(is_fraud)", ["t.yaml:4: features.columns.1.sql: 'is_fraud < 9': no column of sales"]),
        ("amount > 0", "amount < 9", "max(amount)", ["t.yaml:5: label.sql: 'max(amount)': no column of chargebacks is called"]),
        ("amount > 0", "amount < 9", "is_fraud", ["t.yaml:5: label.sql: 'is_fraud': 'is_fraud' has a value in each row"]),
    ],
)
def test_the_expressions_of_a_training_set_are_checked(
    tmp_path: Path, where: str, feature: str, label: str, message: list[str]
) -> None:
    _write(tmp_path, sales=SOURCE, chargebacks=CHARGEBACKS, t=TRAINING_SET % (where, feature, label))
    mistakes = _mistakes(tmp_path)
    assert len(mistakes) == len(message)
    assert all(mistake.startswith(text) for mistake, text in zip(mistakes, message))


def test_a_file_is_checked_with_the_sources_beside_it(tmp_path: Path) -> None:
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql="sum(amuont)"), broken="dataset: [")
    path = tmp_path / "revenue.yaml"
    assert load_contract(path)
    sources = sources_beside([path])
    assert sorted(sources) == ["customers", "sales"]
    with pytest.raises(ContractError, match="no column of sales is called 'amuont'"):
        load_contract(path, sources)


def test_a_row_rule_of_a_file_by_itself_is_checked(tmp_path: Path) -> None:
    _write(tmp_path, sales=SOURCE + '    quality: {row_rules: [{name: positive, sql: "amont > 0"}]}\n')
    with pytest.raises(ContractError, match=r"sales.yaml:9: quality.row_rules.0.sql: 'amont > 0': no column of sales is called"):
        load_contract(tmp_path / "sales.yaml")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cast(concat('no', 'w') as timestamp) > event_ts", "concat() of constants only may make a time of now"),
        ("event_ts > 'no' || 'w'", "a text that is put together from constants may make a time of now"),
        ("event_ts > cast(X'6e6f77' as string)", "a text that is put together from constants"),
        ("event_ts > if(amount > 0, reverse('won'), note)", "reverse() of constants only"),
        ("event_ts > conv(30704, 10, 36)", "conv() of constants only"),
        ("event_ts > base64(X'b689a8aeba30')", "base64() of constants only"),
        ("event_ts > parse_url('http://now/', 'HOST')", "parse_url() of constants only"),
        ("event_ts > cast(to_binary('6e6f77', 'hex') as string)", "a text that is put together from constants"),
        ("event_ts > to_binary('6e6f77', 'hex')::string", "a text that is put together from constants"),
        ("event_ts > string(to_binary('6e6f77', 'hex'))", "string() of constants only"),
        ("event_ts > chr(110) || chr(111) || chr(119)", "chr() of constants only"),
    ],
)
def test_a_time_of_now_is_not_put_together_from_texts(text: str, what: str) -> None:
    rule = {"name": "now", "sql": text, "category": "validity"}
    mistakes = [mistake for _, mistake in fit.sql_misfits(_source(quality={"row_rules": [rule]}), {})]
    assert any(what in mistake for mistake in mistakes), mistakes


@pytest.mark.parametrize(
    "text",
    [
        "note || '-x' = 'a-x'",
        "exists(split(note, ','), part -> upper(part) = 'A')",
        "raw_payload <> X'00'",
        "cast(null as string) = note",
    ],
)
def test_texts_of_columns_are_put_together(text: str) -> None:
    rule = {"name": "rule", "sql": text, "category": "validity"}
    assert [*fit.sql_misfits(_source(quality={"row_rules": [rule]}), {})] == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cast(note as timestamp) > event_ts", "note"),
        ("note::timestamp_ntz is null", "note"),
        ("try_cast(note as timestamp_ltz) is null", "note"),
        ("timestamp(trim(note)) > event_ts", "TRIM(note)"),
        ("to_timestamp(note) > event_ts", "note"),
        ("try_to_timestamp(upper(note)) > event_ts", "upper(note)"),
        ("event_ts > note", "note"),
        ("event_ts between id and paid_at", "id"),
        ("paid_at in (note, event_ts)", "note"),
        ("coalesce(paid_at, note) > event_ts", "note"),
        ("if(is_fraud, note, paid_at) > event_ts", "note"),
        ("case when is_fraud then note else paid_at end > event_ts", "note"),
        ("case event_ts when note then 1 end = 1", "note"),
        ("greatest(event_ts, paid_at, note) > event_ts", "note"),
        ("event_ts - note > interval 1 hour", "note"),
        ("note + interval 1 hour > event_ts", "note"),
        ("hour(note) > 6", "note"),
        ("extract(hour from note) > 6", "note"),
        ("date_part('minute', note) > 6", "note"),
        ("date_trunc('hour', note) > event_ts", "note"),
        ("timestampdiff(HOUR, note, event_ts) > 6", "note"),
        ("split(note, ',')[0] < event_ts", "split(note, ',')[0]"),
        ("cast(cast(note as time) as timestamp_ntz) > event_ts", "note"),
        ("cast(cast(raw_payload as string) as timestamp) > event_ts", "CAST(raw_payload AS STRING)"),
        ("cast(substring(note from 1 for 9) as timestamp) > event_ts", "SUBSTRING(note, 1, 9)"),
        ("exists(split(note, ','), part -> event_ts > part)", "part"),
        ("exists(split(note, ','), part -> exists(array(event_ts), at -> at > part))", "part"),
        ("exists(split(note, ','), part -> cast(part as timestamp) > event_ts)", "part"),
        ("cast(from_json(note, 'at STRING').at as timestamp) > event_ts", "from_json(note, 'at STRING').at"),
        ("event_ts > '14' ':30'", "CONCAT('14', ':30')"),
    ],
)
def test_a_text_that_may_have_only_a_time_of_day_becomes_no_time_without_a_pattern(text: str, part: str) -> None:
    rule = {"name": "rule", "sql": text, "category": "validity"}
    mistakes = [mistake for _, mistake in fit.sql_misfits(_source(quality={"row_rules": [rule]}), {})]
    assert len(mistakes) == 1
    assert f": {part} becomes a time without a pattern" in mistakes[0]
    assert f"write to_timestamp({part}, 'yyyy-MM-dd HH:mm:ss') with the pattern of its texts" in mistakes[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("event_ts > '14:30'", "'14:30'"),
        ("event_ts > 'T14'", "'T14'"),
        (r"event_ts > '\t9:30'", r"'\t9:30'"),
        ("event_ts > timestamp'14:30'", "'14:30'"),
        ("hour('14:30') > 6", "'14:30'"),
        ("max(event_ts) > '14:30'", "'14:30'"),
    ],
)
def test_a_time_of_day_is_no_time(text: str, part: str) -> None:
    measures = [{"name": "total", "sql": f"count_if({text})" if "max" not in text else text, "type": "boolean"}]
    metric = MetricContract.model_validate({"metric": "m", "source": "sales", "measures": measures})
    for sources in ({"sales": _source()}, {}):
        mistakes = [mistake for _, mistake in fit.sql_misfits(metric, sources)]
        expected = f"{part} has only a time of day, of which Spark makes a time of the day of the computation; write the day, too"
        assert [expected in mistake for mistake in mistakes] == [True] or (not sources and "timestamp'" not in text)


@pytest.mark.parametrize(
    "text",
    [
        "to_timestamp(note, 'HH:mm') > event_ts",
        "exists(array(paid_at), at -> cast(at as timestamp) > event_ts)",
        "aggregate(array(paid_at), event_ts, (last, at) -> greatest(last, at)) > event_ts",
        "due + interval 1 day > event_ts",
        "map('14:30', event_ts)[note] > event_ts AND decode(event_ts, paid_at, note, '14:30') = note",
        "cast(note as date) > due AND due > note AND to_date(note) > due AND year(note) > 2000",
        "note = '14:30' OR note > 'T14'",
        "hour(cast(note as time)) > 6",
        "event_ts > '2024-01-01 14:30:00' AND paid_at > timestamp'2024-01-01 14:30:00'",
        "cast(n as timestamp) > event_ts AND cast(due as timestamp) > event_ts AND timestamp(paid_at) > event_ts",
        "coalesce(note, '14:30') = id",
        "unix_timestamp(note) > 1 AND date_format(paid_at, 'HH:mm') > '14:30'",
        "extract(year from note) > 2000",
        "case region when '14:30' then event_ts else paid_at end > event_ts",
        "if(note = '14:30', event_ts, paid_at) > event_ts",
    ],
)
def test_texts_with_a_pattern_and_days_become_times(text: str) -> None:
    rule = {"name": "rule", "sql": text, "category": "validity"}
    assert [*fit.sql_misfits(_source(quality={"row_rules": [rule]}), {})] == []


def test_a_measure_and_an_attribute_become_no_time_without_a_pattern(tmp_path: Path) -> None:
    for sql in ("max(cast(tier as timestamp))", "count_if(event_ts > tier)", "max(to_timestamp(source_file))"):
        _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql=sql))
        [mistake] = _mistakes(tmp_path)
        assert "becomes a time without a pattern" in mistake


@pytest.mark.parametrize(
    "text",
    [
        "count(distinct *)",
        "max(hash(*))",
        "max(struct(*))",
        "max(hash(amount, *))",
        "count(*, 1)",
        "max(hash(sales.*))",
        "count(sales.*)",
    ],
)
def test_a_star_counts_rows_and_stands_for_no_columns(text: str) -> None:
    expected = "'*' stands for every column, so that each field that is added changes the value; name the columns"
    [mistake] = [mistake for _, mistake in fit.sql_misfits(_metric(text), {"sales": _source()})]
    assert mistake == f"{text!r}: {expected}"
    if "count" not in text:
        rule = {"name": "rule", "sql": f"{text.removeprefix('max(')[:-1]} is not null", "category": "validity"}
        assert [expected in mistake for _, mistake in fit.sql_misfits(_source(quality={"row_rules": [rule]}), {})] == [True]


#: Per form of an additive measure: the part that does not add up; None if all of it does; "" if that cannot be known.
SUMS: list[tuple[str, str | None]] = [
    ("count(*)", None),
    ("count(1)", None),
    ("count(mag)", None),
    ("count_if(is_fraud)", None),
    ("try_sum(n)", None),
    ("2 * sum(amount) + 0", None),
    ("sum(amount) / 100 - sum(n) * (1 + 2)", None),
    ("-coalesce(sum(amount), 0)", None),
    ("nullif(ifnull(nvl(sum(amount), 0.00), 0), 0)", None),
    ("cast(sum(amount) as double) + bigint(count(*))", None),
    ("sum(amount) FILTER (WHERE hour(event_ts) >= 18)", None),
    ("sum(n) * length(region)", None),
    ("if(region = 'north', sum(amount), 0)", None),
    ("case region when 'north' then sum(amount) when 'south' then count(*) end", None),
    ("try_add(sum(n), try_divide(sum(n), 2))", None),
    ("count(distinct customer_id)", "count(DISTINCT customer_id)"),
    ("coalesce(count(distinct customer_id), 0)", "count(DISTINCT customer_id)"),
    ("sum(distinct n)", "sum(DISTINCT n)"),
    ("avg(mag)", "avg(mag)"),
    ("sum(n) + max(n)", "max(n)"),
    ("max(1)", "max(1)"),
    ("approx_count_distinct(id)", "approx_count_distinct(id)"),
    ("max(n) FILTER (WHERE is_fraud)", "max(n)"),
    ("sum(amount) / count(*)", "sum(amount) / count(*)"),
    ("100 / sum(n)", "100 / sum(n)"),
    ("sum(n) * sum(n)", "sum(n) * sum(n)"),
    ("try_divide(sum(amount), count(*))", "try_divide(sum(amount), count(*))"),
    ("sum(amount) + 1", "sum(amount) + 1"),
    ("1", "1"),
    ("coalesce(sum(n), 1)", "coalesce(sum(n), 1)"),
    ("decimal(sum(amount))", None),
    ("coalesce(sum(amount), 0BD) + coalesce(sum(n), 0L) - ifnull(sum(mag), 0e0)", None),
    ("coalesce(sum(n), '0')", None),
    ("coalesce(sum(n), 'east')", "coalesce(sum(n), 'east')"),
    ("round(sum(amount), 1)", ""),
    ("greatest(sum(n), 0)", ""),
    ("if(count(*) > 9, sum(n), 0)", ""),
    ("coalesce(sum(n), sum(amount))", ""),
    ("sum(n) % 7", ""),
    ("avg(n) * count(n)", ""),
]


@pytest.mark.parametrize(("text", "part"), SUMS)
def test_an_additive_measure_is_made_of_sums_and_counts(text: str, part: str | None) -> None:
    measures = [
        {"name": "n1", "sql": "max(n)", "type": "int"},
        {"name": "total", "sql": text, "type": "double", "additive": True},
    ]
    content = {"metric": "m", "source": "sales", "grain": ["region"], "measures": measures}
    metric = MetricContract.model_validate(content)
    mistakes = [*fit.sql_misfits(metric, {"sales": _source()})]
    assert [where for where, _ in mistakes] == [("measures", 1, "additive")] * bool(part)
    assert all(message.startswith(f"{part} does not add up: ") for _, message in mistakes)
    assert [text.split(":")[0] for text in fit.advice(metric)] == ["measures[1].additive"] * (part == "")
    assert not [*fit.sql_misfits(MetricContract.model_validate(content | {"measures": [measures[1] | {"additive": False}]}), {})]


@pytest.mark.parametrize(("window", "is_taken"), [({"gap": "PT30M", "key": "customer_id"}, True), ({"size": "PT1H"}, False)])
def test_each_session_is_whole_and_every_measure_of_it_adds_up(window: dict[str, str], is_taken: bool) -> None:
    measures = [{"name": "visits", "sql": "max(1)", "type": "bigint", "additive": True}]
    metric = MetricContract.model_validate({"metric": "m", "source": "sales", "window": window, "measures": measures})
    assert (not [*fit.sql_misfits(metric, {"sales": _source()})]) == is_taken


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("2 * revenue.total - revenue.row_count", None),
        ("if(tier = 'gold', revenue.total, 0)", None),
        ("coalesce(revenue.total, 0)", None),
        ("revenue.customers", "revenue.customers does not add up: "),
        ("revenue.total / revenue.row_count", "revenue.total / revenue.row_count does not add up: "),
        ("revenue.total + 1", "revenue.total + 1 does not add up: "),
    ],
)
def test_an_additive_derived_measure_is_made_of_additive_ones(tmp_path: Path, sql: str, message: str | None) -> None:
    metric = METRIC.format(sql="sum(amount)").replace('type: "decimal(18,2)"', 'type: "decimal(18,2)", additive: true')
    metric += '          - {name: customers, sql: "count(distinct customer_id)", type: bigint}\n'[4:]
    derived = DERIVED.format(sql=sql).replace('type: "decimal(18,2)"', 'type: "decimal(18,2)", additive: true')
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=metric, doubled=derived)
    mistakes = _mistakes(tmp_path)
    assert len(mistakes) == (message is not None)
    assert all(mistake.startswith(f"doubled.yaml:5: measures.0.additive: {message}") for mistake in mistakes)


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("sum(amount)", True),
        ("coalesce(sum(amount), 0)", True),
        ("sum(if(is_fraud, mag, 0))", True),
        ("max(case when is_fraud then amount end) FILTER (WHERE n > 1)", True),
        ("avg(n)", True),
        ("100 * sum(n) / count(*)", True),
        ("sum(n * 1.5)", True),
        ("sum(cast(note as decimal(9,2)))", True),
        ("round(sum(amount), 1)", True),
        ("sum(n)", False),
        ("count(amount)", False),
        ("count_if(amount > 1.5)", False),
        ("round(sum(amount))", False),
        ("floor(avg(n))", False),
        ("sum(cast(amount as int))", False),
        ("sum(cast(amount * 100 as decimal(12,0)))", False),
        ("sum(n) div 2", False),
        ("coalesce(sum(n), 0.0) + 2BD", False),
        ("sum(n) + 0.5BD", True),
        ("datediff(max(due), min(due))", False),
        ("unix_seconds(max(event_ts)) - unix_seconds(min(event_ts))", False),
    ],
)
def test_an_integer_that_cuts_what_it_is_made_of_is_told(text: str, is_cut: bool) -> None:
    for kind, is_whole in (("bigint", True), ("int", True), ("decimal(18,2)", False), ("double", False)):
        metric = MetricContract.model_validate(
            {"metric": "m", "source": "sales", "measures": [{"name": "total", "sql": text, "type": kind}]}
        )
        assert not [*fit.sql_misfits(metric, {"sales": _source()})]
        expected = [*fit.advice(metric, {"sales": _source()})]
        assert [each.split(" cuts ")[0] for each in expected] == [f"measures[0].type: {kind}"] * (is_cut and is_whole)
        assert not [*fit.advice(metric)] or "1.5" in text or "avg" in text or "/" in text or "cast(note" in text or "0.5" in text


def test_an_integer_that_cuts_the_measure_of_an_input_is_told(tmp_path: Path) -> None:
    derived = DERIVED.format(sql="2 * revenue.total").replace("decimal(18,2)", "bigint")
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=METRIC.format(sql="sum(amount)"), doubled=derived)
    advice = check_files([tmp_path / "doubled.yaml"]).advice
    expected = (
        "measures[0].type: bigint cuts the places after the point of '2 * revenue.total': 10.75 becomes 10; write round(...), or "
        "give a decimal type"
    )
    assert expected in [text.removeprefix(f"{tmp_path}/doubled.yaml: ") for text in advice]


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [
        ("unix_seconds(revenue.noted)", True),
        ("unix_seconds(cast(revenue.noted as timestamp))", True),
        ("if(revenue.last > '14:30', 1, 0)", True),
        ("unix_seconds(cast(revenue.last as timestamp))", False),
        ("unix_seconds(cast(period_start as timestamp)) + length(tier)", False),
    ],
)
def test_the_text_of_an_input_becomes_no_time_without_a_pattern(tmp_path: Path, sql: str, is_refused: bool) -> None:
    metric = METRIC.format(sql="sum(amount)") + '      - {name: noted, sql: "max(source_file)", type: string}\n'
    metric += '      - {name: last, sql: "max(event_ts)", type: timestamp}\n'
    derived = DERIVED.format(sql=f"{sql} + revenue.total")
    _write(tmp_path, sales=SOURCE, customers=CUSTOMERS, revenue=metric, doubled=derived)
    mistakes = _mistakes(tmp_path)
    assert ["pattern; " in mistake or "only a time of day" in mistake for mistake in mistakes] == [True] * is_refused, mistakes
