"""Published days made again by this process against the same by tasks of Spark, in one process over the same lake.

    python benchmarks/reproduction.py [--rows 1000000] [--files 4] [--days 200]

A day has about ``rows / days`` rows. Prints one JSON object: seconds for each of some days and the ratio of their medians.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from statistics import median

from volume_files import FIRST, seconds_of
from volume_lakehouse import first_load, numbers_of

from lakehouse.contracts.series import Series
from lakehouse.gold.reproduction import reproduce
from lakehouse.orchestration.resources import LakeSpark

_DAYS = 5


def main() -> None:
    """Load, make some days again in both ways, print the figures."""
    options = numbers_of(__doc__, rows=1_000_000, files=4, days=200)
    with first_load(options) as (replay, _, arrival, _):
        list(replay.days([arrival]))
        lake, catalog = replay._lake, replay._catalog
        series, session = Series(catalog.metrics["consumption"]), LakeSpark(long_lived=True).session
        days = [FIRST + timedelta(days=number) for number in range(1, _DAYS + 1)]
        seconds: dict[str, list[float]] = {}
        for way, local_rows in {"by tasks": 0, "in this process": lake.settings.local_rows}.items():
            sized = lake.with_settings(local_rows=local_rows)
            seconds[way] = [
                seconds_of(lambda: _made_again(reproduce.reproduce(sized, catalog, series, day, 1, session)))  # noqa: B023
                for day in days
            ]
        ratio = median(seconds["in this process"]) / median(seconds["by tasks"])
        print(json.dumps({**seconds, "ratio": round(ratio, 2)}, indent=1), flush=True)
    os._exit(0)


def _made_again(made: reproduce.Reproduced) -> None:
    assert made.equal, made.differences


if __name__ == "__main__":
    main()
