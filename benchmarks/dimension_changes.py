"""What a late change of one key costs behind many days or facts, compared with few, in one process.

    python benchmarks/dimension_changes.py [--few ROWS,DAYS] [--many ROWS,DAYS] [--meters 20000] [--rounds 3]

The key has three facts on two days. After a warm-up, each round brings such a change to every lake in turn. Prints one JSON
object: seconds from the file to the published days, the ratio of the medians, and the days that were restated.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from dimension_files import WATCHED, generate, write_changes
from dimensions_lakehouse import replays_of
from volume_files import FIRST, seconds_of
from volume_lakehouse import instance_in


def main() -> None:
    """Load both lakes, bring the changes, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", default="100000,100")
    parser.add_argument("--many", default="100000,1000")
    parser.add_argument("--meters", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as home, instance_in(Path(home)) as instance:
        figures: dict[str, Any] = {}
        lakes = {}
        for size in ("few", "many"):
            rows, days = map(int, getattr(arguments, size).split(","))
            landing, root = Path(scratch, size, "landing"), Path(scratch, size, "lake")
            load = generate(landing, rows, days, arguments.meters)
            replays = replays_of(root, landing, load, instance)
            first = sum(seconds_of(lambda: list(replay.days([load]))) for replay in replays.values())  # noqa: B023
            figures[size] = {"rows": rows, "days": days, "first load": round(first, 1), "seconds": [], "days restated": []}
            lakes[size] = (landing, replays["meters"], load, days)
        for number, meter in enumerate(WATCHED[: arguments.rounds + 1]):
            for size, (landing, replay, load, days) in lakes.items():
                arrival, since = load + timedelta(days=1 + number), FIRST + timedelta(days=days // 2 - 1)
                write_changes(landing, arrival, [meter], ["special"], since)
                results: list[Any] = []
                seconds = seconds_of(lambda: results.extend(replay.days([arrival])))  # noqa: B023
                if number:
                    figures[size]["seconds"].append(seconds)
                    figures[size]["days restated"].append(len(results[0].restated["consumption"]))
        figures["ratio"] = round(median(figures["many"]["seconds"]) / median(figures["few"]["seconds"]), 2)
        print(json.dumps(figures, indent=1), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
