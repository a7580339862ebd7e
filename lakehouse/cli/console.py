"""Where the command line prints, and which problems it reports without a stack trace."""

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


def KNOWN_PROBLEMS() -> tuple[type[Exception], ...]:  # noqa: N802 (used as a constant)
    """Problems whose text already says what happened, where, and what to do."""
    from lakehouse.bronze.manifests import ManifestProblem  # noqa: PLC0415
    from lakehouse.dispositions.row_rules import RuleError  # noqa: PLC0415
    from lakehouse.gold.numbers.served_version import MovedError, UnservedVersionError  # noqa: PLC0415
    from lakehouse.gold.numbers.version_selector import UnknownVersionError  # noqa: PLC0415
    from lakehouse.gold.publication.sign_off import HoldError  # noqa: PLC0415
    from lakehouse.gold.restatement.input_sets import UnknownInputsError  # noqa: PLC0415
    from lakehouse.ledger.key_log import IncompleteKeyLogError  # noqa: PLC0415
    from lakehouse.operations.backfills.log import UnknownPlanError  # noqa: PLC0415
    from lakehouse.operations.backfills.planner import PlanProblemError  # noqa: PLC0415
    from lakehouse.orchestration.common.backfill_lock import AtWorkError  # noqa: PLC0415
    from lakehouse.orchestration.execution.backfill_runner import CancelledError  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import RunFailedError  # noqa: PLC0415
    from lakehouse.orchestration.execution.webserver import WebserverError  # noqa: PLC0415
    from lakehouse.spark.commits import SchemaChangeError  # noqa: PLC0415
    from lakehouse.spark.jars import SetupProblem  # noqa: PLC0415
    from lakehouse.stewardship.decide import StewardError  # noqa: PLC0415

    asked = (UnknownVersionError, UnknownInputsError, HoldError, UnservedVersionError, MovedError)
    backfill = (ManifestProblem, UnknownPlanError, PlanProblemError, AtWorkError, CancelledError, WebserverError)
    return (*asked, *backfill, RunFailedError, IncompleteKeyLogError, SetupProblem, StewardError, RuleError, SchemaChangeError)
