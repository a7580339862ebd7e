"""A redacted value is in no published number any more: in no revision, old or new, of a day or a roll-up, nor in what is held."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.published_table import digest
from lakehouse.gold.publication import restatement_reports, write_audit_publish
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

pytestmark = pytest.mark.spark

PEOPLE = contract(
    model={"fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}, {"name": "person", "type": "string"}]}
)
SPENT = MetricContract.model_validate(
    {
        "metric": "spent",
        "source": "events",
        "grain": ["person"],
        "measures": [{"name": "amount", "sql": "sum(amount)", "type": "long", "additive": True}],
        "publication": {"rollups": ["month"]},
        "checks": {"change": [{"measure": "amount", "percent": 500}]},
    }
)
DAY = date(2024, 1, 1)


def line(key: str, amount: int, person: str, hour: int) -> str:
    return f"{key},{amount},{DAY}T12:00:00Z,2024-01-02T{hour:02}:00:00Z,correct,,0,{person}"


def shown(sample: SampleLake, series: Series, *, of_candidates: bool = False) -> set[tuple[int, str | None, int]]:
    path = locations.candidates(sample.lake, series) if of_candidates else locations.gold(sample.lake, series)
    rows = path.read(["revision", "person", "amount"])
    return {tuple(row.values()) for row in rows.to_pylist()}


def people_in_reports(sample: SampleLake, series: Series) -> set[str | None]:
    reports = restatement_reports.log(sample.lake).read({"series": [series.name]})
    return {row["grain"]["person"] for report in reports for entry in report.periods.values() for row in entry["rows"]}


@pytest.mark.merge
def test_a_grain_that_names_a_redacted_value_is_masked_in_every_revision(lake, spark) -> None:
    sample = SampleLake(lake, PEOPLE, spark)
    daily = Series(SPENT)
    (month,) = daily.rollups

    def arrive(number: int, *lines: str) -> None:
        lake.settings.now = datetime(2024, 1, 2, number, tzinfo=timezone.utc)
        sample.deliver(date(2024, 1, 2), csv_file(lines).replace(b"seq\n", b"seq,person\n"), f".{number}.csv")
        sample.ingest(date(2024, 1, 2))
        follow()

    def follow() -> None:
        sample.update()
        pending = find_pending(lake, daily)
        restatement_days.restate(lake, sample.contract, daily, lambda: spark, sorted(pending.starts), Run("run"), pending)
        longer = find_pending(lake, month)
        rollups.restate(lake, sample.contract, month, lambda: spark, longer.starts, Run("run"), longer)

    arrive(1, line("a", 1, "ann", 1), line("b", 2, "bob", 1), line("c", 3, "ann", 1), line("d", 4, "dan", 1))
    arrive(2, line("b", 5, "bob", 2))
    arrive(3, line("b", 500, "bob", 3))
    assert shown(sample, daily) == {(1, "ann", 4), (1, "bob", 2), (1, "dan", 4), (2, "ann", 4), (2, "bob", 5), (2, "dan", 4)}
    assert (3, "bob", 500) in shown(sample, daily, of_candidates=True), "that much more is held"

    def redact(key: str) -> None:
        redact_fields(lake, sample.contract, key, ["person"], by="dora", reason="asked to", metrics=[SPENT])

    assert people_in_reports(sample, daily) == people_in_reports(sample, month) == {"bob"}
    redact("a")
    assert (2, "ann", 4) in shown(sample, daily), "another sale of hers is not redacted"
    redact("b")
    for _ in range(2):
        assert {person for _, person, _ in shown(sample, daily)} == {"ann", "dan", None}
        assert {person for _, person, _ in shown(sample, month)} == {"ann", "dan", None}
        assert {person for _, person, _ in shown(sample, daily, of_candidates=True)} == {"ann", "dan", None}
        assert people_in_reports(sample, daily) == people_in_reports(sample, month) == {None}
        redact("b")
    before = write_audit_publish.read(lake, daily, [DAY])
    assert before.published_states[DAY].content == digest(before.latest[DAY]), "no hash of what was there is kept"

    lake.settings.now = datetime(2024, 1, 2, 9, tzinfo=timezone.utc)
    follow()
    assert "bob" not in {person for _, person, _ in shown(sample, daily)} | people_in_reports(sample, daily)
