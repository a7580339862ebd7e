"""``lakehouse rebuild``: rebuild a range of event days from Bronze, under the current code and contract."""

from __future__ import annotations

import getpass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import catalog_with, confirmed, out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    start_date: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First event day.")],
    end_date: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="Last event day.")],
    reason: Annotated[str, typer.Option(help="Why, for instance the bug that was fixed.")],
    runner_id: Annotated[str, typer.Option(help="Who requests it; default: the user's name.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
) -> None:
    """Evaluate the rows of these event days again and rebuild Silver; unchanged days cause no restatement."""
    from lakehouse.cli.catch_up import restate  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.delta import provenance  # noqa: PLC0415
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.silver import rebuild as silver_rebuild  # noqa: PLC0415
    from lakehouse.silver import repair as silver_repair  # noqa: PLC0415

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    if end_date < start_date:
        raise typer.BadParameter("--end-date is before --start-date")
    confirmed(contract, yes=yes)

    def session() -> SparkSession:
        return LakeSpark().session()

    if repaired := silver_repair.repair(settings, contract, session, "cli:rebuild"):
        days = "day, whose data files were" if len(repaired) == 1 else "days, whose data files were"
        out.print(f"silver/{source}: {len(repaired)} event {days} missing or cut off, made again from bronze.", soft_wrap=True)
    planned = silver_rebuild.plan_rebuild(
        settings,
        contract,
        session,
        start_date.date(),
        end_date.date(),
        reason=reason,
        runner_id=runner_id or getpass.getuser(),
    )
    if not planned.days:
        out.print(f"bronze/{source} contains no event day from {start_date:%Y-%m-%d} through {end_date:%Y-%m-%d}; nothing to do.")
        return
    now = provenance.stamp(contract)
    out.print(f"{len(planned.days)} event days are rebuilt, {planned.rows_judged_otherwise:,} rows are judged differently.")
    out.print(f"code: {planned.before['code'] or 'unknown'} before, {now['code']} now", soft_wrap=True)
    out.print(f"contract: {planned.before['contract'] or 'unknown'} before, {now['contract']} now", soft_wrap=True)
    restate(settings, catalog, source)
