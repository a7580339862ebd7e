"""A backtest compares both readings, keeps its report with the version, and is recorded once. Here its rows are given."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from lakehouse.models import backtest as backtests
from lakehouse.models import backtest_log
from lakehouse.models.backtest import BacktestError
from lakehouse.models.scores import LoadedVersion
from lakehouse_tests.support.scored_rows import catalog, constant_model, linear_model, model_contract, payments, set_contract

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import Backtest, BacktestResult

MONTHS = ["2024-10", "2024-11"]
RULES = [
    {"metric": "roc_auc", "better_by": 0.1},
    {"metric": "brier_score", "not_worse_than": 0, "by": "country", "needs_rows": 50},
]
CONTRACT = model_contract(acceptance=RULES, metrics=["roc_auc", "brier_score"])
NOON = datetime(2025, 2, 1, 12, tzinfo=timezone.utc)


def _versions(contract=CONTRACT, learned=None) -> tuple[LoadedVersion, LoadedVersion]:
    """v2.3, which gives every payment the same score, and v2.4, which has learned from amounts."""
    return (
        LoadedVersion(contract, "v2.3", constant_model(0.25), ["amount"]),
        LoadedVersion(contract, "v2.4", linear_model(), ["amount"], learned),
    )


def _rows(count: int = 400, seed: int = 2) -> dict[str, pa.Table]:
    """Amounts that were corrected since are 10 greater."""
    as_known = payments(count, seed=seed)
    amounts = pc.add(as_known["amount"], 10)
    return {
        "as_known": as_known,
        "as_corrected": as_known.set_column(as_known.schema.get_field_index("amount"), "amount", amounts),
    }


def _result(contract=CONTRACT, rows=None, **changes: Any) -> BacktestResult:
    champion, challenger = _versions(contract, changes.pop("learned", None))
    contracts = catalog(contract, set_contract(**changes))
    return backtests.compared(contracts, contract, rows or _rows(), champion, challenger, MONTHS, resamples=40)


def _recorded(lake: Lake, result: BacktestResult, by: str = "ann") -> Backtest:
    return backtests.recorded(lake, result, MONTHS, by=by, known_at=NOON)


def test_both_readings_are_compared_and_that_of_the_set_is_judged() -> None:
    result = _result()
    assert list(result.readings) == ["as_known", "as_corrected"]
    assert (result.judged, result.passed, result.rows) == ("as_known", True, 400)
    areas = [reading.comparison.total.measure("brier_score").challenger.value for reading in result.readings.values()]
    assert areas[0] != areas[1]
    assert _result(reading="as_corrected").judged == "as_corrected"


def test_a_rule_that_is_not_met_is_named_with_what_is_lacking(lake) -> None:
    contract = model_contract(acceptance=[{"metric": "roc_auc", "better_by": 0.45}], metrics=["roc_auc"])
    done = _recorded(lake, _result(contract))
    assert not done.passed
    assert len(done.failed) == 1
    assert done.failed[0].startswith("roc_auc better by 0.45: not met, it is 0.")
    assert "too little" in done.failed[0]


def test_the_same_result_is_recorded_once_and_keeps_its_first_author(lake) -> None:
    first, again = _recorded(lake, _result()), _recorded(lake, _result(), by="bob")
    assert first == again
    assert (first.by, first.title) == ("ann", "v2.4 against v2.3 on 2024-10 to 2024-11")
    assert len(backtest_log.backtests_of(lake, "fraud")) == 1


def test_other_rows_make_another_backtest_and_the_older_report_stays(lake) -> None:
    first = _recorded(lake, _result())
    later = lake.with_settings(now=lake.now() + timedelta(days=1))
    second = _recorded(later, _result(rows=_rows(seed=3)))
    assert [entry.report for entry in backtest_log.backtests_of(lake, "fraud")] == [first.report, second.report]
    assert first.report != second.report
    assert all((Path(entry.report) / "report.md").exists() for entry in (first, second))
    back = _recorded(later.with_settings(now=later.now() + timedelta(days=1)), _result())
    assert (back.report, len(backtest_log.backtests_of(lake, "fraud"))) == (first.report, 3)  # it is the newest again


def test_two_that_are_made_at_once_are_recorded_once(lake) -> None:
    results, together = [_result(), _result()], threading.Barrier(2)

    def record(result: BacktestResult) -> Backtest:
        together.wait()
        return _recorded(lake, result)

    with ThreadPoolExecutor(2) as threads:
        assert len({entry.report for entry in threads.map(record, results)}) == 1
    assert len(backtest_log.backtests_of(lake, "fraud")) == 1


def test_the_report_is_kept_with_the_version_in_three_forms(lake) -> None:
    done = _recorded(lake, _result())
    folder = Path(done.report)
    assert folder.is_relative_to(Path(lake.root) / "models" / "fraud" / "v2.4")
    markdown, html, values = ((folder / f"report.{form}").read_text("utf-8") for form in ("md", "html", "json"))
    assert "**v2.4 meets the acceptance rules against v2.3.**" in markdown
    assert "| 2024-10 |" in markdown
    assert "## Rows with features as corrected since" in markdown
    assert "Made at 2024-03-01 00:00 UTC by ann, on 400 events with what was known at 2025-02-01 12:00 UTC." in markdown
    assert html.count("<svg") == 2 * 2  # two measures, for wide and for narrow screens
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
    stored = json.loads(values)
    assert stored["passed"] is True
    assert stored["readings"]["as_known"]["months"].keys() == {"2024-10", "2024-11"}
    assert stored["readings"] == json.loads(json.dumps(done.results["readings"]))


def test_the_same_rows_give_the_same_report(lake, tmp_path) -> None:
    other = lake.with_settings(root=f"{tmp_path}/other")
    first, second = (_recorded(sample, _result()) for sample in (lake, other))
    for form in ("md", "html", "json"):
        texts = [(Path(entry.report) / f"report.{form}").read_text("utf-8") for entry in (first, second)]
        assert texts[0] == texts[1]


def test_a_version_that_was_trained_on_these_months_is_marked() -> None:
    learned = (datetime(2024, 6, 1, tzinfo=timezone.utc), datetime(2024, 10, 31, 23, 59, tzinfo=timezone.utc))
    result = _result(learned=learned)
    rows = _rows()["as_known"]
    in_october = pc.sum(pc.equal(pc.month(rows["event_ts"]), 10)).as_py()
    assert result.seen == {"v2.4": in_october}
    assert result.remarks == [
        f"v2.4 was trained on events of the same time as {in_october:,} of these rows: its measures are too good"
    ]


def test_what_cannot_be_measured_is_null_in_json(lake) -> None:
    rows = {name: table.filter(pc.equal(table["label"], 0)) for name, table in _rows().items()}
    contract = model_contract(metrics=["roc_auc", "brier_score"])
    done = _recorded(lake, _result(contract, rows=rows))
    total = done.results["readings"]["as_known"]["total"]
    assert total["measures"]["roc_auc"]["difference"] == {"value": None, "low": None, "high": None}
    json.loads((Path(done.report) / "report.json").read_text(), parse_constant=pytest.fail)
    assert " none | " in (Path(done.report) / "report.md").read_text()


def test_without_a_labelled_event_nothing_is_recorded(lake) -> None:
    empty = {name: table.slice(0, 0) for name, table in _rows().items()}
    with pytest.raises(BacktestError, match=r"no event of events from 2024-10 to 2024-11 has a label that is believed \(60 days"):
        _result(rows=empty)
    assert backtest_log.backtests_of(lake, "fraud") == []


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        ("2024-13", "2024-11", "'2024-13' is no month; write it as 2024-10"),
        ("2024-10", "November", "'November' is no month"),
        ("2024-11", "2024-10", "the months end before they begin: 2024-11 to 2024-10; exchange --from and --to"),
    ],
)
def test_text_that_names_no_months_is_refused(first, last, message) -> None:
    with pytest.raises(BacktestError, match=message):
        backtests.months_between(first, last)


def test_months_end_with_their_last_day() -> None:
    assert backtests.months_between("2024-11", "2025-02") == ["2024-11", "2024-12", "2025-01", "2025-02"]
    assert backtests._day_after("2024-12") == date(2025, 1, 1)


def test_a_version_is_not_compared_with_itself(lake) -> None:
    contract, request = model_contract(), backtests.BacktestRequest("v2.4", "v2.4", *MONTHS)
    with pytest.raises(BacktestError, match=r"v2\.4 cannot be compared with itself; name another version with --against"):
        backtests.backtest(None, lake, catalog(contract), contract, request, by="ann")  # type: ignore[arg-type]
