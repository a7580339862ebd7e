"""A medallion lakehouse that keeps history honest: late, corrected, moved and re-sent data, restated exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.orchestration.execution.single_run import SingleRun


def run(contract: str | Path, files: Iterable[str | Path]) -> SingleRun:
    """Ingest files that arrive today and update all numbers, as ``lakehouse run`` does; many rows and some measures start Spark.

    The files are one delivery. Settings are read from the environment, see ``docs/settings.md``.

    :param contract: the source's contract file, or the name of its dataset.
    :returns: the number of rows that arrived, the outcome of each event day, and each number that changed.
    :raises LakehouseError: one of its subclasses, with a sentence that says what happened and what to do.
    """
    from lakehouse.orchestration.execution import single_run  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.project import delivery  # noqa: PLC0415

    meant = delivery.deployed_source(contract)
    return single_run.run_files(meant.lake, meant.catalog, meant.dataset, [Path(file) for file in files])
