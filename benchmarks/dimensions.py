"""A first load of readings whose number joins the tariff of their meter, against a job written by hand with the same join.

    python benchmarks/dimensions.py [--rows 1000000] [--meters 100000] [--days 200] [--side SIDE]

Each side has a process of its own (``dimensions_by_hand.py``, ``dimensions_lakehouse.py``) and the same heap; both load the
meters first. Prints one JSON object: seconds, their ratio, and whether the numbers are the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dimension_files import generate

_SIDES = {"by_hand": ("by_hand",), "by_hand_tuned": ("by_hand", "tuned"), "lakehouse": ("lakehouse",)}


def main() -> None:
    """Generate the files, run both sides, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"rows": 1_000_000, "meters": 100_000, "days": 200}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--side", choices=_SIDES, action="append", help="what to measure (default: all)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        landing = Path(scratch, "landing")
        load = generate(landing, arguments.rows, arguments.days, arguments.meters)
        figures: dict[str, Any] = {"rows": arguments.rows, "meters": arguments.meters}
        for side in arguments.side or _SIDES:
            name, *more = _SIDES[side]
            script = Path(__file__).with_name(f"dimensions_{name}.py")
            command = [sys.executable, str(script), str(landing), str(Path(scratch, side)), f"{load}", *more]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            figures[side] = json.loads(done.stdout.splitlines()[-1])
    totals = [figures[side].pop("totals") for side in _SIDES if side in figures]
    figures["same numbers"] = all(total == totals[0] for total in totals)
    for side in ("by_hand", "by_hand_tuned"):
        if {side, "lakehouse"} <= figures.keys():
            figures[f"ratio to {side}"] = round(figures["lakehouse"]["both"] / figures[side]["both"], 2)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
