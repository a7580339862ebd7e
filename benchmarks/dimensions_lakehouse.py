"""The project's side of ``dimensions.py``: a replay of the meters, then of the readings.

python benchmarks/dimensions_lakehouse.py LANDING ROOT DAY
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from volume_files import FIRST, seconds_of
from volume_lakehouse import READINGS, instance_in, new_lake

from lakehouse.lake import Table
from lakehouse.orchestration.execution.replay import Replay

if TYPE_CHECKING:
    import dagster as dg

_METERS = """
dataset: meters
kind: dimension
primary_key: [meter_id]
source: {{landing: "meters/{{arrival_date}}/*.csv", format: csv, start_date: {start}}}
clocks: {{event: changed_at, arrival: received_at, start_date: {first}}}
model:
  fields:
    - {{name: meter_id, type: string, required: true}}
    - {{name: tariff, type: string, required: true}}
"""
_METRIC = """
metric: consumption
source: readings
joins: [{dimension: meters, on: meter, columns: [tariff]}]
grain: [tariff]
measures:
  - {name: kwh, sql: sum(kwh), type: "decimal(18,3)", additive: true}
  - {name: readings, sql: count(*), type: bigint, additive: true}
"""


def replays_of(root: Path, landing: Path, start: date, instance: dg.DagsterInstance) -> dict[str, Replay]:
    """Replays of the meters and the readings, in this order, into a new lake."""
    contracts = {
        "readings": READINGS.format(folder="readings/", start=start, first=FIRST),
        "meters": _METERS.format(start=start, first=FIRST),
        "consumption": _METRIC,
    }
    lake, catalog = new_lake(root, landing, contracts)
    return {source: Replay(lake, catalog, source, instance) for source in ("meters", "readings")}


def readings_by_tariff(root: Path) -> list[list[object]]:
    """How many readings the published numbers have by tariff."""
    table = Table(f"{root / 'gold' / 'consumption'}").read(["tariff", "readings", "is_latest"])
    assert table is not None
    totals: Counter[str] = Counter()
    for row in table.filter(table["is_latest"]).to_pylist():
        totals[row["tariff"]] += row["readings"]
    return sorted(map(list, totals.items()))


def main() -> None:
    """Process the day, print the figures."""
    landing, root, load = Path(sys.argv[1]), Path(sys.argv[2]), date.fromisoformat(sys.argv[3])
    with tempfile.TemporaryDirectory() as home, instance_in(Path(home)) as instance:
        replays = replays_of(root, landing, load, instance)
        seconds = {source: seconds_of(lambda: list(replay.days([load]))) for source, replay in replays.items()}  # noqa: B023
        seconds["both"] = round(sum(seconds.values()), 1)
        print(json.dumps(seconds | {"totals": readings_by_tariff(root)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
