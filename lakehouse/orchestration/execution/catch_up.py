"""Updates silver and gold in this process after a decision, a redaction, a rebuild or an arrival day.

The daemon's sensors do the same one run at a time (see ``automation.follow_sensors`` and ``automation.schedules``); here
the layers follow immediately, for a command that a person waits for. The days to update are read from the tables: a repeated
update does nothing twice, and unfinished work of an earlier command is completed as well.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse.bronze import pending_files
from lakehouse.bronze.checks import NONE_HELD
from lakehouse.dispositions.checks import DISPOSED
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import applied_inputs, failures, ingestions
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.execution.in_process import InProcess, RunFailedError, together
from lakehouse.orchestration.run_events import asset_key
from lakehouse.silver import update
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake


_SHOWN = 5


@dataclass(frozen=True)
class CatchUpResult:
    """The updated silver days, the days written per metric, and the counts of key changes by silver day."""

    silver_days: list[date]
    restated: dict[str, list[date]]
    causes: dict[str, dict[str, int]]


def catch_up(lake: Lake, catalog: Catalog, source: str, layers: InProcess) -> CatchUpResult:
    """Update silver on all waiting days, then gold on exactly the affected days, then roll-ups, then derived metrics; publish
    numbers whose next state is due.

    :param layers: runs the assets; constructed from the same lake, so that runs and reads share clock and table cache.
    :raises RunFailedError: if a run fails; completed work is kept, and the next call continues from there. A metric, or one of
        its longer periods, that cannot be published does not stop others.
    """
    with lake.step():
        return _catch_up(lake, catalog, source, layers)


def _catch_up(lake: Lake, catalog: Catalog, source: str, layers: InProcess) -> CatchUpResult:
    _restore_lost_rows(lake, catalog.sources[source], layers)
    silver_days = sorted(applied_inputs.pending(lake, source))
    if silver_days:
        layers.run(asset_key("silver", source), silver_days)
        layers.check_again(source, _days_failing(lake, source, DISPOSED))
    restated: dict[str, list[date]] = {}
    causes: dict[str, dict[str, int]] = {}
    failed: list[RunFailedError] = []
    for metric in catalog.metrics_following(source):
        with _noted(failed, metric.name):
            daily = served_version.daily(lake, catalog, metric)
            pending = find_pending(lake, daily)
            causes |= {day.isoformat(): dict(counts) for day, counts in pending.causes.items()}
            days = sorted({*pending.starts, *find_due(lake, catalog.sources[metric.source], daily)})
            if days:
                tag = {FOLLOWS_TAG: f"{metric.name}:{pending.cause}"}
                with _noted(failed, metric.name):
                    restated[metric.name] = layers.run(gold_key(metric.name), days, tag)
            _update_rollups(lake, catalog.sources[metric.source], daily, layers, failed)
    done = CatchUpResult(silver_days, restated, causes)
    try:
        _end(source, layers, failed, list(restated))
    except RunFailedError as problem:
        problem.done = done
        raise
    return done


@contextmanager
def _noted(failed: list[RunFailedError], name: str) -> Iterator[None]:
    """Collect the failure of a metric, or of one of its longer periods, so that the others continue.

    :param name: the name of the series.
    """
    try:
        yield
    except RunFailedError as problem:
        failed.append(problem)
    except LakehouseError as problem:
        failed.append(RunFailedError(f"gold/{name} failed: {problem}", may_pass=False))
    except (OSError, DeltaError, pa.ArrowException) as problem:  # a file of the series' table cannot be read
        failed.append(RunFailedError(f"gold/{name} failed: {f'{problem}'.strip().splitlines()[0]}"))


def _end(source: str, layers: InProcess, failed: list[RunFailedError], others: list[str]) -> None:
    """Report the checks that fail and the numbers that are held, whether or not this call has tried them, and the failures.

    :raises RunFailedError: if there is a failure.
    """
    layers.note_failures(source)
    if failed:
        went_on = f" {join_limited(others, _SHOWN, ' metrics')} went on." if others else ""
        all_of_them = together(failed)
        raise RunFailedError(f"{all_of_them}.{went_on}", may_pass=all_of_them.may_pass) from failed[0]


def _restore_lost_rows(lake: Lake, contract: SourceContract, layers: InProcess) -> None:
    """Run Bronze for arrival days of which it, the key log or the ledger has lost something: the run makes up for it.

    Days whose held files are gone from landing, or are held no longer, are checked again.
    """
    source = contract.dataset
    lost = [] if contract.source.kafka else ingestions.lost_deliveries(lake, source)
    lost = lost or ingestions.lost_claims(lake, source)
    days = {entry.arrival_date for entry in lost} or {*update.lost_files(lake, source).values()}
    if days:
        layers.run(asset_key("bronze", source), sorted(days))
    gone = {entry.arrival_date for entry in pending_files.gone_files(lake, contract)}
    held = {entry.arrival_date for entry in ingestions.still_held(ingestions.all_of(lake, source))}
    layers.check_again(source, gone | (_days_failing(lake, source, NONE_HELD) - held))


def _days_failing(lake: Lake, source: str, check: str) -> set[date]:
    """The arrival days on which a check of Bronze failed when it was evaluated."""
    return {one.day for one in failures.failing_checks(lake, source) if (one.layer, one.check) == ("bronze", check)}


def close_due(lake: Lake, catalog: Catalog, source: str, layers: InProcess) -> None:
    """Publish a source's numbers that are due to become preliminary or final; silver does not change.

    :param layers: as in :func:`catch_up`.
    :raises RunFailedError: as :func:`catch_up`.
    """
    failed: list[RunFailedError] = []
    closed: list[str] = []
    for metric in catalog.metrics_following(source):
        with _noted(failed, metric.name):
            daily = served_version.daily(lake, catalog, metric)
            if due := find_due(lake, catalog.sources[metric.source], daily):
                with _noted(failed, metric.name):
                    layers.run(gold_key(metric.name), due)
                    closed.append(metric.name)
            _update_rollups(lake, catalog.sources[metric.source], daily, layers, failed)
    _end(source, layers, failed, closed)


def _update_rollups(lake: Lake, contract: SourceContract, daily: Series, layers: InProcess, failed: list[RunFailedError]) -> None:
    for rollup in daily.rollups:
        with _noted(failed, rollup.name):
            _update_rollup(lake, contract, rollup, layers)


def _update_rollup(lake: Lake, contract: SourceContract, rollup: Series, layers: InProcess) -> None:
    """Update a roll-up from its published days, and publish its numbers whose next state is due."""
    pending = find_pending(lake, rollup)
    starts = {*pending.starts, *find_due(lake, contract, rollup)}
    if starts:
        layers.run(gold_key(rollup.name), sorted(starts), {FOLLOWS_TAG: f"{rollup.name}:{pending.cause}"})
