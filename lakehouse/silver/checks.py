"""Checks on what was written, read by another engine than the one that wrote it. Dagster shows them per partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import checks as lakehouse_bronze_checks
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, bronze_columns, silver_columns
from lakehouse.dispositions import checks as dispositions_checks
from lakehouse.gold.publication import gate as of_new_numbers
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.restatement import metric_query, rollup_totals
from lakehouse.gold.restatement.pending import count_silver_rows
from lakehouse.ledger import ingestions, key_log, redactions
from lakehouse.quality.check_result import Outcome
from lakehouse.silver import reconciliation, source_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import date

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.columns import Columns
    from lakehouse.settings import Settings


BRONZE = {
    "contract_schema": "The table has the columns and types of the contract.",
    "rows_accounted": "Records read = rows in Bronze = claims in the key log + malformed rows.",
    "no_file_held": "No file of the day waits because it could not be read as a whole.",
}
SILVER = {
    "contract_schema": "The table has the columns and types of the contract.",
    "unique_key": "No key of the day lives twice, on this day or another.",
    "required_fields": "Every field that the contract requires is there.",
}


def bronze_checks(contract: SourceContract) -> dict[str, str]:
    """The checks of a source's bronze, each with what it says."""
    return BRONZE | dispositions_checks.names(contract) | source_rules.bronze_names(contract)


def silver_checks(contract: SourceContract) -> dict[str, str]:
    """The same of its silver."""
    return SILVER | reconciliation.SILVER | source_rules.silver_names(contract)


def gold_checks(one: Series) -> dict[str, str]:
    """The same of a metric's days."""
    return of_new_numbers.names(one.checks) | reconciliation.GOLD


def check_source(settings: Settings, contract: SourceContract) -> list[Outcome]:
    """Every check on a source as a whole, as it is now."""
    return _shown(contract, lakehouse_bronze_checks.check_source(settings, contract))


def check_bronze(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    """Every bronze check on each arrival day."""
    source = contract.dataset
    options = settings.storage_options
    entries = ingestions.all_of(settings, source)
    schema = _schema_outcomes(table_io.open_table(locations.bronze(settings, source), options), bronze_columns(contract), days)
    where = {"arrival_date": list(days)}
    rows = table_io.read(locations.bronze(settings, source), ["arrival_date", "malformed_reason"], where, options)
    in_bronze = Counter([] if rows is None else rows["arrival_date"].to_pylist())
    sound = Counter([] if rows is None else rows.filter(pc.is_null(rows["malformed_reason"]))["arrival_date"].to_pylist())
    log = table_io.read(locations.key_log(settings, source), ["arrival_date", "kind"], where, options)
    own = Counter([] if log is None else log.filter(pc.not_equal(log["kind"], "retire"))["arrival_date"].to_pylist())
    held = Counter(entry.arrival_date for entry in ingestions.still_held(entries))
    outcomes = [*schema, *dispositions_checks.check_rows(settings, contract, in_bronze, days)]
    outcomes += source_rules.check_arrival_days(settings, contract, days)
    for day in sorted(days):
        read = sum(entry.rows for entry in entries if entry.arrival_date == day and entry.status == "ingested")
        malformed = in_bronze[day] - sound[day]
        numbers = {"rows_read": read, "rows_in_bronze": in_bronze[day], "claims": own[day], "malformed": malformed}
        balanced = read == in_bronze[day] == own[day] + malformed
        outcomes.append(Outcome("rows_accounted", day, balanced, numbers, None if balanced else "materialize the day again"))
        messages = [entry.message for entry in ingestions.still_held(entries) if entry.arrival_date == day]
        outcomes.append(
            Outcome("no_file_held", day, not messages, {"files_held": held[day]}, "; ".join(filter(None, messages)) or None)
        )
    return _shown(contract, outcomes)


def check_silver(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    """Every silver check on each event day."""
    table = table_io.open_table(locations.silver(settings, contract.dataset), settings.storage_options)
    outcomes = _schema_outcomes(table, silver_columns(contract), days)
    required = [item.name for item in contract.typed_fields if item.required]
    rows = (
        None
        if table is None
        else table_io.read_version(table, ["event_date", "record_key", *required], {"event_date": list(days)})
    )
    hidden = redactions.keys_by_field(settings, contract.dataset)
    keys_on: dict[date, list[str]] = {day: [] for day in days}
    missing: Counter[date] = Counter()
    for row in [] if rows is None else rows.to_pylist():
        keys_on[row["event_date"]].append(row["record_key"])
        missing[row["event_date"]] += sum(
            row[name] is None and row["record_key"] not in hidden.get(name, ()) for name in required
        )
    policy = contract.materialization.reprocess_policy
    everywhere = policy in {"merge", "overwrite_all"}
    lives = (
        _lives(settings, contract, table, {key for keys in keys_on.values() for key in keys}, days) if everywhere else Counter()
    )
    for day, keys in sorted(keys_on.items()):
        here = lives if everywhere else Counter(keys)  # where each day stands for itself, a key may be on several
        twice = 0 if policy == "append" else sum(here[key] > 1 for key in keys)
        advice = _unless(not twice, "a key lives twice: materialize again this day and the others on which the key has been")
        outcomes.append(Outcome("unique_key", day, not twice, {"rows": len(keys), "keys_twice": twice}, advice))
        outcomes.append(Outcome("required_fields", day, not missing[day], {"rows": len(keys), "missing": missing[day]}))
    outcomes += source_rules.check_event_days(settings, contract, days)
    return _shown(contract, [*outcomes, *reconciliation.silver_with_bronze(settings, contract, days)])


def _shown(contract: SourceContract, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes with the severity that the contract gives their checks."""
    said = contract.quality.severity
    return [replace(one, warns=said[one.check] == "warn") if one.check in said else one for one in outcomes]


def _lives(
    settings: Settings, contract: SourceContract, table: DeltaTable | None, keys: set[str], days: Collection[date]
) -> Counter[str]:
    """How often each key lives, on ``days`` and on every other day on which the key log has seen it."""
    if table is None or not keys:
        return Counter()
    reach = key_log.days_of(settings, contract.dataset, pa.array(sorted(keys))) | set(days)
    found = table_io.read_version(table, ["record_key"], {"event_date": sorted(reach), "record_key": sorted(keys)})
    return Counter(found["record_key"].to_pylist())


def check_gold(settings: Settings, one: Series, session: Callable[[], SparkSession], days: Collection[date]) -> list[Outcome]:
    """Every check of a new number on each event day that has rows: of what silver says now, against what readers see."""
    counted = count_silver_rows(settings, one.metric, days)
    there = [day for day in sorted(days) if counted.get(day)]
    numbers = metric_query.numbers(session(), settings, one.metric, there) if there else {}
    return _against_published(settings, one, numbers, counted)


def check_published(settings: Settings, one: Series, days: Collection[date]) -> list[Outcome]:
    """What readers see of each event day against what silver holds now."""
    return reconciliation.gold_with_silver(settings, one, days)


def check_rollup(
    settings: Settings,
    contract: SourceContract,
    daily: Series,
    rollup: Series,
    session: Callable[[], SparkSession],
    starts: Collection[date],
) -> list[Outcome]:
    """Every check on each period: of what the published days say now, and whether it is what readers of the roll-up see."""
    found = rollup_totals.numbers(settings, contract, daily, rollup, session, [rollup.period(start) for start in sorted(starts)])
    return _against_published(settings, rollup, {period.start: rows for period, rows in found.items()}, {})


def _against_published(
    settings: Settings, one: Series, numbers: Mapping[date, pa.Table], counted: Mapping[date, int]
) -> list[Outcome]:
    before = write_audit_publish.read(settings, one, sorted(numbers))
    before_these = write_audit_publish.trailing(settings, one, numbers)
    outcomes = []
    for start, rows in sorted(numbers.items()):
        standing = before.standings.get(start)
        revision = (standing.revision if standing else 0) + 1
        shown = before.latest.get(start, rows.slice(0, 0))
        outcomes += write_audit_publish.judge(before, start, revision, rows, shown, before_these, counted.get(start))
    return outcomes


def _schema_outcomes(table: DeltaTable | None, columns: Columns, days: Collection[date]) -> list[Outcome]:
    wanted = arrow_schema(columns)
    found = pa.schema(table.schema().to_arrow()) if table is not None else pa.schema([])
    actual = {item.name: item.type for item in found}
    wrong = [item.name for item in wanted if actual.get(item.name) != item.type]
    passed = table is None or not wrong
    note = None if passed else f"not as the contract says: {', '.join(wrong)}"
    return [Outcome("contract_schema", day, passed, {"columns": len(wanted)}, note) for day in sorted(days)]


def _unless(passed: bool, explanation: str) -> str | None:  # noqa: FBT001
    return None if passed else explanation
