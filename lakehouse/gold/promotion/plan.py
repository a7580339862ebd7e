"""The plan of a promotion or rollback: what it would publish, without doing it.

It publishes the last number that a dataset version published for each period, including its adjustments if the period is closed.
``compatibility`` checks the conditions that forbid a promotion; ``promotion`` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history, lifecycle, published_table, served_version
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.promotion import compatibility
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse.gold.publication import candidates, late_at_close, write_audit_publish
from lakehouse.gold.restatement import closing
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.publication import PublicationRules
    from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta, Threshold
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class PublishedNumber:
    """The last number that was published for a period.

    :param rows: its content, with the adjustments of a closed period added up.
    :param row: the published columns of its newest revision or adjustment.
    :param intact: whether the stored rows still have the digest with which they were published.
    """

    rows: pa.Table
    row: Mapping[str, Any]
    intact: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether the period has no rows of Silver."""
        return not any(self.rows["row_count"].to_pylist())


def current_numbers(existing: pa.Table | None, series: Series) -> dict[date, PublishedNumber]:
    """The number of each period that readers see, whichever dataset version published it."""
    return _last(existing, existing, series)


def numbers_of_version(existing: pa.Table | None, series: Series, number: int) -> dict[date, PublishedNumber]:
    """The last number that a dataset version published for each period.

    A number equal to that of an earlier version is not published again: the number of the nearest earlier version is used.
    """
    if existing is None:
        return {}
    known = existing.filter(pc.less_equal(existing["dataset_version"], number))
    nearest = known.group_by(series.by).aggregate([("dataset_version", "max")]).to_pylist()
    nearest_versions = {(row[series.by], row["dataset_version_max"]) for row in nearest}
    labels = zip(known[series.by].to_pylist(), known["dataset_version"].to_pylist())
    return _last(known.filter(pa.array([label in nearest_versions for label in labels], pa.bool_())), existing, series)


def _last(rows_of_version: pa.Table | None, existing: pa.Table | None, series: Series) -> dict[date, PublishedNumber]:
    """The last number of each period among ``rows_of_version``."""
    if rows_of_version is None or existing is None or not len(rows_of_version):
        return {}
    every = table_io.split(existing, series.by)
    by_start = table_io.split(rows_of_version, series.by)
    return {start: _with_adjustments(rows, every[start], series) for start, rows in by_start.items()}


def _with_adjustments(rows_of_version: pa.Table, every: pa.Table, series: Series) -> PublishedNumber:
    """The last number among rows of a period; adjustments are added to the closed number, whichever version published them."""
    published = table_io.with_columns(rows_of_version, published_table.PUBLISHED_SCHEMA.names).to_pylist()
    newest = max(published, key=lambda row: (row["revision"], row["adjustment"] or 0))
    closed = every.filter(pc.equal(every["revision"], newest["revision"]))
    columns = [name for name in series.content if name in every.column_names]
    number = closed.filter(pc.is_null(closed["adjustment"])).select(columns)
    if newest["adjustment"] is None:
        return PublishedNumber(number, newest, intact=published_table.is_content(number, newest["content"]))
    counts = pc.fill_null(pc.less_equal(closed["adjustment"], newest["adjustment"]), fill_value=True)
    whole = history.with_adjustments(series, closed.filter(counts), number.schema)
    return PublishedNumber(whole.sort_by([(name, "ascending") for name in series.grain]) if series.grain else whole, newest)


class PromotionRefusedError(LakehouseError):
    """A promotion that cannot be made; nothing has changed. The message has one line per reason, with what to do."""


@dataclass(frozen=True)
class PromotionPlan:
    """The publication that a promotion or rollback would make.

    :param problems: reasons that forbid it.
    :param objections: differences that a person may accept.
    :param left: the first days of periods for which the version has no number: they stay unchanged until they are computed again.
    :param follows: the Silver version that the promoted numbers contain.
    """

    kind: PromotionKind
    shown: int
    to: Series
    before: SeriesSnapshot
    drafts: list[Draft]
    inputs: Mapping[str, Any]
    comparison: Comparison | None = None
    problems: Sequence[str] = ()
    objections: Sequence[str] = ()
    left: Sequence[date] = ()
    follows: int | None = None


@dataclass(frozen=True)
class _Both:
    """The version that readers see, and the version to be promoted, which has its own table."""

    shown: Series
    to: Series
    later: Series
    before: SeriesSnapshot
    table: DeltaTable | None
    old: Mapping[date, PublishedNumber]
    new: Mapping[date, PublishedNumber]


def shown_version(lake: Lake, metric: MetricContract) -> int:
    """The number of the dataset version that readers of a metric see."""
    return served_version.number(lake, Series(metric, called=metric.metric))


def compare(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    to_version: int,
    first: date | None = None,
    last: date | None = None,
    thresholds: Sequence[Threshold] = (),
) -> Comparison:
    """Compare the numbers that readers see with the newest numbers of another version, for all periods or between two days."""
    return _compared(lake, _both(lake, catalog, metric, to_version), thresholds, first, last)


def plan_promotion(
    lake: Lake, catalog: Catalog, metric: MetricContract, to_version: int, thresholds: Sequence[Threshold] = ()
) -> PromotionPlan:
    """Plan the promotion of a version, for all periods: readers never see two versions at the same time.

    :raises UnservedVersionError: if no contract describes one of the two versions.
    :raises PromotionRefusedError: for the version that the table itself is named after.
    """
    number = shown_version(lake, metric)
    later = served_version.version(catalog, metric, to_version).metric
    if later.name == metric.metric:
        command = f"lakehouse gold rollback {later.name} --to v{to_version}"
        msg = f"v{to_version} is in gold/{later.name} itself: '{command}' shows it again"
        raise PromotionRefusedError(msg)
    pending = find_pending(lake, Series(later))  # read first, so that later changes stay pending
    both = _both(lake, catalog, metric, to_version)
    drafts = _drafts(lake, catalog, both.before, both.new, later.publication, RevisionReason.MANUAL)
    comparison = _compared(lake, both, thresholds)
    unknown = {threshold.measure for threshold in thresholds} - {measure.name for measure in later.measures}
    problems = [
        *(f"--threshold: v{to_version} has no measure {name}" for name in sorted(unknown)),
        *compatibility.of_contracts(both.shown.metric, later),
        *compatibility.of_types(both.before.table, both.table, both.to),
        *compatibility.of_coverage(lake, both.old, both.new, both.later, pending),
        *compatibility.of_held(lake, both.shown, both.later),
        *compatibility.of_uncomputed(lake, both.later),
    ]
    beyond: list[str] = []
    if not problems:
        problems = list(compatibility.of_checks(lake, both.later, both.new, drafts))
        beyond = list(compatibility.of_comparisons(lake, both.to, both.old, both.new, drafts))
    covered = pending.starts <= both.new.keys()
    return PromotionPlan(
        kind=PromotionKind.PROMOTE,
        shown=number,
        to=both.to,
        before=both.before,
        drafts=drafts,
        inputs={
            f"gold/{both.later.name}": -1 if both.table is None else both.table.version(),
            "contracts": {one.name: provenance.of_contract(one) for one in (both.shown.metric, later)},
            **({"further": further} if (further := _followed_further(lake, later, pending, covered=covered)) else {}),
            **({f"silver/{table}": pending.upstream_version} if (table := served_version.followed_table(Series(later))) else {}),
        },
        comparison=comparison,
        problems=problems,
        objections=[*compatibility.removed(both.shown.metric, later), *map(_beyond, comparison.beyond()), *beyond],
        follows=None if later.is_derived else pending.upstream_version if covered else pending.since - 1,
    )


def _followed_further(lake: Lake, later: MetricContract, pending: PendingRestatement, *, covered: bool) -> Mapping[str, int]:
    """The versions of further tables, of sources and dimensions, from which the promoted numbers follow these tables."""
    return pending.further if covered else served_version.followed_further(lake, Series(later))


def plan_rollback(lake: Lake, catalog: Catalog, metric: MetricContract, to_version: int) -> PromotionPlan:
    """Plan the rollback to an earlier version: to its last numbers, from the history of the table.

    :raises UnservedVersionError: if no contract describes the version.
    :raises PromotionRefusedError: if readers never saw it.
    """
    number = shown_version(lake, metric)
    to = served_version.version(catalog, metric, to_version)
    before = write_audit_publish.read(lake, to)
    known = numbers_of_version(before.existing, to, to_version)
    if not known or to_version > number:
        msg = f"gold/{to.name} shows v{number}, and cannot be rolled back to v{to_version}: promote v{to_version}"
        raise PromotionRefusedError(msg)
    terms = to.metric.publication
    promised = [one for one in catalog.metrics.values() if one.metric == metric.metric and one.dataset_version == number]
    if any(one.publication.after_close == "adjust" for one in promised):
        terms = terms.model_copy(update={"after_close": "adjust"})  # the promise that readers have now remains valid
    return PromotionPlan(
        kind=PromotionKind.ROLLBACK,
        shown=number,
        to=to,
        before=before,
        drafts=_drafts(lake, catalog, before, known, terms, RevisionReason.ROLLBACK),
        inputs={"contracts": {to.metric.name: provenance.of_contract(to.metric)}},
        comparison=_put_back(lake, before, known, (number, to_version)),
        left=sorted(before.published_states.keys() - known.keys()),
    )


def _put_back(lake: Lake, before: SeriesSnapshot, known: Mapping[date, PublishedNumber], versions: tuple[int, int]) -> Comparison:
    """Compare what readers see now with what they see after a rollback; both are in the history of one table."""
    series = before.series
    found = history.versions_in(series, before.existing)
    shown = {start: history.in_whole(series, of_period[-1], of_period) for start, of_period in found.items()}
    after = {start: _in_whole(version, known[start]) if start in known else version for start, version in shown.items()}
    return history.comparison(series, shown, after, (f"v{versions[0]}", f"v{versions[1]}"), lake.now())


def _both(lake: Lake, catalog: Catalog, metric: MetricContract, to_version: int) -> _Both:
    to = served_version.version(catalog, metric, to_version)
    shown = served_version.version(catalog, metric, shown_version(lake, metric))
    later, before = Series(to.metric), write_audit_publish.read(lake, to)
    table = locations.gold(lake, later).snapshot()
    later_numbers = current_numbers(None if table is None else table_io.read_version(table), later)
    return _Both(shown, to, later, before, table, current_numbers(before.existing, shown), later_numbers)


def _drafts(
    lake: Lake,
    catalog: Catalog,
    before: SeriesSnapshot,
    numbers: Mapping[date, PublishedNumber],
    terms: PublicationRules,
    reason: RevisionReason,
) -> list[Draft]:
    """Draft the numbers that readers will see; changes of state are left to the daily close (see ``pending.find_due``)."""
    today, series, drafts = lifecycle.today(lake.now(), terms), before.series, []
    periods = [series.period(start) for start in numbers]
    source = catalog.sources.get(series.metric.source)  # a version of another source is refused later, with a sentence
    limits = closing.limits(lake, source, series, periods) if source else {}
    for start, number in sorted(numbers.items()):
        published, limit = before.published_states.get(start), limits[start].at_most if start in limits else State.FINAL
        at_most = late_at_close.at_most(series, published, State(number.row["state"]), limit)
        of_draft = candidates.DraftTerms(today, at_most, terms)
        draft = candidates.draft_period(before, start, number.rows, of_draft, requested=reason)
        if draft is not None and draft.action is not PublishAction.STATE_CHANGE:
            drafts.append(replace(draft, lineage=candidates.NumberLineage.of_row(number.row)))
    return drafts


def _compared(
    lake: Lake, both: _Both, thresholds: Sequence[Threshold], first: date | None = None, last: date | None = None
) -> Comparison:
    def side(series: Series, numbers: Mapping[date, PublishedNumber]) -> dict[date, PublishedVersion]:
        wanted = {start for start in numbers if (first is None or first <= start) and (last is None or start <= last)}
        found = history.newest(lake, series)
        return {start: _in_whole(found[start], numbers[start]) for start in sorted(wanted & found.keys())}

    labels = (f"v{both.shown.metric.dataset_version}", f"v{both.to.metric.dataset_version}")
    before, after = side(both.shown, both.old), side(both.later, both.new)
    return history.comparison(both.to, before, after, labels, lake.now(), thresholds)


def _in_whole(version: PublishedVersion, number: PublishedNumber) -> PublishedVersion:
    return replace(version, rows=number.rows.to_pylist(), adjustment=number.row["adjustment"])


def _beyond(change: MeasureDelta) -> str:
    """A change beyond a threshold, as a sentence."""
    where = ", ".join([change.period, *(f"{name} {value}" for name, value in change.grain)])
    much = "" if change.percent is None else f" ({change.percent:+} %)"
    return f"{change.measure} of {where}: {_plain(change.before)} -> {_plain(change.after)}{much} is beyond the threshold"


def _plain(number: object) -> str:
    return "nothing" if number is None else f"{number}"
