"""``lakehouse gold revert`` and ``release``: restore an earlier revision of a number, and let it follow silver again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import out
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

_SHOWN = 8
_Earlier = Annotated[str, typer.Option("--to", help="The version to go back to: r1, r3.a1, first, or a time.")]
_By = Annotated[str, typer.Option(help="Who decides.")]
_Reason = Annotated[str, typer.Option(help="Why, in words for the readers.")]
_Restate = Annotated[bool, typer.Option("--restate", help="Update numbers and roll-ups now (starts Spark).")]


def revert(
    metric: arguments.Metric,
    period: arguments.PeriodName,
    to: _Earlier,
    by: _By,
    reason: _Reason,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Restore an earlier version of a number as a new revision; later changes wait until 'lakehouse gold release'."""
    from lakehouse.cli import catch_up  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.gold.restatement import revert as restatement_revert  # noqa: PLC0415

    of = arguments.about(metric, period)
    run = Run(f"cli:{by}", "lakehouse gold revert", by=by)
    source = of.catalog.sources[of.series.metric.source]
    done = restatement_revert.revert(of.settings, source, of.series, of.period, arguments.asked_for(to), run, reason)
    for revision in done.published:
        out.print(f"{revision.name} is published, {revision.state.value}: {reason}", soft_wrap=True)
    if done.unchanged:
        out.print(f"{_listed(done.unchanged)}: already the earlier number; nothing was published.", soft_wrap=True)
    out.print(f"Later changes wait until 'lakehouse gold release {metric} {period}'.", soft_wrap=True)
    catch_up.print_pending(of.settings, of.series.daily, of.catalog, now=restate)


def release(
    metric: arguments.Metric,
    period: arguments.PeriodName,
    by: _By,
    reason: _Reason,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Let a reverted number follow silver again, including all changes since."""
    from lakehouse.cli import catch_up  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.restatement import revert as restatement_revert  # noqa: PLC0415

    of = arguments.about(metric, period)
    days = restatement_revert.release(of.settings, of.series, of.period, by, reason)
    out.print(f"{of.series.daily.name} follows silver again: {_listed(days)}.", soft_wrap=True)
    catch_up.print_pending(of.settings, of.series.daily, of.catalog, now=restate)


def _listed(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")
