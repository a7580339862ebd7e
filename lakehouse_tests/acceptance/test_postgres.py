"""Dagster keeps runs and events in a real Postgres: a file becomes a number with no click, and a kill loses no run."""

from __future__ import annotations

import shutil
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import yaml
from sqlalchemy import create_engine, text

from lakehouse.lake import Table
from lakehouse_tests.support.cli import BUNDLED_CONTRACTS
from lakehouse_tests.support.deployment import CHECKOUT, Deployment
from lakehouse_tests.support.postgres_server import needs_postgres, postgres_server
from lakehouse_tests.support.sales_files import FIRST_SALES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.merge, needs_postgres]
HOME = CHECKOUT / "dagster_home"


def test_both_configurations_differ_in_the_storage_only() -> None:
    sqlite, postgres = (yaml.safe_load((HOME / f"{name}.yaml").read_text()) for name in ("dagster", "dagster-postgres"))
    assert sqlite.pop("storage") != postgres.pop("storage")
    assert sqlite == postgres


def revenue(deployment: Deployment) -> dict[date, Decimal]:
    rows = Table(str(deployment.root / "gold" / "revenue")).read(["event_date", "revenue"], {"is_latest": [True]})
    return {} if rows is None else {row["event_date"]: row["revenue"] for row in rows.to_pylist()}


@pytest.mark.spark
@pytest.mark.proof
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(600)
def test_a_file_becomes_a_number_and_the_runs_outlive_a_kill(tmp_path: Path) -> None:
    (tmp_path / "contracts").mkdir()
    for name in ("sales.yaml", "revenue.yaml"):
        shutil.copy(BUNDLED_CONTRACTS / name, tmp_path / "contracts")
    with postgres_server() as address:
        variables = {"LAKEHOUSE_CONTRACTS": str(tmp_path / "contracts"), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
        deployment = Deployment(tmp_path / "deployment", LAKEHOUSE_DAGSTER_POSTGRES=address, **variables)
        shutil.copy(HOME / "dagster-postgres.yaml", deployment.home / "dagster.yaml")
        landing = deployment.root / "landing" / "sales"
        landing.mkdir(parents=True)
        (landing / "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
        days = [date(2024, 11, number) for number in (1, 2, 3, 4)]
        with deployment.running():
            deployment.until(lambda: revenue(deployment) == dict.fromkeys(days, Decimal("20.00")), 400, "the first numbers")
            done = {run["runId"] for run in deployment.runs()}
            deployment.kill()
        with deployment.running():
            assert done <= {run["runId"] for run in deployment.runs()}
            assert deployment.materialized("silver", "sales") == {f"{day}" for day in days}
        with create_engine(address).connect() as connection:
            stored = connection.execute(
                text("SELECT count(*) FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'")
            )
            assert stored.scalar_one() >= len(days) * 3
        assert not list(deployment.home.rglob("*.db")), "nothing is in SQLite"
