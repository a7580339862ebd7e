"""``lakehouse view``: print the query of a view with the newest row of each key, for sources kept under ``append``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from lakehouse.cli.console import catalog_with, out


class Engine(str, Enum):
    """The engine that runs the query."""

    duckdb = "duckdb"
    spark = "spark"


def view(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    engine: Annotated[Engine, typer.Option(help="The SQL dialect.")] = Engine.duckdb,
) -> None:
    """Print a SELECT over silver with one row per key: the newest."""
    from lakehouse.silver import merge as silver_merge  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    out.print(silver_merge.deduplicated(settings, catalog.sources[source], engine.value), soft_wrap=True)
