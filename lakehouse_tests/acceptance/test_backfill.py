"""Backfills on a real deployment: the same tables whoever launches them, killed or not, within the queue's limits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.calendar.days import span
from lakehouse.lake import Table
from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.earthquakes.history import BATCHES, needs_earthquakes
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]

ARRIVALS = ("2024-11-05", "2024-11-06")
RANGES = {
    "bronze/sales": ARRIVALS,
    "silver/sales": ("2024-11-01", "2024-11-04"),
    "gold/revenue": ("2024-11-01", "2024-11-04"),
    "gold/revenue_weekly": ("2024-10-28", "2024-11-04"),
    "gold/revenue_monthly": ("2024-11-01", "2024-11-01"),
}
#: What tells runs apart, and nothing about the numbers.
OF_THE_RUN = {"run_id", "publication_id"}
FIXED = {"LAKEHOUSE_NOW": "2024-11-20T12:00:00+00:00"}


@pytest.mark.proof
@pytest.mark.timeout(1500)
def test_the_ui_the_command_line_and_dagster_itself_give_the_same_tables(tmp_path: Path) -> None:
    by_ui = Deployment(tmp_path / "ui", LAKEHOUSE_SENSOR_SECONDS="3600", **FIXED)
    with by_ui.running():
        time.sleep(20)  # the sensors have looked at an empty folder by now, and look again in an hour
        deliver(by_ui.root)
        for asset, (first, last) in RANGES.items():
            step = 7 if asset.endswith("weekly") else 1
            days = [f"{day}" for day in list(span(date.fromisoformat(first), date.fromisoformat(last)))[::step]]
            backfill = by_ui.backfill(asset.split("/"), days)
            by_ui.until(
                lambda backfill_id=backfill: by_ui.backfill_status(backfill_id).startswith("COMPLETED"),
                300,
                f"a backfill of {asset}",
            )
            assert by_ui.backfill_status(backfill) == "COMPLETED_SUCCESS"
        through = tmp_path / "through"  # the same command, with that webserver running: nothing is left to do
        through.mkdir()
        asked = {"LAKEHOUSE_ROOT": str(by_ui.root), "LAKEHOUSE_WEBSERVER": by_ui.environment["LAKEHOUSE_WEBSERVER"], **FIXED}
        plan = planned(through, **asked)
        assert not plan["files"] or all(file["known"] for file in plan["files"])

    by_command = tmp_path / "command"
    deliver(by_command / "lake")
    plan = planned(by_command, **FIXED)
    done = lakehouse_command(by_command, "backfill", "run", plan["plan_id"], "--in-process", **FIXED)
    assert done.returncode == 0, done.stderr + done.stdout

    by_dagster = tmp_path / "dagster"
    deliver(by_dagster / "lake")
    for asset, (first, last) in RANGES.items():
        environment = os.environ | {"LAKEHOUSE_ROOT": str(by_dagster / "lake"), **FIXED}
        command = [str(Path(sys.executable).with_name("dagster")), "asset", "materialize", "-m", "lakehouse.definitions"]
        command += ["--select", f'key:"{asset}"', "--partition-range", f"{first}...{last}"]
        subprocess.run(command, env=environment, cwd=by_dagster, check=True, capture_output=True)

    for table in RANGES:
        from_ui, from_command, from_dagster = (
            rows(root, table) for root in (by_ui.root, by_command / "lake", by_dagster / "lake")
        )
        assert from_ui == from_command == from_dagster, table
        assert from_ui


@pytest.mark.proof
@pytest.mark.timeout(1500)
def test_with_a_webserver_the_command_goes_through_dagsters_backfills(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, LAKEHOUSE_SENSOR_SECONDS="3600", **FIXED)
    command = {name: deployment.environment[name] for name in ("DAGSTER_HOME", "LAKEHOUSE_WEBSERVER")} | FIXED
    with deployment.running():
        time.sleep(20)
        deliver(deployment.root)
        plan = planned(tmp_path, **command)
        done = lakehouse_command(tmp_path, "backfill", "run", plan["plan_id"], **command)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "running as Dagster backfills" in done.stderr
        shown = {run["assetSelection"][0]["path"][-1] for run in deployment.runs() if _tag(run, "dagster/backfill")}
        assert shown == {"sales", "revenue", "revenue_weekly", "revenue_monthly"}
        assert {_tag(run, "lakehouse/backfill") for run in deployment.runs()} == {plan["plan_id"]}
        assert "nothing to do" in lakehouse_command(tmp_path, "backfill", "run", plan["plan_id"], **command).stdout
    assert len(rows(deployment.root, "gold/revenue")) == 4


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_four_hundred_partitions_with_gaps_stay_within_the_queue(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, LAKEHOUSE_SENSOR_SECONDS="3600")
    first = date(2024, 11, 1)
    days = [f"{first + timedelta(days=number)}" for number in range(480) if number % 12 < 10]  # 40 ranges of ten days
    at_once, by_table = 0, Counter[str]()
    with deployment.running():
        time.sleep(20)
        deliver(deployment.root)
        done = deployment.backfill(["bronze", "sales"], list(ARRIVALS))
        deployment.until(lambda: deployment.backfill_status(done).startswith("COMPLETED"), 300, "bronze")
        backfill = deployment.backfill(["silver", "sales"], days)

        def over() -> bool:
            nonlocal at_once
            working = [run for run in deployment.runs() if run["status"] in {"STARTING", "STARTED"}]
            at_once = max(at_once, len(working))
            for table, count in Counter("/".join(run["assetSelection"][0]["path"]) for run in working).items():
                by_table[table] = max(by_table[table], count)
            return deployment.backfill_status(backfill).startswith("COMPLETED")

        deployment.until(over, 3000, "the backfill")
        assert deployment.backfill_status(backfill) == "COMPLETED_SUCCESS"
        own = [run for run in deployment.runs() if _tag(run, "dagster/backfill") == backfill]
        assert len(own) == 40
        assert deployment.materialized("silver", "sales") >= set(days)
    assert at_once <= 2


@pytest.mark.proof
@pytest.mark.timeout(5400)
@needs_earthquakes
def test_sixty_real_days_killed_twenty_times_end_as_unkilled(tmp_path: Path) -> None:
    chance = random.Random(20180101)
    trails = {}
    of_unkilled = 0
    for name, kills in (("unkilled", 0), ("killed", 20)):
        home = tmp_path / name
        (home / "dagster_home").mkdir(parents=True)
        variables = {"LAKEHOUSE_LANDING": str(BATCHES), "DAGSTER_HOME": str(home / "dagster_home"), **FIXED}
        wanted = [
            "--arrival-from",
            "2018-01-01",
            "--arrival-through",
            "2018-03-01",
            "--wave-size",
            "20",
            "--reason",
            "history",
            "--json",
        ]
        done = lakehouse_command(home, "backfill", "plan", "earthquakes", *wanted, **variables)
        assert done.returncode == 0, done.stderr
        plan_id = json.loads(done.stdout)["plan_id"]
        command = [sys.executable, "-m", "lakehouse", "backfill", "run", plan_id, "--in-process"]
        environment = os.environ | {"LAKEHOUSE_ROOT": str(home / "lake"), **variables}
        for _ in range(kills):
            process = subprocess.Popen(command, env=environment, cwd=home, start_new_session=True, stdout=subprocess.DEVNULL)
            # By commits and not by time, which a busy machine stretches: half of the way in all, on average.
            more = chance.randint(0, of_unkilled // kills)
            until = commits(home / "lake") + more
            time.sleep(chance.uniform(0, 0.3 if more else 8))  # without a commit: while Python and Spark start
            while commits(home / "lake") < until and process.poll() is None:
                time.sleep(chance.uniform(0.01, 0.3))
            assert process.poll() is None, "it ended before it was killed"
            os.killpg(process.pid, signal.SIGKILL)
            tried.count("kills")
            process.wait()
        finished = subprocess.run(command, env=environment, cwd=home, check=False, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        of_unkilled = of_unkilled or commits(home / "lake")
        trails[name] = json.loads(lakehouse_command(home, "backfill", "status", plan_id, "--json", **variables).stdout)
    for table in ("bronze/earthquakes", "silver/earthquakes", "gold/earthquakes_daily", "gold/earthquakes_daily_weekly"):
        assert rows(tmp_path / "killed" / "lake", table) == rows(tmp_path / "unkilled" / "lake", table), table
    told = {name: [entry["event"] for entry in trail["events"]] for name, trail in trails.items()}
    waves = {name: [event for event in events if not event.startswith("started")] for name, events in told.items()}
    assert sorted(waves["killed"]) == sorted(waves["unkilled"])
    assert len(told["killed"]) == len(set(told["killed"])), "one trail: each event once"
    assert {trail["status"] for trail in trails.values()} == {"finished"}
    summaries = [trail["events"][-1]["said"]["summary"] for trail in trails.values()]
    assert summaries[0] == summaries[1]


def deliver(root: Path) -> None:
    landing = root / "landing" / "sales"
    landing.mkdir(parents=True)
    for day, text in zip(ARRIVALS, (FIRST_SALES, LATE_SALES)):
        (landing / f"arrival_date={day}.csv").write_text(text)


def planned(folder: Path, **environment: str) -> dict[str, Any]:
    wanted = ["--arrival-from", ARRIVALS[0], "--arrival-through", ARRIVALS[1], "--reason", "to be sure", "--json"]
    done = lakehouse_command(folder, "backfill", "plan", "sales", *wanted, **environment)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def commits(root: Path) -> int:
    """How many commits all tables of a lake have in all."""
    return sum(1 for _ in root.rglob("_delta_log/*.json"))


def rows(root: Path, table: str) -> list[str]:
    """A table's rows, whatever its files, without what names the runs that wrote it."""
    found = Table(str(root / table)).read()
    return (
        sorted(repr(sorted((name, row[name]) for name in row.keys() - OF_THE_RUN)) for row in found.to_pylist()) if found else []
    )


def _tag(run: dict[str, Any], name: str) -> str | None:
    return next((tag["value"] for tag in run["tags"] if tag["key"] == name), None)
