"""Promotion and rollback: change the dataset version that readers of a metric see, in one commit (rules R7 and R8).

The publication of a promotion is planned in ``plan``; which version is served is defined in ``numbers.served_version``. Another
publication in between repeats the promotion from a fresh read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.promotion import plan as promotion_plan
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.promotion.plan import PromotionPlan, PromotionRefusedError, compare, shown_version
from lakehouse.gold.promotion.promotion_log import PromotionEntry, PromotionKind
from lakehouse.gold.publication import restatement_reports, revisions, write_audit_publish
from lakehouse.ledger import publications
from lakehouse.ledger.publications import Restatement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.gold.numbers.comparison import Threshold
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.lake import Lake

__all__ = ["PromotionRefusedError", "PromotionResult", "compare", "promote", "rollback", "settle"]


@dataclass(frozen=True)
class PromotionResult:
    """A completed promotion or rollback; ``plan`` is None if an earlier call completed it."""

    move: PromotionEntry
    plan: PromotionPlan | None = None


@dataclass(frozen=True)
class PromotionOptions:
    """Which differences a promotion accepts, and what it says of them.

    :param thresholds: the greatest differences of measures.
    :param notes: writes the release notes for readers.
    :param accepted: whether differences beyond the thresholds and the contract's bounds, and removed measures, are accepted.
    """

    thresholds: Sequence[Threshold] = ()
    notes: Callable[[PromotionPlan], str] = lambda _: ""
    accepted: bool = False


def promote(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    to_version: int,
    run: Run,
    reason: str,
    options: PromotionOptions = PromotionOptions(),
) -> PromotionResult:
    """Show readers another dataset version; ``run.by`` names the person who requests it.

    :raises PromotionRefusedError: if something forbids it.
    """
    if shown_version(lake, metric) == to_version:
        return _already(lake, metric, to_version)
    made = _promote(lake, catalog, metric, to_version, run, reason, options)
    return PromotionResult(settle(lake, made.to), made)


def rollback(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    to_version: int | None,
    run: Run,
    reason: str,
    notes: Callable[[PromotionPlan], str] = lambda _: "",
) -> PromotionResult:
    """Show readers the last numbers of an earlier version; by default of the one before the newest promotion.

    Days that Silver has changed since then are pending afterwards and are restated with that version's logic: the version of
    Silver that it had followed is recorded per dataset version (see ``served_version.follower``).

    :param notes: writes the release notes for readers.
    :raises PromotionRefusedError: if there is no version to go back to.
    """
    if to_version is None:
        to_version = _one_back(lake, metric)
    if shown_version(lake, metric) == to_version:
        return _already(lake, metric, to_version)
    made = _rollback(lake, catalog, metric, to_version, run, reason, notes)
    return PromotionResult(settle(lake, made.to), made)


def settle(lake: Lake, series: Series) -> PromotionEntry:
    """Copy promotions from the commits into the logs, and record from where the numbers follow Silver; it may be repeated.

    :raises PromotionRefusedError: if no version was ever promoted.
    """
    restatement_reports.follow(lake, series)
    promotion_log.follow(lake, series.name, locations.gold(lake, series))
    log = promotion_log.of(lake, series.name)
    if not log:
        msg = f"gold/{series.name} has not been promoted yet: readers see v1; '--to 2024-11-08T06:00:00Z' goes back to a time"
        raise PromotionRefusedError(msg)
    move = log[-1]
    follower = served_version.follower(
        replace(series, metric=series.metric.model_copy(update={"dataset_version": move.to_version}))
    )
    table = next((name.removeprefix("silver/") for name in move.inputs if name.startswith("silver/")), None)
    if move.follows is not None and publications.followed_version(lake, follower, table) < move.follows:
        entry = Restatement(follower, move.move_id, move.moved_at, move.follows, move.gold_version, days=[], followed_table=table)
        publications.record_restatement(lake, replace(entry, followed_further=move.inputs.get("further", {})))
    return move


def _one_back(lake: Lake, metric: MetricContract) -> int:
    """The version before the newest promotion; after a completed rollback, the present version."""
    settle(lake, Series(metric, called=metric.metric))
    log, number = promotion_log.of(lake, metric.metric), shown_version(lake, metric)
    if log[-1].kind is PromotionKind.ROLLBACK:
        return number
    return log[-1].from_version


@write_audit_publish.again_on_conflict
def _promote(
    lake: Lake, catalog: Catalog, metric: MetricContract, to_version: int, run: Run, reason: str, options: PromotionOptions
) -> PromotionPlan:
    made = promotion_plan.plan_promotion(lake, catalog, metric, to_version, options.thresholds)
    problems = [*made.problems, *([] if options.accepted else made.objections)]
    if problems:
        raise PromotionRefusedError("\n".join(problems))
    _commit(lake, made, run, reason, f"promoted to v{to_version} by {run.by}: {reason}", options.notes(made))
    return made


@write_audit_publish.again_on_conflict
def _rollback(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    to_version: int,
    run: Run,
    reason: str,
    notes: Callable[[PromotionPlan], str],
) -> PromotionPlan:
    made = promotion_plan.plan_rollback(lake, catalog, metric, to_version)
    _commit(lake, made, run, reason, f"rolled back to v{to_version} by {run.by}: {reason}", notes(made))
    return made


def _commit(lake: Lake, made: PromotionPlan, run: Run, reason: str, explanation: str, notes: str) -> None:
    """The promotion itself: all numbers that differ and the number of the served version, in one commit."""
    number, before = made.to.metric.dataset_version, made.before
    why = {
        "input_versions": made.inputs,
        "trigger": {"run": run.job_name, "reason": made.kind.value},
        "downstream": [*(f"gold/{rollup.name}" for rollup in made.to.rollups), *made.to.metric.consumers],
        promotion_log.COMMIT_KEY: {
            "kind": made.kind.value,
            "from_version": made.shown,
            "to_version": number,
            "by": run.by,
            "reason": reason,
            "inputs": made.inputs,
            "accepted": list(made.objections),
            "follows": made.follows,
            "release_notes": notes,
        },
    }
    signed = write_audit_publish.signature(lake, made.to, run, why, reason)
    if not made.drafts and (before.table is None or before.existing is None):
        raise PromotionRefusedError(f"gold/{made.to.name} has no number, and there is none to publish")
    drafts = [replace(draft, explanation=explanation) for draft in made.drafts]
    revisions.publish(lake, made.to, before.table, before.existing, drafts, signed, serves=number)


def _already(lake: Lake, metric: MetricContract, to_version: int) -> PromotionResult:
    """The record of a promotion that an earlier call committed, even if that call was stopped afterwards."""
    move = settle(lake, Series(metric, called=metric.metric))
    if move.to_version != to_version:
        raise PromotionRefusedError(f"readers of gold/{metric.metric} see v{to_version} already")
    return PromotionResult(move)
