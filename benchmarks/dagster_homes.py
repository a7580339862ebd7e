"""What a first load and a file of late rows cost with other Dagster homes than the project's, as ratios.

    python benchmarks/dagster_homes.py [--rows 1000000] [--days 200] [--late 10000] [--late-days 30] [--rounds 2]

The homes are an empty one, Dagster's own Postgres storage, and ``dagster-postgres.yaml`` of this project. Each load is a process
of its own; the homes take turns, and the fastest of each counts. It needs Debian's package ``postgresql``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from volume_files import generate
from volume_lakehouse import numbers_of

from lakehouse_tests.support.postgres_server import postgres_server

HOMES = Path(__file__).parents[1] / "dagster_home"
_STEPS = ("first load", "late rows")


def main() -> None:
    """Print the seconds of each home, and their ratios to the project's."""
    options = numbers_of(__doc__ or "", rows=1_000_000, files=4, days=200, late=10_000, late_days=30, rounds=2)
    fastest: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, postgres_server() as address:
        scratch = Path(folder)
        landing = scratch / "landing"
        days = generate(landing, options.rows, options.files, options.days, options.late, options.late_days)
        homes = {
            "the project's": HOMES / "dagster.yaml",
            "empty": written(scratch / "empty.yaml", {}),
            "Postgres": written(scratch / "postgres.yaml", {"storage": {"postgres": {"postgres_url": address}}}),
            "dagster-postgres.yaml": HOMES / "dagster-postgres.yaml",
        }
        environment = os.environ | {"LAKEHOUSE_DAGSTER_POSTGRES": address}
        for number in range(options.rounds):
            for name, configuration in homes.items():
                root = scratch / f"{name} {number}"
                command = [sys.executable, str(Path(__file__).with_name("volume_lakehouse.py")), str(landing), str(root)]
                command += [",".join(map(str, days)), str(configuration)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
                seconds = json.loads(done.stdout.splitlines()[-1])
                print(f"{name}: {seconds}", file=sys.stderr, flush=True)
                kept = fastest.setdefault(name, seconds)
                fastest[name] = {step: min(kept[step], seconds[step]) for step in _STEPS}
    print("| home | first load, s | ratio | late rows, s | ratio |\n| --- | --- | --- | --- | --- |")
    for name, seconds in fastest.items():
        cells = [f"{seconds[step]} | {seconds[step] / fastest[next(iter(fastest))][step]:.2f}" for step in _STEPS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def written(path: Path, configuration: dict[str, object]) -> Path:
    """The file of a configuration."""
    path.write_text(yaml.safe_dump(configuration) if configuration else "")
    return path


if __name__ == "__main__":
    main()
