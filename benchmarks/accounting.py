"""What the audit and the dispositions add to an arrival day, as a share of the rest, in one run; and what stewards wait for.

    python benchmarks/accounting.py DATA [--days 30]

DATA is the folder of the earthquake history (with ``batches``), kept with a quarantine beyond seven days. The functions that
write the books, hold the dispositions against silver and follow with the audit are timed where they are called.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from lakehouse.contracts import load_catalog
from lakehouse.contracts.loader import bundled_folder
from lakehouse.dispositions import account_tables
from lakehouse.dispositions import checks as dispositions_checks
from lakehouse.lake import Lake
from lakehouse.ledger.ids import format_row_id, row_id_of
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings
from lakehouse.silver import audit
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter

FIRST = date(2018, 1, 1)
WARM_UP = 10
TIMED = {
    "books": (account_tables, "after_ingestions"),
    "dispositions check": (dispositions_checks, "check_dispositions"),
    "audit": (audit, "follow"),
}


def main() -> None:
    """Replay, and print the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        contracts = Path(scratch, "contracts")
        contracts.mkdir()
        said = yaml.safe_load((bundled_folder() / "earthquakes.yaml").read_text())
        said["lateness"] = {"watermark": "P7D", "beyond": "quarantine"}
        (contracts / "earthquakes.yaml").write_text(yaml.safe_dump(said))
        environment = {"LAKEHOUSE_ROOT": f"{scratch}/lake", "LAKEHOUSE_LANDING": f"{arguments.data / 'batches'}"}
        environment["LAKEHOUSE_CONTRACTS"] = str(contracts)
        os.environ |= environment
        figures = {"arrival day": _replayed(arguments.days), "steward, seconds a command": _steward(Lake(Settings()))}
    print(json.dumps(figures, indent=1))
    sys.stdout.flush()
    os._exit(0)


def _replayed(days: int) -> dict[str, Any]:
    spent: dict[str, float] = defaultdict(float)
    for name, (module, function) in TIMED.items():
        setattr(module, function, _timed(getattr(module, function), spent, name))
    lake = Lake(Settings())
    rows = []
    with dg.DagsterInstance.ephemeral() as instance:
        replay = Replay(lake, load_catalog(lake.settings.contracts), "earthquakes", instance)
        for number in range(days):
            spent.clear()
            start = time.perf_counter()
            list(replay.days([FIRST + timedelta(days=number)]))
            if number >= WARM_UP:
                rows.append({"seconds": time.perf_counter() - start, **spent})
    whole = statistics.median(row["seconds"] for row in rows)
    parts = {name: statistics.median(row.get(name, 0.0) for row in rows) for name in TIMED}
    share = statistics.median(sum(row.get(name, 0.0) for name in TIMED) for row in rows)
    return {
        "seconds": round(whole, 3),
        **{name: round(seconds, 3) for name, seconds in parts.items()},
        "added to the rest": round(share / (whole - share), 3),
    }


def _timed(function: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[name] += time.perf_counter() - start

    return wrapper


def _steward(lake: Lake) -> dict[str, float]:
    contract = load_catalog(lake.settings.contracts).sources["earthquakes"]
    entry = quarantine.entries(lake, contract, QuarantineFilter())[-1]
    row = format_row_id(row_id_of(entry))
    signed = ["--by", "bench", "--reason", "measured"]
    commands = {
        "list": ["quarantine", "list", "earthquakes"],
        "show": ["quarantine", "show", "earthquakes", row],
        "accept": ["quarantine", "accept", "earthquakes", row, *signed, "--no-restate"],
        "reject": ["quarantine", "reject", "earthquakes", row, *signed, "--no-restate"],
        "redact": ["redact", "earthquakes", "--key", entry["record_key"], "--fields", "place", *signed, "--no-restate"],
        "audit": ["audit", "earthquakes", "--key", entry["record_key"]],
        "account": ["account", "earthquakes", "--arrival-date", f"{entry['arrival_date']}"],
        "trace": ["trace", "earthquakes", entry["record_key"]],
    }
    figures = {}
    for name, command in commands.items():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lakehouse", *command], check=True, capture_output=True)
        figures[name] = round(time.perf_counter() - start, 2)
    return figures


if __name__ == "__main__":
    main()
