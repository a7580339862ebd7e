"""A first load of many rows and a file of late ones against a job written by hand, in one run over the same files.

    python benchmarks/volume.py [--rows 1000000] [--files 4] [--days 200] [--late 10000] [--late-days 30] [--side SIDE]

Each side has a process of its own (``volume_by_hand.py`` with Delta's defaults, tuned for two cores, and also without partitions;
``volume_lakehouse.py``)
and the same heap. Prints one JSON object: seconds and their ratios, the largest resident memory of each Python process, and files
and bytes of each layer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from volume_files import generate

#: The script and its further arguments, of each side.
_SIDES = {
    "by_hand": ("by_hand",),
    "by_hand_tuned": ("by_hand", "tuned"),
    "by_hand_unpartitioned": ("by_hand", "tuned", "unpartitioned"),
    "lakehouse": ("lakehouse",),
}


def sizes(root: Path) -> dict[str, str]:
    """Files and megabytes of each layer."""
    layers = {}
    for layer in sorted(folder for folder in root.iterdir() if folder.is_dir() and folder.name != "contracts"):
        files = [file for file in layer.rglob("*") if file.is_file()]
        layers[layer.name] = f"{len(files):,} files, {sum(file.stat().st_size for file in files) / 1e6:,.1f} MB"
    return layers


def main() -> None:
    """Generate the files, run both sides, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"rows": 1_000_000, "files": 4, "days": 200, "late": 10_000, "late-days": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--side", choices=_SIDES, action="append", help="what to measure (default: all)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        landing, start = Path(scratch, "landing"), time.perf_counter()
        days = generate(landing, arguments.rows, arguments.files, arguments.days, arguments.late, arguments.late_days)
        figures: dict[str, Any] = {"rows": arguments.rows, "files": arguments.files}
        figures["generated_seconds"] = round(time.perf_counter() - start, 1)
        for side in arguments.side or _SIDES:
            root = Path(scratch, side)
            name, *more = _SIDES[side]
            script = Path(__file__).with_name(f"volume_{name}.py")
            command = [sys.executable, str(script), str(landing), str(root), ",".join(map(str, days)), *more]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            figures[side] = json.loads(done.stdout.splitlines()[-1]) | sizes(root)
    for side in [*_SIDES][:3]:
        if {side, "lakehouse"} <= figures.keys():
            works = ("first load", "late rows")
            figures[f"ratio to {side}"] = {work: round(figures["lakehouse"][work] / figures[side][work], 2) for work in works}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
