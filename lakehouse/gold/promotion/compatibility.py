"""Whether a dataset version may replace the one that readers see: the reasons that forbid it, as sentences.

The permitted difference of numbers is limited by thresholds (``numbers.comparison``). Nothing is published here (see
``promotion``).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.checks import GoldChecks
from lakehouse.contracts.series import days_reached
from lakehouse.delta import change_feed
from lakehouse.gold.publication import candidates, held_numbers, late_at_close, write_audit_publish
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.restatement import lineage as restatement_lineage
from lakehouse.ledger import failures as failed_numbers
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.promotion.plan import PublishedNumber
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

_SHOWN, _SHOWN_FAILURES = 5, 20


def of_contracts(shown: MetricContract, to: MetricContract) -> Iterator[str]:
    """Settings in which two contracts of a metric must agree, because the table and its roll-ups stay the same."""
    name, later = f"v{shown.dataset_version}", f"v{to.dataset_version}"
    agreed = {
        "source": (shown.source, to.source),
        "sources": ([entry.source for entry in shown.sources], [entry.source for entry in to.sources]),
        "grain": (shown.grain, to.grain),
        "publication.rollups": (sorted(shown.publication.rollups), sorted(to.publication.rollups)),
        "publication.fiscal_year_starts": (shown.publication.fiscal_year_starts, to.publication.fiscal_year_starts),
    }
    for what, (old, new) in agreed.items():
        if old != new:
            yield f"{what} is {new} in {later} and {old} in {name}; a table has one for all readers: define another metric"
    if (shown.publication.after_close, to.publication.after_close) == ("adjust", "restate"):
        yield f"{name} promised that closed periods stay as they are; write 'after_close: adjust' into the contract of {later}"


def of_types(shown: DeltaTable | None, later: DeltaTable | None, to: Series) -> Iterator[str]:
    """Columns of both tables that have different types."""
    if shown is None or later is None:
        return
    old, new = ({item.name: item.type for item in table.schema().fields} for table in (shown, later))
    for name in to.content:
        if name in old and name in new and old[name] != new[name]:
            yield (
                f"{name} is {_type(new[name])} in v{to.metric.dataset_version} and {_type(old[name])} in gold/{to.name}; "
                "cast it in the contract, or give it another name"
            )


def removed(shown: MetricContract, to: MetricContract) -> Iterator[str]:
    """Measures that readers would lose; a person may accept that."""
    there = {measure.name for measure in to.measures}
    for measure in shown.measures:
        if measure.name not in there:
            yield f"v{to.dataset_version} has no {measure.name}: it would be NULL from now on"


def of_coverage(
    lake: Lake,
    shown: Mapping[date, PublishedNumber],
    numbers: Mapping[date, PublishedNumber],
    later: Series,
    pending: PendingRestatement,
) -> Iterator[str]:
    """Periods for which the version has no number, or none that contains the present state of Silver."""
    if not numbers:
        yield f"gold/{later.name} has no number; {_fill(later, shown)}"
        return
    # A day that was emptied before the version was filled cannot be filled, and its absence does not matter.
    missing = [start for start in shown if start not in numbers and (start in pending.starts or not shown[start].is_empty)]
    if missing:
        yield f"gold/{later.name} has no number for {join_periods(missing)}, which readers see; {_fill(later, missing)}"
    stale = _stale(lake, numbers, later, pending)
    if stale:
        tables = [entry.silver for entry in later.metric.read] or [locations.silver_name(later.metric)]
        yield (
            f"{' or '.join(f'silver/{table}' for table in tables)} has changed {join_periods(stale)} since "
            f"gold/{later.name} was computed; {_fill(later, stale)}"
        )


def _stale(lake: Lake, numbers: Mapping[date, PublishedNumber], later: Series, pending: PendingRestatement) -> list[date]:
    """The pending days, without those that a run over a range has computed since.

    With several sources a number names only the version of the first one, so that all pending days count.
    """
    if later.metric.sources:
        return sorted(pending.starts & numbers.keys())
    table = locations.silver_read(lake, later.metric).open()
    made: dict[int, set[date]] = defaultdict(set)
    for start in pending.starts & numbers.keys():
        version = numbers[start].row["silver_version"]
        made[-1 if version is None else version].add(start)
    stale: set[date] = set()
    for version, starts in made.items() if table is not None else ():
        try:
            changed = change_feed.describe(table, version + 1, pending.upstream_version)
        except change_feed.ForgottenFeedError:
            stale |= starts  # whether they changed is no longer known
            continue
        stale |= starts & days_reached(later.metric, changed)
    return sorted(stale)


def of_held(lake: Lake, *series: Series) -> Iterator[str]:
    """Held numbers and reverted days: they must be decided under the logic that computed them."""
    for shown in series:
        kept = held_numbers.kept_periods(lake, shown.name)
        if kept:
            yield f"gold/{shown.name} has reverted days: release {join_periods(kept)} first, see 'lakehouse gold held'"
        held = [candidate.start for candidate in candidates.held(lake, shown)]
        if held:
            yield f"gold/{shown.name} has held numbers of {join_periods(held)}: publish or drop them, see 'lakehouse gold held'"


def of_uncomputed(lake: Lake, later: Series) -> Iterator[str]:
    """The numbers of the later version that cannot be computed; failing numbers of the present version may be fixed by the
    promotion.
    """
    for failed in failed_numbers.failing(lake, later.name).values():
        yield failed.explanation


def of_checks(lake: Lake, later: Series, numbers: Mapping[date, PublishedNumber], drafts: Collection[Draft]) -> Iterator[str]:
    """The failures of the blocking checks on the numbers that readers would see, each among the numbers of its version.

    Comparisons with the version that readers see belong to :func:`of_comparisons`. A number that a person signed off stays signed
    off.
    """
    broken = [draft.start for draft in drafts if not numbers[draft.start].intact]
    if broken:
        yield f"gold/{later.name} no longer contains what was computed for {join_periods(broken)}; {_fill(later, broken)}"
    metric, starts = later.metric, [draft.start for draft in drafts]
    checks = metric.checks.model_copy(update={"change": []})
    trailing = write_audit_publish.trailing(lake, later, starts)
    every = late_at_close.closed_with_every_row(lake, later, starts)
    expected = restatement_lineage.count_silver_rows(lake, metric, starts, every)
    for draft in drafts:
        row = numbers[draft.start].row
        signed_off = row["signed_off_by"] is not None
        candidate = publication_checks.Candidate(
            metric=later.name,
            period=draft.start,
            revision=row["revision"],
            grain=metric.grain,
            rows=draft.rows,
            read_back=draft.rows,
            trailing=trailing,
            silver_rows=None if signed_off else expected.get(draft.start),
        )
        for outcome in publication_checks.blocking(publication_checks.audit(GoldChecks() if signed_off else checks, candidate)):
            yield f"{outcome.check} of {draft.start}: {publication_checks.problem_of(outcome)}"


def of_comparisons(
    lake: Lake,
    to: Series,
    shown: Mapping[date, PublishedNumber],
    numbers: Mapping[date, PublishedNumber],
    drafts: Collection[Draft],
) -> Iterator[str]:
    """The failures of the blocking rules that compare a number with others, against the numbers that readers see now.

    The numbers are judged as if they restated the present ones: by the change from the number of the same period, and by the
    drift from it or from the days before it. A person may accept them.

    :returns: a sentence per check, with its periods.
    """
    rules = to.metric.checks
    trailing_rows = rules.row_count.model_copy(update={"min": None, "max": None}) if rules.row_count else None
    compared = GoldChecks(
        row_count=trailing_rows if trailing_rows and trailing_rows.trailing else None, drift=rules.drift, change=rules.change
    )
    if compared == GoldChecks():
        return
    starts = [draft.start for draft in drafts]
    trailing = write_audit_publish.trailing(lake, to, starts)
    failures: dict[str, list[str]] = defaultdict(list)
    for start in starts:
        rows = numbers[start].rows
        candidate = publication_checks.Candidate(
            metric=to.name,
            period=start,
            revision=numbers[start].row["revision"],
            grain=to.metric.grain,
            rows=rows,
            read_back=rows,
            published=shown[start].rows if start in shown else None,
            trailing=trailing,
        )
        for outcome in publication_checks.blocking(publication_checks.audit(compared, candidate)):
            if outcome.check not in publication_checks.ALWAYS:
                failures[outcome.check].append(f"{start}: {publication_checks.problem_of(outcome).rstrip('.')}")
    for check, of_check in failures.items():
        listed = join_limited(of_check, _SHOWN_FAILURES, " periods")
        yield f"{check} fails against the numbers that readers see for {len(of_check)} of {len(starts)} numbers: {listed}"


def changed_logic(shown: MetricContract, to: MetricContract) -> list[str]:
    """The differences between two contracts of a metric that change the meaning of its numbers, as sentences for readers."""
    old, new = ({measure.name: measure for measure in one.measures} for one in (shown, to))
    sentences = [to.description] if to.description and to.description != shown.description else []
    sentences += [f"{name} is new: {new[name].sql}" for name in new if name not in old]
    sentences += [f"{name} is no longer computed" for name in old if name not in new]
    sentences += [
        f"{name} was {old[name].sql} and is {new[name].sql}" for name in new if name in old and old[name].sql != new[name].sql
    ]
    if shown.window != to.window:
        covers, covered = (terms.event_window or f"{terms.window} days" for terms in (to, shown))
        sentences.append(f"a day's number covers {covers}, and covered {covered}")
    return sentences


def join_periods(starts: Collection[date]) -> str:
    """The first of ``starts``, and the number of further ones."""
    return join_limited([f"{start}" for start in sorted(starts)], _SHOWN)


def _fill(later: Series, starts: Collection[date]) -> str:
    """The command that computes the version for ``starts``."""
    command = f"dagster asset materialize --select gold/{later.name}"
    reach = f" --partition-range {min(starts)}...{max(starts)}" if starts else ""
    return f"fill it first: '{command}{reach}'"


def _type(kind: object) -> str:
    return str(getattr(kind, "type", kind))
