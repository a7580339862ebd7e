"""A stage of late rows against the same rows taken live, in one process over the same lake.

    python benchmarks/stages.py [--rows 1000000] [--files 4] [--days 200] [--late 10000] [--late-days 30]

After a first load, the late rows of a file are staged, and then taken by the live tables; three times, each with rows and days of
its own, with Spark running already. Prints one JSON object: seconds and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from volume_files import generate, seconds_of, write_readings
from volume_lakehouse import instance_in, replay_of

from lakehouse.orchestration.common.resources import LakeSpark
from lakehouse.stages import staging
from lakehouse.stages.staging import StageRequest

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.orchestration.execution.replay import Replay

_ROUNDS = 3


def compared(replay: Replay, feed: Path, landing: Path, arrival: date, name: str) -> dict[str, float]:
    """Stage the files of a folder, then take them live."""
    request = StageRequest(name, "readings", "anna", "benchmark", files=[feed])
    settings, catalog = replay._settings, replay._catalog
    session = LakeSpark(long_lived=True).session
    staged = seconds_of(lambda: staging.create(settings, catalog, session, request, "run"))
    (feed / f"{arrival}").rename(landing / f"{arrival}")
    live = seconds_of(lambda: list(replay.days([arrival])))
    return {"stage": staged, "live": live, "ratio": round(staged / live, 2)}


def main() -> None:
    """Load, stage and take the late rows, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"rows": 1_000_000, "files": 4, "days": 200, "late": 10_000, "late-days": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as home, instance_in(Path(home)) as instance:
        landing, root = Path(scratch, "landing"), Path(scratch, "lake")
        load, _ = generate(landing, arguments.rows, arguments.files, arguments.days, 1, 1)
        shutil.rmtree(landing / f"{load + timedelta(days=1)}")
        replay = replay_of(root, landing, load, instance)
        figures: dict[str, Any] = {"first load": seconds_of(lambda: list(replay.days([load])))}
        rng = np.random.default_rng(11)
        for number in range(1, _ROUNDS + 1):
            arrival, feed = load + timedelta(days=number), Path(scratch, f"feed{number}")
            days = np.sort(rng.choice(arguments.days, size=arguments.late_days, replace=False))
            file = feed / f"{arrival}" / "late.csv"
            write_readings(file, rng, arguments.rows * (number + 1), arguments.late, days, arrival)
            figures[f"round {number}"] = compared(replay, feed, landing, arrival, f"stage{number}")
        print(json.dumps(figures, indent=1), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
