"""Updates silver and gold in this process after a decision, a redaction, a rebuild or an arrival day.

The daemon's sensors do the same one run at a time (see ``automation.follow_sensors`` and ``automation.close_schedules``); here
the layers follow one another at once, for a command that somebody waits for. The days to update are read from the tables: a
repeated update does nothing twice, and work that an earlier command left unfinished is done as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import applied_inputs, lost_rows
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.execution.in_process import InProcess, RunFailedError
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings


_SHOWN = 5


@dataclass(frozen=True)
class CatchUpResult:
    """The updated silver days, the days written per metric, and the counts of key changes by silver day."""

    silver_days: list[date]
    restated: dict[str, list[date]]
    causes: dict[str, dict[str, int]]


def catch_up(settings: Settings, catalog: Catalog, source: str, layers: InProcess) -> CatchUpResult:
    """Update silver on all waiting days, then gold on exactly the affected days, then roll-ups, then the derived metrics that
    are made of them; publish numbers whose next state is due.

    :param layers: runs the assets; built from the same settings, so that runs and reads share clock and table cache.
    :raises RunFailedError: if a run fails; completed work is kept, and the next call continues from there. A metric that cannot
        be published stops no other.
    """
    _restore_lost_rows(settings, catalog.sources[source], layers)
    silver_days = sorted(applied_inputs.pending(settings, source))
    if silver_days:
        layers.run(dg.AssetKey(["silver", source]), silver_days)
    restated: dict[str, list[date]] = {}
    causes: dict[str, dict[str, int]] = {}
    failed: list[RunFailedError] = []
    for metric in catalog.metrics_following(source):
        try:
            daily = served_version.daily(settings, catalog, metric)
            pending = find_pending(settings, daily)
            causes |= {day.isoformat(): dict(counts) for day, counts in pending.causes.items()}
            days = sorted({*pending.starts, *find_due(settings, catalog.sources[metric.source], daily)})
            if days:
                tag = {FOLLOWS_TAG: f"{metric.name}:{pending.cause}"}
                restated[metric.name] = layers.run(gold_key(metric.name), days, tag)
            for rollup in daily.rollups:
                _update_rollup(settings, catalog.sources[metric.source], rollup, layers)
        except RunFailedError as problem:  # noqa: PERF203
            failed.append(problem)
        except (OSError, DeltaError, pa.ArrowException) as problem:  # a file of a table of its own cannot be read
            failed.append(RunFailedError(f"gold/{metric.name} failed: {f'{problem}'.strip().splitlines()[0]}"))
    if failed:
        others = f" {join_limited(list(restated), _SHOWN, ' metrics')} went on." if restated else ""
        message = "; ".join(f"{problem}" for problem in failed)
        raise RunFailedError(f"{message}.{others}", may_pass=any(problem.may_pass for problem in failed)) from failed[0]
    return CatchUpResult(silver_days, restated, causes)


def _restore_lost_rows(settings: Settings, contract: SourceContract, layers: InProcess) -> None:
    """Run Bronze for arrival days of which it, or the key log, has lost rows: the run makes up for them."""
    source = contract.dataset
    lost = [] if contract.source.kafka else lost_rows.lost_deliveries(settings, source)
    lost = lost or lost_rows.lost_claims(settings, source)
    if lost:
        layers.run(dg.AssetKey(["bronze", source]), sorted({entry.arrival_date for entry in lost}))


def close_due(settings: Settings, catalog: Catalog, source: str, layers: InProcess) -> None:
    """Publish the numbers of a source that are due to become preliminary or final; silver does not change.

    :param layers: as in :func:`catch_up`.
    :raises RunFailedError: as :func:`catch_up`.
    """
    for metric in catalog.metrics_following(source):
        daily = served_version.daily(settings, catalog, metric)
        if due := find_due(settings, catalog.sources[metric.source], daily):
            layers.run(gold_key(metric.name), due)
        for rollup in daily.rollups:
            _update_rollup(settings, catalog.sources[metric.source], rollup, layers)


def _update_rollup(settings: Settings, contract: SourceContract, rollup: Series, layers: InProcess) -> None:
    """Update a roll-up from its published days, and publish its numbers whose next state is due."""
    pending = find_pending(settings, rollup)
    starts = {*pending.starts, *find_due(settings, contract, rollup)}
    if starts:
        layers.run(gold_key(rollup.name), sorted(starts), {FOLLOWS_TAG: f"{rollup.name}:{pending.cause}"})
