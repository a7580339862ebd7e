"""Updates silver and gold in this process after a command has recorded a decision, and prints the changed days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.cli.console import end_with_failed_checks, errors, out
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings

_SHOWN = 8


def is_behind(settings: Settings, catalog: Catalog, source: str) -> bool:
    """Whether silver has pending decisions, or gold has not followed silver; also after an earlier command was stopped."""
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.restatement.pending import find_pending  # noqa: PLC0415
    from lakehouse.ledger import applied_inputs  # noqa: PLC0415 (Arrow loads in a second)

    if applied_inputs.pending_manual_inputs(settings, source):
        return True
    metrics = catalog.metrics_following(source)
    return any(find_pending(settings, served_version.daily(settings, catalog, metric)).starts for metric in metrics)


def restate(settings: Settings, catalog: Catalog, source: str) -> None:
    """Update silver on the pending days, then gold, and print the changes."""
    from lakehouse.delta.table_cache import with_table_cache  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.execution.catch_up import catch_up  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import InProcess, local_instance  # noqa: PLC0415

    settings = with_table_cache(settings)
    with errors.status("updating silver and gold"), local_instance() as instance:
        layers = InProcess(settings, catalog, instance)
        after = catch_up(settings, catalog, source, layers)
    changed = sorted(after.causes)
    out.print(f"silver/{source}: {_listed(changed) or 'no day'} changed.", soft_wrap=True)
    for metric, written in after.restated.items():
        out.print(f"gold/{metric}: {_listed([f'{day}' for day in written]) or 'no day'} restated.", soft_wrap=True)
    end_with_failed_checks(layers.failed_checks.values())


def print_pending(settings: Settings, daily: Series, catalog: Catalog, *, now: bool) -> None:
    """Print the numbers of a metric that are pending after a command, or update them.

    :param daily: the metric's daily series, as visible to readers.
    """
    from lakehouse.gold.restatement.pending import find_pending  # noqa: PLC0415

    if now:
        restate(settings, catalog, daily.metric.source)
        return
    for series in (daily, *daily.rollups):
        if count := len(find_pending(settings, series).starts):
            periods = f"{count:,} {'period' if count == 1 else 'periods'}"
            text = f"gold/{series.name}: {periods} pending, for the sensor restate_{series.name} or --restate."
            out.print(text, soft_wrap=True)


def say_waiting(source: str, days: Sequence[date]) -> None:
    """Name the sensor that updates silver if the command does not."""
    if days:
        out.print(
            f"silver/{source} waits on {_listed([f'{day}' for day in days])}; with Dagster's daemon running, the sensor "
            f"stewards_{source} starts it at its next tick.",
            soft_wrap=True,
        )


def _listed(days: Sequence[str]) -> str:
    return join_limited(days, _SHOWN, " days")
