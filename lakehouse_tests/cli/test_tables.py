"""Tables of commands in a terminal of 80 columns: text is folded, and no number, date or state is cut."""

from __future__ import annotations

import io
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from lakehouse.cli import console
from lakehouse.contracts import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.dispositions.reprocess_policy import Disposition
from lakehouse.examples.demo_commands import long_table, short_table
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.history import PublishedVersion, Standing
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.impact import commands
from lakehouse.models.trial_commands import parts_table
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.operations.alerts.commands import alerts_table
from lakehouse.operations.alerts.log import AlertRecord
from lakehouse.operations.backfills.commands import plans_table
from lakehouse.operations.backfills.plan import BackfillPlan
from lakehouse.operations.commands import work_table
from lakehouse.operations.maintain import Upkeep
from lakehouse.reports import comparison_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import RenderableType
    from rich.table import Table

DAY, AT = date(2024, 11, 5), datetime(2024, 11, 5, 6, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are laid out for the console of the commands, which may have its width from COLUMNS."""
    monkeypatch.setattr(console.out, "_width", 80)


def printed(table: RenderableType) -> str:
    """What a terminal of 80 columns shows."""
    terminal = Console(file=io.StringIO(), width=80, highlight=False, emoji=False, markup=False)
    terminal.print(table)
    text = terminal.file.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    return text


def counts(rows: int) -> dict[date, Counter[Disposition]]:
    return {DAY + timedelta(days=number): Counter(dict.fromkeys(Disposition, rows)) for number in range(3)}


def test_the_account() -> None:
    some = [Disposition.APPLIED, Disposition.SUPERSEDED, Disposition.QUARANTINED]
    text = printed(commands.rows_by_disposition("sales", counts(35_714), some))
    assert text.count("249,998") == 3
    assert "749,994" in text
    assert text.count(" 35,714") == 3 * len(some)
    assert "arrival day" in text
    assert all(f" {name.value}" in text for name in some), "no heading is folded"


def test_the_account_of_rows_too_many_for_a_table_is_printed_as_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [Disposition.APPLIED, Disposition.SUPERSEDED, Disposition.QUARANTINED]
    assert fits(commands.rows_by_disposition("sales", counts(35_714), some), monkeypatch)
    assert not fits(commands.rows_by_disposition("sales", counts(35_714)), monkeypatch), "'quarantined' would be folded"
    assert not fits(commands.rows_by_disposition("sales", counts(1_234_567_890)), monkeypatch)


def fits(table: Table, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(console, "out", Console(file=io.StringIO(), width=80))
    return console.fits(table)


def test_maintenance() -> None:
    name = "ops/earthquakes_of_the_whole_world_dispositions"
    text = printed(work_table([Upkeep(name, 123_456, 1_234, 7, True, 98_765, 123_455, 987_654_321_000)], dry_run=True))
    for number in ("123,456 → 1,234", "98,765", "123,455", "987.7 GB"):
        assert number in text


def test_backfills() -> None:
    plan = BackfillPlan(
        plan_id="backfill-20241105-060000-0123abcd",
        target="gold/earthquakes_per_country_daily",
        source="earthquakes",
        first_day=DAY,
        last_day=DAY + timedelta(days=30),
        reason="the currency of the second store was wrong for three weeks",
        runner_id="ops",
        code_version="c0de",
        contracts={},
        created_at=AT,
    )
    text = printed(plans_table([(plan, "running", 12_345)]))
    for whole in ("12345", "2024-11-05", "2024-12-05"):
        assert whole in text


def test_alerts() -> None:
    alert = Alert(
        kind=next(iter(AlertKind)),
        contract="earthquakes",
        subject="earthquakes_per_country_daily",
        since=AT,
        text="12.5 % of 1,234,567 rows arrived later than PT48H; see lakehouse lateness report earthquakes",
        addressed_to=["data-platform@example.com", "seismology@example.com"],
        period="FY2024-Q1",
    )
    text = printed(alerts_table([AlertRecord("id", alert, AT, ["log"], AT + timedelta(hours=5))]))
    for whole in ("2024-11-05", "06:00", "11:00", alert.kind.value, "1,234,567"):
        assert whole in text


_MEASURE = {"name": "revenue", "sql": "sum(amount)", "type": "decimal(18,2)", "additive": True}
REVENUE = Series(MetricContract.model_validate({"metric": "revenue", "source": "sales", "measures": [_MEASURE]}))


def version(revision: int, revenue: str, adjustment: int | None = None) -> PublishedVersion:
    restated = revision > 1 and adjustment is None
    return PublishedVersion(
        start=DAY,
        period=f"{DAY}",
        name="revenue",
        revision=revision,
        adjustment=adjustment,
        state=State.PRELIMINARY,
        reason=RevisionReason.LATE_DATA,
        is_latest=adjustment is None,
        published_at=AT,
        superseded_at=None,
        restated_on=AT if restated else None,
        restatement_reason="late_data: 12 arrived late, 3 corrected, 2 moved here from another day, 1 withdrawn",
        rows=[{"revenue": Decimal(revenue), "row_count": 1}],
        row={"booked_on": date(2024, 11, 9)} if adjustment else {},
    )


@pytest.mark.parametrize("table", [short_table, long_table])
def test_the_demo(table: Callable[[Mapping[date, Standing]], Table]) -> None:
    known = [version(1, "123456789.01"), version(2, "198765432.10")]
    text = printed(table({DAY: numbers_history.standing(REVENUE, known)}))
    for whole in ("123,456,789.01", "198,765,432.10", "+75,308,643.09", "preliminary", "2024-11-05"):
        assert whole in text


@pytest.mark.parametrize("table", [short_table, long_table])
def test_an_adjustment_is_not_shown_as_the_number(table: Callable[[Mapping[date, Standing]], Table]) -> None:
    standing = numbers_history.standing(REVENUE, [version(1, "1253.46"), version(2, "1260.84"), version(2, "-7.38", 1)])
    text = printed(table({DAY: standing}))
    assert "1,260.84" in text
    assert "+7.38" in text, "from the first publication to the newest"
    assert standing.adjusted == {"revenue": Decimal("1253.46")}
    assert ("-7.38 is" in text) == (table is long_table), "beside it, with the day that contains it"


def test_a_comparison() -> None:
    heads = ["period", "store", "before", "after", "change", "percent", "because", "revisions"]
    numbers = ["123,456,789.01", "198,765,432.10", "+75,308,643.09", "+61.0 %"]
    row = ["2024-11-05", "a store with a long name", *numbers, "12 rows arrived late", "r1 to r2"]
    text = printed(comparison_report._table(heads, [row], names=1))
    for whole in ("2024-11-05", *numbers):
        assert whole in text


def test_the_months_of_a_backtest() -> None:
    estimate = {"value": -0.1234, "low": -0.2, "high": -0.1}
    sides = {"champion": estimate, "challenger": estimate, "difference": estimate}
    unknown = {side: {"value": None, "low": None, "high": None} for side in sides}
    measures = {"root_mean_squared_error": sides, "average_precision": unknown}
    parts = {name: {"rows": 1_234_567, "positives": 123_456, "measures": measures} for name in ("2024-10", "total")}
    text = printed(parts_table("fraud v12.14 against v12.13 on 2024-10 to 2024-11", "v12.13", "v12.14", parts))
    assert text.count("-0.200, -0.100") == 6
    assert "1,234,567 rows" in text
    assert "123,456 with 1" in text
