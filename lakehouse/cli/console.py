"""Where the command line prints, and what several commands print alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.settings import Settings

#: Names and keys are data: nothing in them is a smiley or a colour.
out = Console(highlight=False, emoji=False, markup=False)
errors = Console(stderr=True, emoji=False, markup=False)


def deployment(landing: Path | None = None) -> tuple[Settings, Catalog]:
    """The settings and all contracts."""
    from lakehouse.contracts import load_catalog  # noqa: PLC0415 (`--help` need not wait for it)
    from lakehouse.settings import Settings  # noqa: PLC0415

    settings = Settings() if landing is None else Settings(landing=str(landing))
    return settings, load_catalog(settings.contracts, bundled=settings.bundled_contracts)


def catalog_with(source: str, landing: Path | None = None) -> tuple[Settings, Catalog]:
    """The settings and the contracts, among them the one of ``source``.

    :raises typer.Exit: for a source that no contract describes.
    """
    settings, catalog = deployment(landing)
    if source not in catalog.sources:
        known = ", ".join(sorted(catalog.sources)) or "none"
        errors.print(f"No contract has 'dataset: {source}'; known are {known}.", style="red")
        raise typer.Exit(2)
    return settings, catalog


def counted(rows: int) -> str:
    """So many rows, in words."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def confirmed(contract: SourceContract, *, yes: bool) -> None:
    """Whether a source whose newest arrival replaces the whole table may be run.

    :raises typer.Exit: where that has not been said.
    """
    if contract.materialization.reprocess_policy == "overwrite_all" and not yes:
        errors.print(
            f"{contract.dataset} is kept under overwrite_all: its newest arrival replaces all of silver. Say --yes to do so.",
            style="red",
        )
        raise typer.Exit(2)
