"""The checks that a source's contract may define on its rows, its arrivals, and the clock."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from dagster._utils.schedules import is_valid_cron_string
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts import ContractError, SourceContract, load_contract
from lakehouse.contracts.publication import Cron
from lakehouse.contracts.source_rules import CHECKS
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.contract_texts import SHOP_SOURCE
from lakehouse_tests.support.dimension_lake import dimension
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

CRON: TypeAdapter[str] = TypeAdapter(Cron)


def loaded(tmp_path: Path, more: str) -> SourceContract:
    file = tmp_path / "contract.yaml"
    file.write_text(SHOP_SOURCE + more, encoding="utf-8")
    found = load_contract(file)
    assert isinstance(found, SourceContract)
    return found


def test_nothing_is_required_by_default(tmp_path: Path) -> None:
    shop = loaded(tmp_path, "")
    assert (shop.freshness, shop.rolling_backfill, shop.quality.row_count) == (None, None, None)
    assert (shop.quality.nulls, shop.quality.severity) == ({}, {})


def test_in_the_words_of_people(tmp_path: Path) -> None:
    shop = loaded(
        tmp_path,
        """\
freshness: {max_age: PT26H, severity: error}
rolling_backfill: {days: 3, delay: 1, at: "30  2 * * 1-5"}
quality:
  row_rules: [{name: small, sql: id < 9}]
  row_count: {trailing: {days: 14, at_least: 0.25}, severity: warn}
  nulls: {id: 0.01}
  severity: {rule_small: error, unique_key: warn}
""",
    )
    assert shop.freshness is not None
    assert (shop.freshness.max_age, shop.freshness.severity) == (timedelta(hours=26), "error")
    assert shop.rolling_backfill is not None
    assert (shop.rolling_backfill.days, shop.rolling_backfill.delay, shop.rolling_backfill.at) == (3, 1, "30 2 * * 1-5")
    assert shop.quality.row_count is not None
    assert shop.quality.row_count.trailing is not None
    assert shop.quality.nulls["id"].at_most == Decimal("0.01")
    assert shop.quality.severity == {"rule_small": "error", "unique_key": "warn"}
    usual = loaded(tmp_path, "freshness: {max_age: P1D}\nrolling_backfill: {}\n")
    assert usual.freshness is not None
    assert usual.freshness.severity == "warn"
    assert usual.rolling_backfill is not None
    assert usual.rolling_backfill.model_dump() == {"days": 7, "delay": 2, "at": "0 3 * * *"}


def test_a_contract_comes_back_from_what_is_kept_of_it() -> None:
    said: dict[str, Any] = {"freshness": {"max_age": "PT26H"}, "rolling_backfill": {}, "quality": {"nulls": {"amount": 0.5}}}
    of_source = contract(**said)
    assert SourceContract.model_validate_json(of_source.model_dump_json()) == of_source


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ("freshness: {}", "freshness.max_age: is missing"),
        ("freshness: {max_age: PT0S}", "freshness.max_age: Input should be greater than 0"),
        ("rolling_backfill: {days: 0}", "rolling_backfill.days: Input should be greater than or equal to 1"),
        ("rolling_backfill: {at: '03:00'}", "rolling_backfill.at: '03:00': five fields are needed"),
        ("quality: {nulls: {name: 0}}", "quality.nulls: no field is called name; there are id"),
        ("quality: {row_count: {}}", "quality.row_count: has no bound; give min, max or trailing"),
        ("quality: {severity: {nulls: warn}}", "quality.severity: set that of nulls under 'nulls:' itself"),
        (
            "quality: {severity: {arrivals_are_fresh: warn}}",
            "quality.severity: set that of arrivals_are_fresh under 'freshness:'",
        ),
        ("quality: {severity: {unique: warn}}", "quality.severity: no check is called 'unique'; there are contract_schema, "),
        ("quality: {severity: {unique_key: fatal}}", "quality.severity.unique_key: Input should be 'error' or 'warn'"),
    ],
)
def test_mistakes_name_the_field_and_the_way_out(tmp_path: Path, more: str, mistake: str) -> None:
    with pytest.raises(ContractError) as caught:
        loaded(tmp_path, more)
    assert mistake in str(caught.value)


def test_the_severity_of_every_check_can_be_set() -> None:
    everything: dict[str, Any] = {
        "freshness": {"max_age": "PT1H"},
        "quality": {"row_rules": [{"name": "small", "sql": "amount < 9"}], "row_count": {"min": 1}, "nulls": {"amount": 0}},
    }
    changes = {"op": "op", "corrects_event_id": "corrects", "corrected_field": "field"}
    of_source = contract(**everything, changes=changes)
    named = {
        *bronze_checks.bronze_check_names(of_source),
        *silver_checks.silver_check_names(of_source),
        *bronze_checks.source_check_names(of_source),
        *bronze_checks.bronze_check_names(contract(materialization={"reprocess_policy": "overwrite_all"}, changes={})),
        *silver_checks.silver_check_names(dimension()),
    }
    assert named == {*CHECKS, "rule_small", "row_count", "nulls", "malformed_tolerated", "arrivals_are_fresh"}


FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


def cron_field(bounds: tuple[int, int]) -> st.SearchStrategy[str]:
    lowest, highest = bounds
    number = st.integers(max(lowest - 1, 0), highest + 1)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(st.sampled_from(["*", f"{lowest}-{highest}"]), st.integers(0, 5)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.lists(part, min_size=1, max_size=2).map(",".join)


@given(st.tuples(*map(cron_field, FIELDS)).map(" ".join))
def test_contracts_accept_what_the_scheduler_accepts(text: str) -> None:
    try:
        taken = CRON.validate_python(text)
    except ValidationError:
        return
    assert is_valid_cron_string(taken)


@pytest.mark.parametrize("text", ["0 3 * * *", "*/15 * * * *", "0 3 1-7 * 0", "5,35 6-22/2 * 1,7 *", "0 3 29 2 *"])
def test_these_come(text: str) -> None:
    assert CRON.validate_python(f" {text} ") == text
    assert is_valid_cron_string(text)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("60 3 * * *", "out of range; this field goes from 0 to 59"),
        ("0 3 31 4 *", "none of these months has that day"),
        ("0 3 30-31 2 *", "none of these months has that day"),
        ("0 3 31 2 1", "none of these months has that day"),
        ("0 3 * * MON", "'MON' is neither"),
        ("0 3 * *", "five fields"),
        ("0 5-3 * * *", "out of range"),
        ("*/0 3 * * *", "out of range"),
        ("@daily", "five fields"),
    ],
)
def test_these_do_not(text: str, mistake: str) -> None:
    with pytest.raises(ValidationError, match=mistake.replace("*", r"\*")):
        CRON.validate_python(text)
