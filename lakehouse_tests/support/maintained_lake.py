"""A Silver table of many small files, written by delta-rs, and the maintenance of one table."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import publications
from lakehouse.ledger.publications import Restatement
from lakehouse.operations.maintain import Upkeep, maintain
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.lake import Lake

MONTH = 31 * 86400
TOTAL = metric()
CATALOG = Catalog({"events": contract()}, {"total": TOTAL})


def maintain_table(lake: Lake, name: str, catalog: Catalog = CATALOG, **options: Any) -> Upkeep:
    """Maintain one table."""
    [done] = maintain(lake, catalog, [name], **options)
    assert done.problem is None
    return done


def grow_old(folder: str | Path, seconds: float = MONTH) -> None:
    """Date files back."""
    for path in Path(folder).rglob("*"):
        os.utime(path, (time.time() - seconds,) * 2)


def files_of(lake: Lake, name: str) -> set[str]:
    """The data and change files below a table."""
    root = Path(lake.root, name)
    return {f"{path.relative_to(root)}" for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


def record_followed(lake: Lake, version: int, metric_name: str = "total") -> None:
    """Record that a metric has followed Silver through a version."""
    publications.record_restatement(lake, Restatement(metric_name, "run", lake.now(), version, 0, []))


def correct_in_silver(lake: Lake, key: str, amount: int) -> None:
    """One commit that changes a row, with a file of its own in the change feed."""
    DeltaTable(locations.silver(lake, "events").address).update({"amount": f"{amount}"}, predicate=f"record_key = '{key}'")


def changing_silver(lake: Lake) -> None:
    """Ten arrivals of one day, and two corrections: versions 0 to 11."""
    for number in range(10):
        append_to_silver(lake, (f"k{number}", 1, number))
    correct_in_silver(lake, "k1", 100)
    correct_in_silver(lake, "k2", 200)


def pending(lake: Lake) -> Any:
    found = find_pending(lake, Series(TOTAL))
    return found.causes, found.starts
