"""What the demo of models prints: versions with what they have learned from, a verdict, and what a correction concerns."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lakehouse.cli import models_demo
from lakehouse.models.backtest_log import Backtest
from lakehouse.models.lineage import AffectedModel, AffectedReleases
from lakehouse.training_sets.affected import AffectedSet
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind

if TYPE_CHECKING:
    import pytest
    from rich.table import Table

NOW = datetime(2025, 2, 3, tzinfo=timezone.utc)


def model(version: str, of_set: str, precision: float, **parameters: Any) -> Release:
    about = {
        "training_set": {"full_name": f"training_data_{of_set}", "labels": {"source": "chargebacks", "version": "v3.0"}},
        "parameters": parameters,
        "metrics": {"test": {"average_precision": precision}},
        "evaluated_on": "test",
    }
    return Release("fraud", ReleaseKind.MODEL, version, ReleaseEvent.RELEASED, "", "anna", NOW, about=about)


def cells(table: Table) -> list[tuple[str, ...]]:
    """The rows of a table."""
    return list(zip(*([f"{cell}" for cell in column.cells] for column in table.columns)))


def backtest(*, failed: list[str]) -> Backtest:
    side = {"value": 0.25, "low": 0.2, "high": 0.3}
    measures = {"average_precision": {"champion": side, "challenger": side, "difference": side}, "log_loss": {}}
    part = {"rows": 1_200, "positives": 48, "measures": measures}
    results = {"judged": "as_known", "readings": {"as_known": {"months": {"2024-10": part}, "total": part, "rules": []}}}
    ends = ("2024-10", "2024-11")
    return Backtest("fraud", "v2.4", "v2.3", *ends, NOW, not failed, failed, results, "/lake/reports/1", "anna", NOW)


def test_each_version_is_listed_with_its_set_its_inputs_and_whether_it_is_in_use() -> None:
    known = [model("v2.3", "v5.0", 0.136, inputs=["night", "channel"]), model("v2.4", "v5.0", 0.2549)]
    assert cells(models_demo.versions_table(known, "v2.4")) == [
        ("v2.3", "training_data_v5.0", "v3.0", "night, channel", "0.1360", ""),
        ("v2.4", "training_data_v5.0", "v3.0", "all", "0.2549", "in use"),
    ]


def test_a_correction_concerns_a_set_and_the_versions_that_have_learned_from_it() -> None:
    of_set = AffectedSet("training_data", "v5.0", 51, 8_648)
    models = [AffectedModel("fraud", version, of_set, is_live=False, is_challenger=False) for version in ("v2.3", "v2.4")]
    concerned = AffectedReleases(["chargebacks_v3.0"], [of_set], models)
    assert cells(models_demo.impact_table(concerned, "v2.4")) == [
        ("training_data_v5.0", "51 of 8,648", "0.59%", "fraud v2.3, fraud v2.4 (in use)")
    ]


def test_a_backtest_shows_one_measure_by_month_and_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    models_demo.print_backtest(backtest(failed=[]))
    shown = capsys.readouterr().out
    assert "precision" in shown
    assert "loss" not in shown
    assert "Every acceptance rule is met: v2.4 may be promoted." in shown
    assert "/lake/reports/1/report.html" in shown


def test_a_backtest_that_fails_names_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    models_demo.print_backtest(backtest(failed=["log_loss not worse than 0.01: worse by 0.0200"]))
    shown = capsys.readouterr().out
    assert "Not met: log_loss not worse than 0.01: worse by 0.0200" in shown
    assert "may be promoted" not in shown
