"""``lakehouse stage``: compute a changed input separately from the tables, preview its effect, then promote, undo or drop it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, deployment, end_of_update, errors, out
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts import MetricContract, SourceContract


app = typer.Typer(
    help="Changed inputs in copies of the tables: create, list, show, refresh, promote, undo, drop.", no_args_is_help=True
)

_SHOWN = 8
_Name = Annotated[str, typer.Argument(help="The stage, such as partner_feed_2024-11-10.")]
_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]


@dataclass(frozen=True)
class ChangedInput:
    """What a stage changes; one of the three."""

    files: Annotated[
        list[Path] | None, typer.Option("--file", help="A file, or a folder of files of the source; may be repeated.")
    ] = None
    reparse: Annotated[bool, typer.Option("--reparse", help="Read the records of Bronze again, under today's contract.")] = False
    contract: Annotated[Path | None, typer.Option(help="A changed contract of the source, or of one of its metrics.")] = None


@dataclass(frozen=True)
class StageJudgement:
    """When a stage needs a sign-off, and which rows it shows."""

    day_threshold: Annotated[
        float, typer.Option(help="How far, in percent, a measure of a day may move without a sign-off.", min=0)
    ] = 50
    set_threshold: Annotated[
        float, typer.Option(help="How far, in percent, a measure of all changed days together may move.", min=0)
    ] = 10
    seed: Annotated[int, typer.Option(help="Chooses the sampled rows.")] = 0


@app.command()
@arguments.with_groups
def create(
    name: _Name,
    source: _Source,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    changed: ChangedInput,
    arrivals: arguments.ArrivalDays,
    judged: StageJudgement,
) -> None:
    """Compute a changed input into a side version of silver and gold that readers do not see. Starts Spark."""
    from decimal import Decimal  # noqa: PLC0415

    from lakehouse.cli.stage_report import print_report  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stages import staging  # noqa: PLC0415
    from lakehouse.stages.stage_log import StageKind  # noqa: PLC0415

    if sum(map(bool, (changed.files, changed.reparse, changed.contract))) != 1:
        msg = "--file, --reparse and --contract each say what is staged: use one of them"
        raise typer.BadParameter(msg)
    lake, catalog = catalog_with(source)
    first, last = arrivals.days
    request = staging.StageRequest(
        name=name,
        source=source,
        by=by,
        reason=reason,
        kind=StageKind.FILES if changed.files else StageKind.REPARSE if changed.reparse else StageKind.CONTRACT,
        files=changed.files or (),
        contract=None if changed.contract is None else _contract_of(source, changed.contract, catalog.sources),
        first=first,
        last=last,
        day_threshold=Decimal(f"{judged.day_threshold:g}"),
        set_threshold=Decimal(f"{judged.set_threshold:g}"),
        seed=judged.seed,
    )
    with errors.status("computing the stage in copies of the tables"):
        made = staging.create(lake, catalog, _session, request, f"cli:{by}")
    print_report(made)


@app.command("list")
def list_(
    source: Annotated[str, typer.Argument(help="Only the stages of this dataset.")] = "",
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the stages, oldest first."""
    from lakehouse.cli.stage_report import as_json_text, line  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stages import stage_log  # noqa: PLC0415

    lake, _ = deployment()
    stages = stage_log.all_of(lake, source or None)
    for stage in stages:
        out.print(as_json_text(stage) if as_json else line(stage), soft_wrap=True)
    if not stages and not as_json:
        out.print("There is no stage.")


@app.command()
def show(name: _Name, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show what a stage would change, or has changed: rows, numbers, longer periods, consumers, and exceeded thresholds."""
    from lakehouse.cli.stage_report import as_json_text, print_report  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stages import promotion_rules, stage_log  # noqa: PLC0415
    from lakehouse.stages.stage_log import StageEventKind  # noqa: PLC0415

    lake, _ = deployment()
    stage = stage_log.find(lake, name)
    if as_json:
        out.print(as_json_text(stage, whole=True), soft_wrap=True)
        return
    print_report(stage)
    if stage.state is StageEventKind.CREATED and promotion_rules.is_outdated(lake, stage):
        text = (
            f"silver/{stage.source} has changed since: 'lakehouse stage refresh {name}' computes it again; a promotion does too."
        )
        out.print(text, style="yellow", soft_wrap=True)


@app.command()
def refresh(name: _Name, by: arguments.DoneBy) -> None:
    """Recompute a stage against the present tables and contracts. Starts Spark."""
    from lakehouse.cli.stage_report import print_report  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stages import staging  # noqa: PLC0415

    lake, catalog = deployment()
    with errors.status("computing the stage in copies of the tables"):
        stage = staging.refresh(lake, catalog, _session, name, by, f"cli:{by}")
    print_report(stage)


@app.command()
def promote(
    name: _Name,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    sign_off: Annotated[str | None, typer.Option(help="Why exceeded thresholds and failed checks are accepted.")] = None,
) -> None:
    """Promote a stage to readers, in one step per table. The same command continues a stopped promotion."""
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415
    from lakehouse.orchestration.execution.stage_promotion import StagePromotion  # noqa: PLC0415

    lake, catalog = deployment()
    lake = lake.with_settings(spark_long_lived=True).cached()
    with errors.status(f"promoting {name}"), local_instance() as instance:
        done = StagePromotion(lake, catalog, instance, _session).promote(name, by, reason, sign_off)
    out.print(f"The stage {name} is promoted by {by}: {reason}", soft_wrap=True)
    out.print(f"silver/{done.stage.source}: {_listed(done.silver_days) or 'no day'} brought up to date.", soft_wrap=True)
    for series, starts in done.restated.items():
        out.print(f"gold/{series}: {_listed(starts) or 'no period'} published again.", soft_wrap=True)
    out.print(f"'lakehouse stage undo {name}' puts the numbers back.", soft_wrap=True)
    end_of_update(done.failed_checks)


@app.command()
def undo(
    name: _Name,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    restate: Annotated[bool, typer.Option("--restate", help="Update roll-ups now (may start Spark).")] = False,  # noqa: FBT002
) -> None:
    """Restore the numbers from before a stage, as new revisions; silver keeps its rows."""
    from lakehouse.cli.undo_report import print_undone  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.stages import promotion_rules, stage_log  # noqa: PLC0415

    lake, catalog = deployment()
    stage = stage_log.find(lake, name)
    done = promotion_rules.undo(lake, catalog, stage, Run(f"cli:{by}", "lakehouse stage undo", by=by), reason)
    print_undone(lake, catalog, done, "the stage", restate=restate)


@app.command()
def drop(name: _Name, by: arguments.DoneBy, reason: arguments.WhyForReaders) -> None:
    """Remove a stage; only its record remains."""
    from lakehouse.stages import staging  # noqa: PLC0415

    lake, _ = deployment()
    staging.drop(lake, name, by, reason)
    out.print(f"The stage {name} is dropped.", soft_wrap=True)


def _session() -> SparkSession:
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

    return LakeSpark(long_lived=True).session()


def _contract_of(source: str, path: Path, sources: Mapping[str, SourceContract]) -> SourceContract | MetricContract:
    """Load a contract file, which must be the contract of the source or of one of its metrics.

    :raises typer.BadParameter: if it is another contract.
    """
    from lakehouse.contracts import MetricContract, SourceContract, load_contract  # noqa: PLC0415

    if not path.is_file():
        msg = f"{path}: there is no such file"
        raise typer.BadParameter(msg)
    loaded = load_contract(path, sources)
    if not isinstance(loaded, SourceContract | MetricContract):
        msg = f"{path} is neither the contract of a source nor of a metric; only these are staged"
        raise typer.BadParameter(msg)
    if isinstance(loaded, MetricContract) and loaded.is_derived:
        msg = f"{path} is a derived metric, which reads no rows of a source: there is nothing to stage; give it a dataset_version"
        raise typer.BadParameter(msg)
    about = loaded.dataset if isinstance(loaded, SourceContract) else loaded.source
    if about != source:
        msg = f"{path} is about {about}, not about {source}"
        raise typer.BadParameter(msg)
    return loaded


def _listed(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")
