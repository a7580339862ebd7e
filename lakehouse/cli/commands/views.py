"""``lakehouse views``: write the statements that create SQL views of the tables; ``view`` prints one of the queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lakehouse.cli.console import catalog_with, deployment, errors, out

_HEAD = "-- Written by 'lakehouse views'; run it again after the contracts change."


def views(
    to: Annotated[Path | None, typer.Option(help="The folder to write to; default: 'views' next to the tables.")] = None,
) -> None:
    """Write SQL files that create views in DuckDB and Spark: NAME_latest, NAME_final, NAME_asof(time), SOURCE_newest.

    For a dimension: SOURCE_current and SOURCE_valid_at(time).
    """
    from lakehouse.serving import sql_views  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = deployment()
    if to is None and "://" in settings.root:
        msg = f"the tables are in {settings.root}: name a local folder with --to"
        raise typer.BadParameter(msg)
    folder = to or Path(settings.root, "views")
    folder.mkdir(parents=True, exist_ok=True)
    for dialect in sql_views.Dialect:
        lines = sql_views.statements(settings, catalog, dialect)
        file = folder / f"{dialect.value}.sql"
        file.write_text("\n".join([_HEAD, *lines, ""]), "utf-8")
        count = len(lines) - len(sql_views.PREAMBLE[dialect])
        out.print(f"{file}: {count:,} {'view' if count == 1 else 'views'}", soft_wrap=True)


def view(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    engine: Annotated[Literal["duckdb", "spark"], typer.Option(help="The SQL dialect.")] = "duckdb",
) -> None:
    """Deprecated: print the query of the view SOURCE_newest that 'lakehouse views' writes."""
    from lakehouse.serving import sql_views  # noqa: PLC0415

    errors.print("'lakehouse view' is deprecated: 'lakehouse views' writes the view SOURCE_newest.", style="yellow")
    settings, catalog = catalog_with(source)
    out.print(sql_views.newest_rows(settings, catalog.sources[source], sql_views.Dialect(engine)), soft_wrap=True)
