"""An empty lake; imports neither Spark nor Dagster."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.lake import Lake
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def lake_in(folder: Path) -> Lake:
    """An empty lake below ``folder``."""
    (folder / "landing").mkdir()
    now = datetime(2024, 3, 1, tzinfo=timezone.utc)
    # The session stays as the fixture made it: code that Spark generates for many rows takes seconds to compile.
    settings = Settings(root=str(folder / "lake"), landing=str(folder / "landing"), now=now, spark_profile="large")
    return Lake(settings).cached()  # as a command or a step has it


def without_retention(lake: Lake) -> Lake:
    """The lake without a retention period: removed files may be deleted at once."""
    lake.settings.retention_hours = 0
    return lake
