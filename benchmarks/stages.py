"""A stage of late rows against the same rows taken live, in one process over the same lake.

    python benchmarks/stages.py [--rows 1000000] [--files 4] [--days 200] [--late 10000] [--late-days 30]

After a first load, the late rows of a file are staged, and then taken by the live tables; three times, each with rows and days of
its own, with Spark running already. Prints one JSON object: seconds and their ratio.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from volume_files import seconds_of, write_readings
from volume_lakehouse import first_load, numbers_of

from lakehouse.orchestration.resources import LakeSpark
from lakehouse.stages import staging
from lakehouse.stages.staging import StageRequest

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from lakehouse.orchestration.execution.replay import Replay

_ROUNDS = 3


def compared(replay: Replay, feed: Path, landing: Path, arrival: date, name: str) -> dict[str, float]:
    """Stage the files of a folder, then take them live."""
    request = StageRequest(name, "readings", "anna", "benchmark", files=[feed])
    lake, catalog = replay._lake, replay._catalog
    session = LakeSpark(long_lived=True).session
    staged = seconds_of(lambda: staging.create(lake, catalog, session, request, "run"))
    (feed / f"{arrival}").rename(landing / f"{arrival}")
    live = seconds_of(lambda: list(replay.days([arrival])))
    return {"stage": staged, "live": live, "ratio": round(staged / live, 2)}


def main() -> None:
    """Load, stage and take the late rows, print the figures."""
    options = numbers_of(__doc__, rows=1_000_000, files=4, days=200, late=10_000, late_days=30)
    with first_load(options) as (replay, landing, load, _):
        figures: dict[str, Any] = {"first load": seconds_of(lambda: list(replay.days([load])))}
        rng = np.random.default_rng(11)
        for number in range(1, _ROUNDS + 1):
            arrival, feed = load + timedelta(days=number), landing.parent / f"feed{number}"
            days = np.sort(rng.choice(options.days, size=options.late_days, replace=False))
            file = feed / f"{arrival}" / "late.csv"
            write_readings(file, rng, options.rows * (number + 1), options.late, days, arrival)
            figures[f"round {number}"] = compared(replay, feed, landing, arrival, f"stage{number}")
        print(json.dumps(figures, indent=1), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
