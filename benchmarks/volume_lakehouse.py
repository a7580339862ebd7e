"""The project's side of ``volume.py``: a replay of the two arrival days.

python benchmarks/volume_lakehouse.py LANDING ROOT DAYS [DAGSTER_YAML]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from volume_files import FIRST, HEAP, generate, timed

from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.orchestration.execution.in_process import local_instance
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import dagster as dg

    from lakehouse.contracts import Catalog

#: The contract of readings; its landing pattern and first days are filled in.
READINGS = """
dataset: readings
primary_key: [reading_id]
source: {{landing: "{folder}{{arrival_date}}/*.csv", format: csv, start_date: {start}}}
clocks: {{event: measured_at, arrival: received_at, start_date: {first}}}
model:
  fields:
    - {{name: reading_id, type: string, required: true}}
    - {{name: meter, type: string, required: true}}
    - {{name: region, type: string, required: true}}
    - {{name: kwh, type: "decimal(12,3)", required: true}}
    - {{name: price, type: "decimal(9,4)"}}
"""
_METRIC = """
metric: consumption
source: readings
grain: [region]
measures:
  - {name: kwh, sql: sum(kwh), type: "decimal(18,3)", additive: true}
  - {name: readings, sql: count(*), type: bigint, additive: true}
"""


def instance_in(home: Path, configuration: Path | None = None) -> dg.DagsterInstance:
    """A Dagster instance with the project's configuration or another one, as ``lakehouse replay`` opens it."""
    shutil.copy(configuration or Path(__file__).parents[1] / "dagster_home" / "dagster.yaml", home / "dagster.yaml")
    os.environ["DAGSTER_HOME"] = str(home)
    return local_instance(home)


def numbers_of(text: str, **defaults: int) -> argparse.Namespace:
    """The options of a benchmark, all of which are numbers.

    :param text: the benchmark's docstring.
    """
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args()


class FirstLoad(NamedTuple):
    """A lake into which nothing has been loaded yet, the files that are, and the day on which they arrive."""

    replay: Replay
    landing: Path
    arrival: date
    instance: dg.DagsterInstance


@contextmanager
def first_load(options: argparse.Namespace, without: str = "") -> Iterator[FirstLoad]:
    """Files of ``rows`` readings of ``days`` event days, and a new lake that takes them; both are deleted at the end.

    :param without: lines that the contract of the source lacks.
    """
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as home, instance_in(Path(home)) as instance:
        landing = Path(scratch, "landing")
        arrival, _ = generate(landing, options.rows, options.files, options.days, 1, 1)
        shutil.rmtree(landing / f"{arrival + timedelta(days=1)}")
        replay = replay_of(Path(scratch, "lake"), landing, arrival, instance, without)
        yield FirstLoad(replay, landing, arrival, instance)


def replay_of(root: Path, landing: Path, start: date, instance: dg.DagsterInstance, without: str = "") -> Replay:
    """A replay of readings that arrive from ``start`` on, into a new lake.

    :param without: lines that the contract of the source lacks.
    """
    readings = READINGS.format(folder="", start=start, first=FIRST).replace(without, "")
    lake, catalog = new_lake(root, landing, {"readings": readings, "consumption": _METRIC})
    return Replay(lake, catalog, "readings", instance)


def new_lake(root: Path, landing: Path, contracts: Mapping[str, str]) -> tuple[Lake, Catalog]:
    """The settings and the catalog of a lake with some contracts, given by the names of their files."""
    folder = root / "contracts"
    folder.mkdir(parents=True)
    for name, text in contracts.items():
        (folder / f"{name}.yaml").write_text(text)
    lake = Lake(Settings(root=str(root), landing=str(landing), contracts=folder, bundled_contracts=False, spark_memory=HEAP))
    return lake, load_catalog(folder, bundled=False)


def main() -> None:
    """Process the days, print the figures."""
    landing, root, *configuration = map(Path, (*sys.argv[1:3], *sys.argv[4:]))
    days = [date.fromisoformat(day) for day in sys.argv[3].split(",")]
    with tempfile.TemporaryDirectory() as home, instance_in(Path(home), *configuration) as instance:
        replay = replay_of(root, landing, days[0], instance)
        print(timed(lambda day: list(replay.days([day])), days), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
