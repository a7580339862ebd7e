"""A file dropped into landing ends as a changed gold number with no click, and a backfill from the UI works per layer.

The first run starts a Spark of its own. The twenty that follow use the server of ``lakehouse admin spark start``, as a deployment
with ``LAKEHOUSE_SPARK_REMOTE=auto`` does: starting Spark twenty times takes minutes and proves nothing more.
"""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.cli import BUNDLED_CONTRACTS, lakehouse_command
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES, REFUND
from lakehouse_tests.support.spark_server import Machine, machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge]


def revenue(deployment: Deployment) -> dict[date, Decimal]:
    return newest(deployment, "revenue")


def newest(deployment: Deployment, column: str) -> dict[date, Any]:
    """A column of the newest number of each day."""
    rows = Table(str(deployment.root / "gold" / "revenue")).read(["event_date", column], {"is_latest": [True]})
    return {} if rows is None else {row["event_date"]: row[column] for row in rows.to_pylist()}


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "machine") as host:
        yield host


@pytest.fixture(name="deployment")
def _deployment(tmp_path: Path, host: Machine) -> Deployment:
    """Of sales alone: the sensors of other sources would take half of a core."""
    (tmp_path / "contracts").mkdir()
    shutil.copy(BUNDLED_CONTRACTS / "sales.yaml", tmp_path / "contracts")
    revenue_rules = (BUNDLED_CONTRACTS / "revenue.yaml").read_text()
    assert "after_close: adjust" in revenue_rules, "under which these days, which are years old, would be adjusted"
    (tmp_path / "contracts" / "revenue.yaml").write_text(revenue_rules.replace("after_close: adjust", "after_close: restate"))
    contracts = {"LAKEHOUSE_CONTRACTS": str(tmp_path / "contracts"), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
    return Deployment(tmp_path, **contracts, **host.auto)


@pytest.mark.timeout(900)
def test_a_late_file_restates_exactly_its_days_with_no_click(deployment: Deployment, host: Machine) -> None:
    landing = deployment.root / "landing" / "sales"
    landing.mkdir(parents=True)
    (landing / "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
    day = {number: date(2024, 11, number) for number in (1, 2, 3, 4)}
    with deployment.running():
        deployment.until(lambda: Table(str(deployment.root / "bronze" / "sales")).read() is not None, 300, "the first records")
        assert host.start().returncode == 0
        deployment.until(lambda: revenue(deployment) == dict.fromkeys(day.values(), Decimal("20.00")), 300, "the first numbers")
        deployment.until(lambda: all(run["status"] == "SUCCESS" for run in deployment.runs()), 300, "quiet")
        before, revisions = {run["runId"] for run in deployment.runs()}, newest(deployment, "revision")

        (landing / "arrival_date=2024-11-06.csv").write_text(LATE_SALES)
        wanted = {day[1]: Decimal("25.00"), day[2]: Decimal("20.00"), day[3]: Decimal("30.00"), day[4]: Decimal("10.00")}
        deployment.until(lambda: revenue(deployment) == wanted, 300, "the restated numbers")
        deployment.until(lambda: all(run["status"] == "SUCCESS" for run in deployment.runs()), 300, "quiet")

        new = [run for run in deployment.runs() if run["runId"] not in before]
        written = [deployment.written_by(run) for run in new]
        silver, gold = (
            sum((of_run.get(table, Counter()) for of_run in written), Counter()) for table in ("silver/sales", "gold/revenue")
        )
        assert silver == Counter(["2024-11-01", "2024-11-03", "2024-11-04"])
        assert set(gold) == {"2024-11-01", "2024-11-03", "2024-11-04"}
        restated = {one for one, revision in newest(deployment, "revision").items() if revision > revisions[one]}
        assert restated == {day[1], day[3], day[4]}
        assert deployment.materialized("silver", "sales") == {f"{event_day}" for event_day in day.values()}

        backfills = [
            deployment.backfill(["bronze", "sales"], ["2024-11-05", "2024-11-06"]),
            deployment.backfill(["silver", "sales"], ["2024-11-01", "2024-11-02", "2024-11-04"]),
            deployment.backfill(["gold", "revenue"], ["2024-11-01", "2024-11-02"]),
        ]
        deployment.until(
            lambda: {deployment.backfill_status(backfill) for backfill in backfills} == {"COMPLETED_SUCCESS"},
            300,
            "the backfills",
        )
        assert revenue(deployment) == wanted

        (landing / "arrival_date=2024-11-07.csv").write_text(REFUND)
        deployment.until(lambda: _waiting(deployment) == 1, 120, "the row that fails a rule to wait")
        assert revenue(deployment) == wanted
        done = lakehouse_command(
            deployment.folder,
            *("quarantine", "accept", "sales", "--all", "--by", "anna", "--reason", "a refund", "--no-restate"),
            LAKEHOUSE_BUNDLED_CONTRACTS="false",
        )
        assert "1 row accepted by anna" in done.stdout, done.stderr
        wanted[day[2]] = Decimal("16.00")
        deployment.until(lambda: revenue(deployment) == wanted, 120, "the day that the decision concerns")


def _waiting(deployment: Deployment) -> int:
    rows = Table(str(deployment.root / "silver" / "sales_quarantine")).read(["quarantine_status"])
    return 0 if rows is None else rows["quarantine_status"].to_pylist().count("open")
