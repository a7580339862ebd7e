"""A medallion lakehouse that keeps history honest: late, corrected, moved and re-sent data, restated exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.orchestration.assets.metric_assets import final_key, restated_key
    from lakehouse.orchestration.build import LakehouseComponent, when_final, when_restated
    from lakehouse.orchestration.execution.single_run import SingleRun

__all__ = ["LakehouseComponent", "final_key", "restated_key", "run", "when_final", "when_restated"]


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


def __getattr__(name: str) -> Any:
    """What a Dagster project of a user's own imports; Dagster loads with it."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from lakehouse.orchestration import build  # noqa: PLC0415 (Dagster loads in seconds)

    return getattr(build, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
