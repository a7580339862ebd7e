"""The real history: where it lies, and what is true after each arrival day."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts import load_catalog

if TYPE_CHECKING:
    from lakehouse.lake import Lake

FOLDER = Path(os.environ.get("LAKEHOUSE_EARTHQUAKES", Path(__file__).parents[4] / "shared" / "data" / "earthquakes"))
BATCHES = FOLDER / "batches"

needs_earthquakes = pytest.mark.skipif(
    not BATCHES.is_dir(), reason=f"the real history is not at {FOLDER} (LAKEHOUSE_EARTHQUAKES names another folder)"
)


def true_digests() -> dict[date, str]:
    with (FOLDER / "truth_digest.csv").open() as file:
        return {date.fromisoformat(row["as_of"]): row["sha256"] for row in csv.DictReader(file)}


def true_daily() -> dict[date, dict[date, tuple[int, int, Decimal, Decimal | None]]]:
    """As-of date, event date: n_events, n_with_mag, sum_mag, max_mag."""
    truth: dict[date, dict[date, tuple[int, int, Decimal, Decimal | None]]] = {}
    with gzip.open(FOLDER / "truth_daily.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            numbers = (
                int(row["n_events"]),
                int(row["n_with_mag"]),
                Decimal(row["sum_mag"] or 0),
                Decimal(row["max_mag"]) if row["max_mag"] else None,
            )
            truth.setdefault(date.fromisoformat(row["as_of"]), {})[date.fromisoformat(row["event_date"])] = numbers
    return truth


def silver_digest(lake: Lake) -> str:
    """The digest of the published state, in the canonical form of the truth."""
    fields = [field.name for field in load_catalog(None).sources["earthquakes"].typed_fields if field.name != "event_id"]
    rows = locations.silver(lake, "earthquakes").read(fields)
    return digest([] if rows is None else [tuple(row.values()) for row in rows.to_pylist()])


def digest(rows: list[tuple[str | None, ...]]) -> str:
    lines = sorted("|".join(value or "" for value in row) for row in rows)
    return hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest()


def gold_daily(lake: Lake) -> dict[date, tuple[int, int, Decimal, Decimal | None]]:
    rows = lake.table("gold", "earthquakes_daily").read(None, {"is_latest": [True]})
    found = [] if rows is None else [row for row in rows.to_pylist() if row["row_count"]]
    return {row["event_date"]: (row["n_events"], row["n_with_mag"], row["sum_mag"], row["max_mag"]) for row in found}
