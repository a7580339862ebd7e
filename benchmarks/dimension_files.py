"""The files of ``dimensions.py`` and ``dimension_changes.py``: readings, and the tariffs of their meters, from a fixed seed.

Readings are in ``readings/DAY``, changes of meters in ``meters/DAY``.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from volume_files import FIRST, write_readings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TARIFFS = np.array(["day", "night", "flat", "green"])
#: Each has three readings on two days.
WATCHED = [f"watched{number}" for number in range(8)]


def generate(landing: Path, rows: int, days: int, meters: int, files: int = 4) -> date:
    """Write the readings of one arrival day, and one change of a tariff for each meter on it; returns the day."""
    load, rng = FIRST + timedelta(days=days), np.random.default_rng(7)
    folder = landing / "readings" / f"{load}"
    for number in range(files):
        file, first = folder / f"readings_{number:03}.csv", number * (rows // files)
        write_readings(file, rng, first, rows // files, np.arange(days), load, meters)
    lines = ["reading_id,meter,region,kwh,price,measured_at,received_at"]
    for meter in WATCHED:
        for number, day in enumerate((days // 2, days // 2, days // 2 + 1)):
            at = f"{FIRST + timedelta(days=day)}T0{number}:00:00Z"
            lines.append(f"{meter}{number},{meter},north,1.000,0.1000,{at},{load}T20:00:00Z")
    (folder / "watched.csv").write_text("\n".join(lines) + "\n")
    names = [*(f"m{meter:05}" for meter in range(meters)), *WATCHED]
    write_changes(landing, load, names, rng.choice(_TARIFFS, size=len(names)), FIRST)
    return load


def write_changes(landing: Path, arrival: date, meters: Sequence[str], tariffs: Sequence[str], since: date) -> None:
    """Write a file of changes of tariffs that hold since the beginning of a day."""
    folder = landing / "meters" / f"{arrival}"
    folder.mkdir(parents=True, exist_ok=True)
    columns = {
        "meter_id": pa.array(meters),
        "tariff": pa.array([f"{tariff}" for tariff in tariffs]),
        "changed_at": pa.array([f"{since}T00:00:00Z"] * len(meters)),
        "received_at": pa.array([f"{arrival}T10:00:00Z"] * len(meters)),
    }
    pa_csv.write_csv(pa.table(columns), folder / "meters.csv", pa_csv.WriteOptions(quoting_style="none"))
