"""``lakehouse repair``: find missing or truncated data files, and restore their rows from the layer below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import deployment, errors, out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def repair(
    check: Annotated[bool, typer.Option("--check", help="Only name the damaged files; exit code 1 if there are some.")] = False,  # noqa: FBT002
) -> None:
    """Restore the rows of missing or truncated data files: bronze from landing, silver from bronze, gold from its inputs."""
    from lakehouse.operations.maintenance import damaged_tables  # noqa: PLC0415 (Arrow and Spark load in seconds)

    settings, catalog = deployment()
    damaged = damaged_tables.find(settings, catalog)
    if check:
        for entry in damaged:
            out.print(f"{entry}", soft_wrap=True)
        if damaged:
            raise typer.Exit(1)
        out.print("No data file is missing or cut off.")
        return
    from lakehouse.cli.catch_up import is_behind, restate  # noqa: PLC0415
    from lakehouse.operations import repair as tables  # noqa: PLC0415
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415

    def session() -> SparkSession:
        return LakeSpark().session()

    failed = False
    count = 0
    for text, is_done in tables.repair(settings, catalog, session, "cli:repair"):
        (out if is_done else errors).print(text, style=None if is_done else "red", soft_wrap=True)
        failed, count = failed or not is_done, count + 1
    if not count:
        out.print("No data file is missing or cut off.")
    if failed:
        raise typer.Exit(1)
    for source in sorted(catalog.sources) if damaged else ():
        if is_behind(settings, catalog, source):
            restate(settings, catalog, source)
