"""Scores the events of given days: the champion scores all events, the challenger of a running canary also its share.

Storing scores belongs to ``scores``, assigning entities to a canary belongs to ``canary_log``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from lakehouse.errors import LakehouseError
from lakehouse.models import canary_log, scores, tracking
from lakehouse.models.canary_log import Arm, in_canary
from lakehouse.models.scores import ScoringRun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.canary_log import CanaryEntry
    from lakehouse.models.scores import LoadedVersion


#: The number of event days scored and committed at a time.
_DAYS_AT_A_TIME = 31


class NoChampionError(LakehouseError):
    """A model without a version in use cannot score. The message says how to promote a version."""


@dataclass(frozen=True)
class ScoredDay:
    """The result of scoring an event day: the number of events, and of those for which the challenger's score is served."""

    day: date
    champion: str
    events: int
    challenger: str | None = None
    in_canary: int = 0


@dataclass(frozen=True)
class RunningCanary:
    """A running canary with its challenger, ready to score."""

    entry: CanaryEntry
    challenger: LoadedVersion


def score(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    days: Collection[date],
    *,
    run_id: str,
    by: str,
) -> list[ScoredDay]:
    """Score the events of ``days`` with the champion, and those of a running canary with its challenger as well.

    If a day is scored again, the rows of the current versions are replaced; the rows of earlier versions stay.

    :returns: the result for each day, in order.
    :raises NoChampionError: if no version is in use.
    :raises TrackingError: if MLflow cannot be reached.
    """
    from lakehouse.training_sets import events as set_events  # noqa: PLC0415 (Spark loads in a second)

    champion = scores.load(lake, catalog, contract, champion_of(lake, contract))
    canary = running_canary(lake, catalog, contract, champion.version)
    of_set = catalog.training_sets[contract.training_set]
    scored: list[ScoredDay] = []
    for part in _parts(sorted(set(days)), _DAYS_AT_A_TIME):
        rows = set_events.unlabelled(spark, lake, catalog, of_set, part)
        scored += score_rows(lake, rows, part, champion, canary, ScoringRun(run_id, by, lake.now()))
    return scored


def champion_of(lake: Lake, contract: ModelContract) -> str:
    """The version in use.

    :raises NoChampionError: if no version is in use.
    """
    champion = tracking.champion(lake, contract)
    if champion is None:
        msg = (
            f"{contract.name} has no champion, so that nothing can be scored: 'lakehouse model promote {contract.name} VERSION' "
            "puts a version into use"
        )
        raise NoChampionError(msg)
    return champion


def running_canary(lake: Lake, catalog: Catalog, contract: ModelContract, champion: str) -> RunningCanary | None:
    """The canary that takes part in scoring; a canary that compares with a version not in use does not."""
    entry = canary_log.running(lake, contract.name)
    if entry is None or entry.champion != champion:
        return None
    return RunningCanary(entry, scores.load(lake, catalog, contract, entry.challenger))


def score_rows(
    lake: Lake,
    rows: pa.Table,
    days: Collection[date],
    champion: LoadedVersion,
    canary: RunningCanary | None,
    run: ScoringRun,
) -> list[ScoredDay]:
    """Score events and write the scores in one commit; a day without events loses the rows of these versions.

    :param rows: the events of the days, from ``events.unlabelled``.
    """
    chosen = np.zeros(len(rows), bool)
    if canary is not None:
        chosen = in_canary(rows["record_key"], canary.entry.salt, canary.entry.of_entities)
    scored = [scores.scored_rows(rows, champion, Arm.CHAMPION, ~chosen, run)]
    if canary is not None:
        of_canary = rows.filter(chosen)
        everything = np.ones(len(of_canary), bool)
        scored.append(scores.scored_rows(of_canary, canary.challenger, Arm.CHALLENGER, everything, run))
    versions = [champion.version, *([canary.challenger.version] if canary else [])]
    scores.write(lake, champion.contract.name, days, versions, scored, run)
    events, in_canary_by_day = (_by_day(rows["event_date"].filter(kept)) for kept in (np.ones(len(rows), bool), chosen))
    return [
        ScoredDay(
            day,
            champion.version,
            events.get(day, 0),
            canary.challenger.version if canary else None,
            in_canary_by_day.get(day, 0),
        )
        for day in sorted(days)
    ]


def _by_day(days: pa.ChunkedArray) -> dict[date, int]:
    counts = pc.value_counts(days)
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist()))


def _parts(days: Iterable[date], size: int) -> Iterator[list[date]]:
    rest = iter(days)
    while part := list(islice(rest, size)):
        yield part
