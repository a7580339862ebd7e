"""``ops/late_arrival_audit``: a row per change of an existing silver row, per late insert, and per file and day of a first load.

This module determines why a commit was made, and it appends, reads and masks the rows. They are computed in ``audit_rows``, from
silver's change feed. Values are JSON of the changed fields, of the whole row if it was inserted or removed, or of the counts of a
first load, whose ``event_id`` is NULL.

The table is append-only. Later facts about a row are overlays that :func:`read` applies. Its redaction is in
``bronze/<source>_redactions``; ``audit`` removes redacted values from the files. Its notification is in
``ops/audit_notifications``, which is written here: a row per audit row of whose change all consumers were notified, with the time
and the notices. Which audit rows a delivered notice covers is decided in ``operations.notices.pending``.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, rebuild_requests, redactions
from lakehouse.ledger.ids import InputKind, is_manual_input, is_redelivery, row_id_of
from lakehouse.ledger.ingestions import all_of, inputs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.lake import Lake

ACTIONS = ("late_merge", "correction", "backfill", "replay", "redaction", "steward")
REDACTED = "[redacted]"
SCHEMA = pa.schema(
    [
        ("audit_id", pa.string()),
        ("source", pa.string()),
        ("event_id", pa.string()),
        ("event_date", pa.date32()),
        ("source_system", pa.string()),
        ("action_type", pa.string()),
        ("original_value", pa.string()),
        ("new_value", pa.string()),
        ("field_changed", pa.string()),
        ("reason", pa.string()),
        ("actor", pa.string()),
        ("runner_id", pa.string()),
        ("silver_version", pa.int64()),
        ("event_ts", pa.timestamp("us", "UTC")),
        ("arrival_ts", pa.timestamp("us", "UTC")),
        ("audit_ts", pa.timestamp("us", "UTC")),
        ("impacted_kpis", pa.string()),
        ("notification_sent", pa.bool_()),
    ]
)
_AS_JSON = ("original_value", "new_value", "impacted_kpis")
VALUES = ["original_value", "new_value"]
#: The log has no statistics of values: a redacted one would stay in it. Partitions and booleans need none.
_WITHOUT_STATISTICS = {*VALUES, "source", "notification_sent"}
PROPERTIES = {
    **partition_writer.APPEND_ONLY,
    "delta.dataSkippingStatsColumns": ",".join(name for name in SCHEMA.names if name not in _WITHOUT_STATISTICS),
}
_JSON = json.JSONEncoder(ensure_ascii=False)


class Ruling(NamedTuple):
    """The audit's description of a change: its action type, the actor, and the reason."""

    action: str
    actor: str | None
    reason: str | None


@dataclass(frozen=True)
class Cause:
    """Why a commit to silver was made: its metadata, and the decisions and redactions that it lists, by key.

    ``redelivered`` has the arrival days of content that counts again, by ingestion.
    """

    why: Mapping[str, Any]
    ingestions: frozenset[str]
    decided: Mapping[str, decisions.Decision]
    redacted: Mapping[str, redactions.Redaction]
    redelivered: Mapping[str, date] = field(default_factory=dict)

    @property
    def backfill(self) -> str | None:
        """The backfill plan or stage that made the commit, its author and reason; None for other commits."""
        plan, by, reason = (self.why.get(name) for name in ("backfill", "by", "reason"))
        if plan is None or "operation" in self.why:  # the reason of a plan's own request to rebuild names the plan
            return reason if plan else None
        return f"{plan if plan.startswith('stage ') else f'backfill {plan}'} by {by}: {reason}"

    @property
    def runner(self) -> str | None:
        """The person who ran the backfill, or promoted the stage, that made the commit; None for other commits."""
        return None if self.backfill is None else self.why.get("by")

    @cached_property
    def of_keys(self) -> dict[str, Ruling]:
        """The rulings on changes of keys about which people decided, by key."""
        decided = {key: Ruling("steward", decision.by, decision.reason) for key, decision in self.decided.items()}
        return decided | {key: Ruling("redaction", entry.by, entry.reason) for key, entry in self.redacted.items()}

    @cached_property
    def of_others(self) -> Ruling | None:
        """The ruling on the changes of all other keys; None if arrivals caused them, so that each row decides."""
        by, reason = self.why.get("by"), self.why.get("reason")
        if self.why.get("operation") in rebuild_requests.REPLAYS:
            return Ruling("replay", by, reason)
        if self.ingestions:
            return None
        # Under the policies that overwrite, a decision about one row brings in the other keys of its day.
        decision = next(iter(self.decided.values()), None)
        if decision is not None:
            return Ruling("steward", decision.by, decision.reason)
        return Ruling("backfill", by or "lakehouse", self.backfill or reason or "made again from Bronze")


def followed(lake: Lake, source: str, silver_id: str) -> int:
    """The newest version of silver that has been audited, -1 if none has.

    :param silver_id: distinguishes tables that existed at silver's address one after another, each with versions from 0.
    """
    reached = locations.audit_log(lake).transaction(_app_id(source, silver_id))
    return -1 if reached is None else reached


def cause(lake: Lake, source: str, why: Mapping[str, Any], redacted: Iterable[redactions.Redaction]) -> Cause:
    """The reason why a commit was made, from its metadata (see ``commit_log.commit_metadata``).

    :param redacted: all redactions of the source.
    """
    ids = set(why.get("ingestions", ()))
    ingestions = frozenset(input_id for input_id in ids if not is_manual_input(input_id))
    hidden = {entry.record_key: entry for entry in redacted if entry.redaction_id in ids}
    by_row = {}
    if any(map(InputKind.DECISION.is_kind_of, ids)):
        by_row = {decision.row: decision for decision in decisions.all_of(lake, source, ids)}
    where = {"ingestion_id": {row[0] for row in by_row}}
    columns = ["record_key", "ingestion_id", "line_number"]
    claims = locations.key_log(lake, source).read(columns, where) if by_row else None
    decided = {decision.record_key: decision for decision in by_row.values()}
    for claim in [] if claims is None else claims.to_pylist():  # a row's claim about another key is decided with the row
        decision = by_row.get(row_id_of(claim))
        if decision is not None:
            decided.setdefault(claim["record_key"], decision)
    known = inputs(all_of(lake, source)) if any(map(is_redelivery, ids)) else {}
    again = {known[one].ingestion_id: known[one].arrival_date for one in ids if is_redelivery(one) and one in known}
    return Cause(why, ingestions, decided, hidden, again)


def append(lake: Lake, source: str, silver_id: str, version: int, rows: pa.Table, masked_for: int = 0) -> int:
    """Append the audit of one version of silver; repeating it writes nothing.

    :param masked_for: the number of redactions of the source for which the rows are masked; see ``audit``.
    :returns: the number of rows written.
    """

    def still_masked(table: DeltaTable) -> tuple[str, int]:
        before = table.transaction_version(masked_id(source)) or 0
        return masked_id(source), min(masked_for, before) if len(rows) else before

    written = row_writer.append(
        locations.audit_log(lake),
        rows,
        partition_by=["source"],
        once=row_writer.Once(_app_id(source, silver_id), version),
        properties=PROPERTIES,
        also=still_masked,
    )
    return len(rows) if written else 0


def read(
    lake: Lake,
    source: str,
    *,
    day: date | None = None,
    key: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
) -> pa.Table:
    """The audit rows of a source that meet all given conditions, oldest first, with present redactions and notifications.

    :param day: rows about this event day; a move is about both of its days.
    :param since: rows written at this time or later.
    """
    asked = {"event_id": key, "actor": actor, "action_type": action}
    where: dict[str, Collection[Any]] = {name: [value] for name, value in asked.items() if value is not None}
    found = locations.audit_log(lake).read(SCHEMA.names, {"source": [source], **where})
    rows = SCHEMA.empty_table() if found is None else found.cast(SCHEMA)
    if day is not None:
        # Quotes inside values are escaped, so that only the field itself matches.
        left = pc.match_substring(rows["original_value"], f'"event_date": "{day}"')
        rows = rows.filter(pc.or_(pc.equal(rows["event_date"], day), pc.fill_null(left, False)))
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["audit_ts"], pa.scalar(since, SCHEMA.field("audit_ts").type)))
    rows = shown(rows, redacted_fields(redactions.all_of(lake, source)))
    is_notified = pc.or_(rows["notification_sent"], are_recorded(lake, source, rows))
    rows = rows.set_column(SCHEMA.names.index("notification_sent"), SCHEMA.field("notification_sent"), is_notified)
    order = ("audit_ts", "silver_version", "event_id", "event_date")
    return rows.sort_by([(name, "ascending") for name in order])


def untold(lake: Lake, source: str, versions: Collection[int]) -> pa.Table:
    """The rows of ``versions`` of silver of which consumers have not been notified: their ids, version and impacted numbers.

    Earlier releases recorded notifications in ``notification_sent`` itself.
    """
    columns = [*AUDIT_ROW, "silver_version", "impacted_kpis"]
    where = {"source": [source], "silver_version": versions, "notification_sent": [False]}
    found = locations.audit_log(lake).read(columns, where) if versions else None
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    rows = schema.empty_table() if found is None else found.cast(schema)
    return rows.filter(pc.invert(are_recorded(lake, source, rows)))


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of :func:`read` with its JSON columns decoded."""
    return {name: json.loads(value) if name in _AS_JSON and value is not None else value for name, value in row.items()}


def masked(row: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The row with the values of the redacted fields masked; the names of the changed fields stay."""
    hidden = dict(row)
    for name in VALUES:
        if row[name] is not None:
            hidden[name] = _JSON.encode(masked_values(json.loads(row[name]), fields))
    return hidden


def masked_values(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Values by field, with those of the redacted ``fields`` masked."""
    return {name: REDACTED if name in fields else value for name, value in values.items()}


def id_of(source: str, version: int, key: str, *days: date, number: int = 1) -> str:
    """The id of a row: the same each time that the same version of silver is audited.

    :param number: counts the rows with the same key and days in a version, from 1.
    """
    name = "\n".join([source, f"{version}", key, *(f"{day}" for day in days), *([f"{number}"] if number > 1 else [])])
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def redacted_fields(entries: Iterable[redactions.Redaction]) -> dict[str, set[str]]:
    """The redacted fields of each key."""
    fields: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        fields[entry.record_key].update(entry.fields)
    return fields


def shown(rows: pa.Table, fields: Mapping[str, Collection[str]]) -> pa.Table:
    """The rows with the redacted fields of their keys masked; in another order if any is."""
    is_redacted = pc.is_in(rows["event_id"], value_set=pa.array(list(fields), pa.string()))
    if not pc.any(is_redacted).as_py():
        return rows
    hidden = [masked(row, fields[row["event_id"]]) for row in rows.filter(is_redacted).to_pylist()]
    return pa.concat_tables([rows.filter(pc.invert(is_redacted)), pa.Table.from_pylist(hidden, schema=rows.schema)])


def masked_id(source: str) -> str:
    """The Delta transaction whose version is the number of redactions for which all rows of a source are masked."""
    return f"audit masked:{source}"


def _app_id(source: str, silver_id: str) -> str:
    return f"audit:{source}:{silver_id}"


#: The columns that identify an audit row: silver that was created again has the same versions, and so the same ids.
AUDIT_ROW = ["source", "audit_id", "audit_ts"]
_TIME = pa.timestamp("us", "UTC")

NOTIFICATIONS_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("audit_id", pa.string()),
        ("audit_ts", _TIME),
        ("silver_version", pa.int64()),
        ("notified_at", _TIME),
        ("notices", pa.string()),
    ]
)


@row_writer.retried_on_conflict
def record_notified(lake: Lake, source: str, rows: pa.Table) -> int:
    """Record in one commit that consumers were notified of the audit rows ``rows``; recorded ones are unchanged.

    :param rows: of one source, with :data:`AUDIT_ROW`, ``silver_version`` and ``notices``, the ids of the messages as JSON.
    :returns: the number of rows appended.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    if not len(rows):
        return 0
    stored = locations.audit_notifications(lake)
    table = row_writer.open_or_create(stored, NOTIFICATIONS_SCHEMA, ["source"], partition_writer.APPEND_ONLY)
    known = _of_version(table_io.read_version(table, AUDIT_ROW, _where(source, rows["silver_version"])))
    at = pa.repeat(pa.scalar(lake.now(), _TIME), len(rows))
    new = rows.append_column("notified_at", at).filter(pc.invert(_among(rows, known)))
    return row_writer.append_new(
        stored, table, [new.select(NOTIFICATIONS_SCHEMA.names).cast(NOTIFICATIONS_SCHEMA)], [f"notified:{source}"]
    )


def are_recorded(lake: Lake, source: str, rows: pa.Table) -> pa.Array:
    """Whether, according to this table, consumers were notified of each of ``rows``.

    :param rows: of one source, with :data:`AUDIT_ROW` and ``silver_version``.
    :returns: a boolean per row.
    """
    where = _where(source, rows["silver_version"])
    found = locations.audit_notifications(lake).read(AUDIT_ROW, where)
    return _among(rows, None if found is None else _of_version(found))


def _where(source: str, versions: pa.ChunkedArray) -> dict[str, Collection[object] | pa.Array]:
    return {"source": [source], "silver_version": pc.unique(versions.combine_chunks())}


def _of_version(found: pa.Table) -> pa.Table:
    return found.cast(pa.schema([NOTIFICATIONS_SCHEMA.field(name) for name in AUDIT_ROW]))


def _among(rows: pa.Table, known: pa.Table | None) -> pa.Array:
    """Whether each row is among ``known``, in the order of the rows."""
    if known is None or not len(known):
        return pa.repeat(pa.scalar(False), len(rows))
    places = pa.array(np.arange(len(rows)))
    hit = rows.select(AUDIT_ROW).append_column("place", places).join(known, AUDIT_ROW, join_type="left semi")["place"]
    return pc.is_in(places, value_set=hit.combine_chunks())
