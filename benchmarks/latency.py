"""How long from a file landing to the corrected number, in a deployment that nobody touches; and where the seconds go.

python benchmarks/latency.py [--files 7] [--remote sc://127.0.0.1:15002]

Starts ``dagster dev`` on a folder of its own, drops one late file after another, and reads from Dagster's own records when
each run was asked for, started and ended. With ``--remote`` runs use that Spark Connect server ('lakehouse admin spark start').
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from statistics import median

import dagster as dg

from lakehouse.lake import Table
from lakehouse.settings import Settings
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.sales_files import FIRST_SALES, SALES_HEADER

LAYERS = ("bronze/sales", "silver/sales", "gold/revenue")
SALE = "late{number},south,2024-11-02T18:00:00Z,5.00,3,{day}T06:00:00Z,insert,0,\n"
POLL_SECONDS = 0.2


def main() -> None:
    """Print the medians of the whole way and of its parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=7)
    parser.add_argument("--remote", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = {"LAKEHOUSE_SPARK_REMOTE": options.remote} if options.remote else {}
        for name in ("sensor_seconds", "settle_seconds"):  # tests have their own
            own[f"LAKEHOUSE_{name.upper()}"] = f"{Settings.model_fields[name].default}"
        deployment = Deployment(Path(folder), PYTHONDONTWRITEBYTECODE="", **own)
        os.environ["DAGSTER_HOME"] = str(deployment.home)  # its dagster.yaml names it
        landing = deployment.root / "landing" / "sales"
        landing.mkdir(parents=True)
        (landing / "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
        with deployment.running():
            deployment.until(lambda: revenue(deployment) is not None, 600, "the first numbers")
            quiet(deployment)
            parts = [one_file(deployment, landing, number) for number in range(1, options.files + 1)]
    print(f"medians of {len(parts)} files, {'Spark Connect' if options.remote else 'a session of its own for each run'}")
    for name in parts[0]:
        print(f"{name:<42} {median(part[name] for part in parts):6.1f} s")


def one_file(deployment: Deployment, landing: Path, number: int) -> dict[str, float]:
    """Drop a late file; gives the seconds of each part of the way."""
    known = {run["runId"] for run in deployment.runs()}
    before = revenue(deployment)
    day = date(2024, 11, 5) + timedelta(days=number)
    dropped = time.time()
    (landing / f"arrival_date={day}.csv").write_text(SALES_HEADER + SALE.format(number=number, day=day))
    while revenue(deployment) == before:
        time.sleep(POLL_SECONDS)
    shown = time.time()
    quiet(deployment)
    with dg.DagsterInstance.from_config(str(deployment.home)) as instance:
        records = [one for one in instance.get_run_records(limit=50) if one.dagster_run.run_id not in known]
    parts: dict[str, float] = {}
    since = dropped
    for layer in LAYERS:
        [record] = [one for one in records if {key.to_user_string() for key in one.dagster_run.asset_selection or ()} == {layer}]
        asked, started, ended = record.create_timestamp.timestamp(), record.start_time or 0.0, record.end_time or 0.0
        parts[f"until a run of {layer} is asked for"] = asked - since
        parts[f"until it starts ({layer})"] = started - asked
        parts[f"{layer} runs"] = ended - started
        since = ended
    parts["the whole way"] = shown - dropped
    return parts


def revenue(deployment: Deployment) -> object:
    """The number of the day that late files concern."""
    where = {"is_latest": [True], "event_date": [date(2024, 11, 2)]}
    found = Table(str(deployment.root / "gold" / "revenue")).read(["revenue"], where)
    return found["revenue"][0].as_py() if found is not None and len(found) else None


def quiet(deployment: Deployment) -> None:
    """Wait until no run is under way."""
    over = {"SUCCESS", "FAILURE", "CANCELED"}
    deployment.until(lambda: all(run["status"] in over for run in deployment.runs()), 300, "quiet")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
