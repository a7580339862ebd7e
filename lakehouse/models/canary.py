"""A canary of a model: a challenger scores a share of the entities, until enough of their labels are mature to judge it.

The entities are chosen in ``canary_log``; a canary is judged like a backtest, see ``comparison``. Promoting a challenger that
meets its criteria is a person's decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.model import Canary as CanaryRules
from lakehouse.errors import LakehouseError
from lakehouse.models import canary_log, score
from lakehouse.models import scores as model_scores
from lakehouse.models.backtest_log import failed_rules, reading_result, stored_reading
from lakehouse.models.canary_log import Arm, CanaryEntry, CanaryEvent, CanaryOutcome
from lakehouse.models.comparison import scored_pair
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from decimal import Decimal

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import ReadingResult


#: The resamples and the seed of a judgement: the same labels give the same intervals.
_RESAMPLES, _SEED = 500, 20_242
_KEYS = ["record_key", "event_ts"]


class CanaryError(LakehouseError):
    """A canary that cannot be started, judged or stopped. The message names the remedy."""


@dataclass(frozen=True)
class CanaryStatus:
    """The progress of a canary.

    :param scored: the number of entities scored by both versions; ``labels``: of those with a mature label.
    :param needs_labels: with fewer labels nothing is judged.
    :param result: the measurements on labelled entities; None without labels.
    """

    entry: CanaryEntry
    scored: int
    labels: int
    needs_labels: int
    outcome: CanaryOutcome
    result: ReadingResult | None = None


def start(
    lake: Lake,
    contract: ModelContract,
    challenger: str,
    *,
    by: str,
    reason: str,
    share: Decimal | None = None,
    salt: str | None = None,
) -> CanaryEntry:
    """Start a canary; it takes effect with the next scoring.

    :param share: the share of entities; default: the contract's; likewise ``salt``.
    :raises CanaryError: if a canary is running, the version is in use or deprecated, or no share or criteria are defined.
    :raises NoChampionError: if no version is in use.
    :raises ReleaseError: for a version that does not exist.
    """
    share = share if share is not None else contract.canary.share if contract.canary else None
    if share is None or not 0 < share <= 1:
        shown = "" if share is None else f" ({share} is none)"
        msg = (
            f"{contract.name}: a canary needs a share of the entities{shown}; give --share 10%, or 'canary.share' in its contract"
        )
        raise CanaryError(msg)
    if not contract.canary_rules:
        msg = f"{contract.name} has no rules to judge a canary by; add 'canary.success' or 'acceptance' to its contract"
        raise CanaryError(msg)
    release = releases.find(lake, ReleaseKind.MODEL, contract.name, challenger)
    deprecated = releases.deprecations(lake, ReleaseKind.MODEL, contract.name).get(release.full_name)
    if deprecated is not None:
        msg = f"{contract.name} {challenger} is deprecated: {deprecated.notes}; start a canary of another version"
        raise CanaryError(msg)
    champion = score.champion_of(lake, contract)
    if champion == challenger:
        msg = f"{contract.name} {challenger} is in use already; a canary compares another version with it"
        raise CanaryError(msg)
    own_salt = salt if salt is not None else contract.canary.salt if contract.canary else ""
    entry = CanaryEntry(
        model=contract.name,
        number=0,
        event=CanaryEvent.STARTED,
        challenger=challenger,
        champion=champion,
        share=f"{share.normalize():f}",
        salt=f"{contract.name}:{own_salt}",
        by=by,
        reason=reason,
        recorded_at=lake.now(),
    )
    return begin(lake, entry)


def begin(lake: Lake, entry: CanaryEntry) -> CanaryEntry:
    """Record the start of a canary under the next number; of two concurrent starts, one succeeds.

    :raises CanaryError: if another canary is running.
    """
    canaries = canary_log.of(lake, entry.model)
    numbered = replace(entry, number=len(canaries) + 1)
    if (not canaries or canaries[-1].stopped is not None) and canary_log.start(lake, numbered):
        return numbered
    other = canary_log.of(lake, entry.model)[-1].started
    msg = (
        f"the {other.title}, started by {other.by}, is running, and a model has one canary at a time; "
        f"'lakehouse model canary stop {entry.model}' ends it"
    )
    raise CanaryError(msg)


def stop(lake: Lake, model: str, *, by: str, reason: str) -> CanaryEntry:
    """End the running canary: from the next scoring on, only the champion scores.

    :raises CanaryError: if no canary is running.
    """
    ended = canary_log.stop_running(lake, model, by=by, reason=reason)
    if ended is None:
        msg = f"no canary of {model} is running; 'lakehouse model canary start {model} VERSION' starts one"
        raise CanaryError(msg)
    return ended


def judge(
    session: Callable[[], SparkSession],
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    *,
    by: str,
    known_at: datetime | None = None,
) -> CanaryStatus:
    """Judge the running canary, or the newest past one, by the mature labels, and record a new result.

    :param session: returns a Spark session, which is needed only if there are scores.
    :raises CanaryError: if the model has never had a canary.
    """
    from lakehouse.training_sets import events, records  # noqa: PLC0415 (Spark loads in a second)

    canaries = canary_log.of(lake, contract.name)
    if not canaries:
        msg = f"{contract.name} has had no canary; 'lakehouse model canary start {contract.name} VERSION' starts one"
        raise CanaryError(msg)
    newest = canaries[-1]
    until = newest.stopped.recorded_at if newest.stopped else None
    scores = scores_of_both(lake, newest.started, until)
    labelled = None
    if len(scores):
        of_set = catalog.training_sets[contract.training_set]
        days = pc.min_max(scores["event_date"]).as_py()
        span = records.Span(days["min"], days["max"] + events.DAY)
        labelled = events.labelled(session(), lake, catalog, of_set, span, "as_known", known_at)
    status = judged(catalog, contract, newest.started, scores, labelled)
    record(lake, status, by=by)
    return status


def scores_of_both(lake: Lake, entry: CanaryEntry, until: datetime | None = None) -> pa.Table:
    """The entities of a canary scored by both versions: record_key, event_ts, event_date, champion, challenger.

    :param until: when the canary was stopped; None while it runs.
    """
    columns = ["record_key", "event_ts", "event_date", "score", "scored_at", "arm"]
    of_challenger = model_scores.read(lake, entry.model, {"model_version": [entry.challenger]}, columns)
    within = pc.and_(
        pc.equal(of_challenger["arm"], Arm.CHALLENGER.value),
        pc.greater_equal(of_challenger["scored_at"], pa.scalar(entry.recorded_at, of_challenger["scored_at"].type)),
    )
    if until is not None:
        within = pc.and_(within, pc.less_equal(of_challenger["scored_at"], pa.scalar(until, of_challenger["scored_at"].type)))
    ours = of_challenger.filter(within).select(["record_key", "event_ts", "event_date", "score"])
    where = {"model_version": [entry.champion], "event_date": pc.unique(ours["event_date"]).to_pylist()}
    theirs = model_scores.read(lake, entry.model, where, ["record_key", "event_ts", "score"])
    both = ours.rename_columns(["record_key", "event_ts", "event_date", "challenger"])
    return both.join(theirs.rename_columns(["record_key", "event_ts", "champion"]), _KEYS, join_type="inner")


def judged(
    catalog: Catalog, contract: ModelContract, entry: CanaryEntry, scores: pa.Table, labelled: pa.Table | None
) -> CanaryStatus:
    """Judge a canary by the available labels.

    :param scores: the result of :func:`scores_of_both`.
    :param labelled: the events with mature labels and their features, from ``events.labelled``.
    """
    needed = (contract.canary or CanaryRules(share=entry.of_entities)).needs_labels
    if labelled is None or not len(labelled):
        return CanaryStatus(entry, len(scores), 0, needed, CanaryOutcome.TOO_FEW_LABELS)
    features = [rule.by for rule in contract.canary_rules if rule.by is not None]
    wanted = labelled.select([*_KEYS, "label", *dict.fromkeys(features)])
    own_names = {"champion": "champion_score", "challenger": "challenger_score"}  # a feature may have this name
    renamed = scores.drop_columns(["event_date"]).rename_columns(
        [own_names.get(name, name) for name in scores.column_names if name != "event_date"]
    )
    rows = wanted.cast(_with_times_of(scores, wanted)).join(renamed, _KEYS, join_type="inner")
    if not len(rows):
        return CanaryStatus(entry, len(scores), 0, needed, CanaryOutcome.TOO_FEW_LABELS)
    of_set = catalog.training_sets[contract.training_set]
    zone = catalog.sources[of_set.entity.source].clocks.timezone
    champion, challenger = (rows[f"{side}_score"].to_numpy() for side in ("champion", "challenger"))
    pair = scored_pair(rows, champion, challenger, zone, features)
    result = reading_result(contract, contract.canary_rules, pair, [], resamples=_RESAMPLES, seed=_SEED)
    if len(rows) < needed:
        outcome = CanaryOutcome.TOO_FEW_LABELS
    else:
        outcome = CanaryOutcome.NOT_MET if failed_rules(result.verdicts) else CanaryOutcome.MET
    return CanaryStatus(entry, len(scores), len(rows), needed, outcome, result)


def record(lake: Lake, status: CanaryStatus, *, by: str) -> None:
    """Record a judgement of a running canary; nothing if the newest judgement is the same, or the canary was stopped."""
    running = canary_log.running(lake, status.entry.model)
    if running is None or running.number != status.entry.number:
        return
    results: dict[str, Any] = {} if status.result is None else stored_reading(status.result)
    entry = replace(
        status.entry,
        event=CanaryEvent.JUDGED,
        by=by,
        reason="",
        recorded_at=lake.now(),
        outcome=status.outcome,
        labels=status.labels,
        results=results,
    )
    canary_log.judge(lake, entry)


def _with_times_of(scores: pa.Table, rows: pa.Table) -> pa.Schema:
    """The schema of ``rows`` with the event-time type of ``scores``, so that they can be joined."""
    place = rows.schema.get_field_index("event_ts")
    return rows.schema.set(place, pa.field("event_ts", scores.schema.field("event_ts").type))
