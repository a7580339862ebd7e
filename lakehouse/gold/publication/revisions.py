"""The commit that publishes: new revisions or adjustments of periods, in one transaction (rule R7).

All writes to published tables happen here, except for masking. The modules that make drafts decide what is published; the schema
belongs to ``numbers.published_table``. Commits are made by delta-rs within milliseconds; of two commits that concern the same
period, the later one fails instead of overwriting the first. A commit records each of its versions, apart from the content, well
enough to write the version again.

A table that was restored from a copy, or whose log was damaged, lacks published versions. Readers have seen them, so nothing is
published before they are there again. Making them again belongs to ``gold.reproduction.repair``; commits that were lost without a
version are made up for here.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import PUBLISHED, Origin, named
from lakehouse.delta import commit_log, layout, partition_writer
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history, served_version, window_history
from lakehouse.gold.numbers.lifecycle import PublishAction, PublishedState, RevisionReason, State, VersionName, grows, next_change
from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA, TIME, published_states
from lakehouse.lake import table_io
from lakehouse.ledger import publications
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.lake import Lake


#: The entry of a record with the reasons of single windows, by ``window_history.place``.
_WINDOWS = "windows"
_READ = {pa.date32(): date.fromisoformat, pa.timestamp("us", "UTC"): datetime.fromisoformat}


def packed(versions: Iterable[Mapping[str, Any]]) -> str:
    """The record of ``versions``."""
    by_name = {
        values["version_name"]: {name: values[name] for name in PUBLISHED_SCHEMA.names}
        | ({_WINDOWS: values[_WINDOWS]} if values.get(_WINDOWS) else {})
        for values in versions
    }
    return base64.b64encode(zlib.compress(json.dumps(by_name, default=str).encode())).decode()


def unpacked(record: str | None) -> dict[str, dict[str, Any]]:
    """The versions of a record, by name; empty for a commit of an earlier release."""
    if not record:
        return {}
    by_name: dict[str, dict[str, Any]] = json.loads(zlib.decompress(base64.b64decode(record)))
    return {version: _typed(values) for version, values in by_name.items()}


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their types; a column that a later release has added is empty."""
    typed = {_WINDOWS: values[_WINDOWS]} if values.get(_WINDOWS) else {}
    for item in PUBLISHED_SCHEMA:
        value, read = values.get(item.name), _READ.get(item.type)
        typed[item.name] = read(value) if read and value is not None else value
    return typed


@dataclass(frozen=True)
class Signature:
    """The run, code and contract of a publication, and the person who signed it off."""

    run_id: str
    code_version: str
    contract_version: str
    publication_id: str
    now: datetime
    signed_off_by: str | None = None
    sign_off_reason: str | None = None
    why: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Revision:
    """A published revision or adjustment of one period.

    :param restates: whether it replaces a number that readers had, or adjusts a closed one.
    """

    start: date
    name: VersionName
    state: State
    reason: RevisionReason
    action: PublishAction
    restates: bool = False


def publish(
    lake: Lake,
    series: Series,
    table: DeltaTable | None,
    existing: pa.Table | None,
    drafts: Sequence[Draft],
    signed: Signature,
    serves: int | None = None,
) -> list[Revision]:
    """Publish drafts as the newest revisions of their periods, in one commit; without drafts only change the served version.

    :param table: the table before the inputs of the drafts were read; None if there was none.
    :param existing: its rows, at least those of these periods.
    :param serves: the dataset version that readers see from this commit on.
    :raises CommitFailedError: when another run has published one of the periods since ``table`` was opened; for days that
        readers see, when it has published any day.
    :raises MovedError: when readers now see another dataset version.
    """
    transaction = served_version.transaction(series, table) if serves is None else (served_version.SERVED, serves)
    if existing is not None:
        existing = existing.filter(pc.is_in(existing[series.by], pa.array([draft.start for draft in drafts], pa.date32())))
        # A later revision has a later time of publication, even if the clock of a historical replay goes back.
        signed = replace(signed, now=max(signed.now, pc.max(existing["published_at"]).as_py() or signed.now))
    before = published_states(existing, series.by)
    rows_by_period = {} if existing is None else table_io.split(existing, series.by)
    rows, revisions, recorded, booked_on = [], [], [], set[date]()
    for draft in drafts:
        own = rows_by_period.get(draft.start)
        booked_on |= _books_changed(draft, own)
        values, revision = _values(series, draft, before.get(draft.start), own, signed)
        adjusts = draft.action is PublishAction.ADJUSTMENT
        content = history.between(series, own, draft.rows) if adjusts else draft.rows
        rows.append(published_rows(series, draft.start, content, values))
        revisions.append(revision)
        recorded.append(values)
    why = {
        "run_id": signed.run_id,
        "as_of": signed.now.isoformat(),
        "publication_id": signed.publication_id,
        "published": {f"{revision.start}": f"{revision.name}" for revision in revisions},
        "versions": packed(recorded),
        "booked_on": sorted(f"{day}" for day in booked_on),
        **signed.why,
    }
    if table is not None and not drafts:
        partition_writer.commit_without_rows(table, why=why, transaction=transaction)
        return []
    wanted = pa.concat_tables(rows, promote_options="default")
    if table is None:
        table = _created(lake, series, wanted.schema)
    if existing is not None and len(existing):
        replaced = [draft.start for draft in drafts if draft.action is not PublishAction.ADJUSTMENT]
        wanted = pa.concat_tables([_superseded(existing, series.by, replaced, signed.now), wanted], promote_options="permissive")
    partition_writer.replace(table, wanted, [draft.start for draft in drafts], why=why, transaction=transaction)
    return revisions


def _books_changed(draft: Draft, existing: pa.Table | None) -> set[date]:
    """The days whose bookings change with a draft: where it is booked, or where adjustments are that a new revision contains."""
    if draft.booked_on is not None or existing is None:
        return {draft.booked_on} if draft.booked_on else set()
    replaced = existing.filter(pc.equal(existing["revision"], pc.max(existing["revision"])))
    return set(replaced["booked_on"].drop_null().to_pylist())


def published_rows(series: Series, start: date, content: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """The rows of one version of a period.

    :param values: the published columns other than grain and measures, and the reasons of windows if there are any.
    """
    size = len(content)
    columns = {series.by: pa.array([start] * size, pa.date32())}
    columns |= {name: content[name] for name in content.column_names}
    columns |= {item.name: pa.array([values[item.name]] * size, item.type) for item in PUBLISHED_SCHEMA}
    columns |= window_history.stored(content, series.metric, values.get(_WINDOWS) or {})
    return pa.table(columns)


def _values(
    series: Series, draft: Draft, before: PublishedState | None, existing: pa.Table | None, signed: Signature
) -> tuple[dict[str, Any], Revision]:
    """The published columns of one draft other than grain and measures, and the revision that it becomes."""
    period = series.period(draft.start)
    adjusts = draft.action is PublishAction.ADJUSTMENT
    number = (before.revision if before else 0) + (not adjusts)
    adjustment = (_adjustments(existing) + 1) if adjusts else None
    name = VersionName(series.name, period.name, number, adjustment)
    terms = series.metric.publication
    restated, explanation = None, None
    grew = not adjusts and before is not None and grows(draft.reason, before.state)
    restates = before is not None and draft.action is not PublishAction.STATE_CHANGE and not grew
    if restates:
        restated, explanation = signed.now, draft.explanation or draft.reason.value
    elif before is not None:
        restated, explanation = _last_restatement(existing)
    values: dict[str, Any] = {name: getattr(draft, name) for name in named(PUBLISHED, Origin.DRAFT)}
    values |= {name: getattr(signed, name) for name in named(PUBLISHED, Origin.SIGNATURE)}
    values |= vars(draft.lineage) | {
        "code_version": draft.lineage.code_version or signed.code_version,
        "contract_version": draft.lineage.contract_version or signed.contract_version,
        "period": period.name,
        "revision": number,
        "is_latest": not adjusts,
        "state": draft.state.value,
        "due_on": None if adjusts else next_change(period.last, draft.state, terms),
        "reason": draft.reason.value,
        "published_at": signed.now,
        "superseded_at": None,
        "restated_on": restated,
        "restatement_reason": explanation,
        "adjustment": adjustment,
        "version_name": f"{name}",
        "dataset_version": series.metric.dataset_version,
        _WINDOWS: dict(draft.windows),
    }
    return values, Revision(draft.start, name, draft.state, draft.reason, draft.action, restates)


def _adjustments(own: pa.Table | None) -> int:
    """The number of adjustments of a period."""
    return 0 if own is None else pc.max(own["adjustment"]).as_py() or 0


def _last_restatement(own: pa.Table | None) -> tuple[datetime | None, str | None]:
    """When and why a period was last restated: a change of state and growth keep both."""
    if own is None:
        return None, None
    row = own.filter(own["is_latest"]).select(["restated_on", "restatement_reason"]).slice(0, 1).to_pylist()
    return (row[0]["restated_on"], row[0]["restatement_reason"]) if row else (None, None)


def _superseded(existing: pa.Table, by: str, starts: Sequence[date], now: datetime) -> pa.Table:
    """The existing rows, with those of the given periods no longer marked as the newest."""
    ends = pc.and_(existing["is_latest"], pc.is_in(existing[by], pa.array(starts, pa.date32())))
    changed = {
        "is_latest": pc.if_else(ends, False, existing["is_latest"]),
        "due_on": pc.if_else(ends, pa.scalar(None, pa.date32()), existing["due_on"]),
        "superseded_at": pc.if_else(ends, pa.scalar(now, TIME), existing["superseded_at"]),
    }
    for name, values in changed.items():
        existing = existing.set_column(existing.column_names.index(name), name, values)
    return existing


def _created(lake: Lake, series: Series, schema: pa.Schema) -> DeltaTable:
    """Create the empty table.

    :raises CommitFailedError: if another writer has created it meanwhile, and may have published the same periods.
    """
    # Due periods are found by the statistics.
    partition_by, properties = layout.of_days(lake, series.by, partition_writer.ALL_STATISTICS)
    table = partition_writer.create(locations.gold(lake, series), schema, partition_by, properties=properties)
    if table.version() > 0:
        msg = f"another run has just published {series.name} for the first time"
        raise CommitFailedError(msg)
    return table


def write_again(
    lake: Lake,
    series: Series,
    table: DeltaTable | None,
    rows: pa.Table,
    starts: Sequence[date],
    why: Mapping[str, Any],
    serves: int,
) -> None:
    """Write the versions of periods that a table has lost, in one commit, or create the table with them; nothing is published.

    :param table: the table; None if it is gone.
    :param rows: all versions of the periods that begin at ``starts``.
    :param serves: the dataset version that readers saw.
    """
    transaction = (served_version.SERVED, serves) if serves > 1 else None
    if table is not None:
        partition_writer.replace(table, rows, starts, why=why, transaction=transaction)
        return
    partition_writer.replace(_created(lake, series, rows.schema), rows, starts, why=why, transaction=transaction)


_SHOWN = 3


class LostNumbersError(LakehouseError):
    """Published versions that a table no longer has. The message names them and the way out."""


def lost_numbers(lake: Lake, series: Series) -> Mapping[date, Sequence[str]]:
    """The versions that ``ops/publications`` records and the table of a series no longer has, by the first day of their period.

    Only a table that has lost commits is compared; for any other, the result is empty.
    """
    if served_version.lost_versions(lake, series) is None:
        return {}
    stored = locations.gold(lake, series).read(["version_name"])
    kept = set() if stored is None else set(stored["version_name"].to_pylist())
    lost: dict[date, list[str]] = defaultdict(list)
    for entry in publications.of(lake, series.name):
        for start, name in entry.published.items():
            if name not in kept:
                lost[date.fromisoformat(start)].append(name)
    return lost


def make_up_for_lost_commits(lake: Lake, series: Series) -> None:
    """Give a table of published numbers that has lost commits another lineage: its readers start over.

    Its own numbers are computed again, because the series counts as having followed nothing.

    :raises LostNumbersError: if it has lost versions: revisions, states and adjustments do not follow from silver.
    """
    lost = served_version.lost_versions(lake, series)
    if lost is None:
        return
    numbers = locations.gold(lake, series)
    table = numbers.open()
    if table is None:
        msg = (
            f"{numbers.name} is gone, and its numbers were published: 'lakehouse admin repair' makes them again from the inputs "
            "that they name, or restore the table from a copy"
        )
        raise LostNumbersError(msg)
    if versions := sorted(each for of_period in lost_numbers(lake, series).values() for each in of_period):
        msg = (
            f"{numbers.name} has lost published numbers ({join_limited(versions, _SHOWN, ' versions')}): 'lakehouse admin "
            "repair' makes them again from the inputs that they name, or restore a newer copy of the table"
        )
        raise LostNumbersError(msg)
    followed, kept = lost
    if not commit_log.is_closed(table, followed, kept):  # if it is, nothing has been published since
        commit_log.close_gap(numbers, followed, kept)
