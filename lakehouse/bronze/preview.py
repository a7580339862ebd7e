"""Previews a landing file: parses it as Bronze does and writes nothing.

Row rules are left out, because they are evaluated by Spark. Which published numbers the file affects is in ``impact``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze import delivery_reader
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import claims, judged_rows
from lakehouse.ledger import key_log
from lakehouse.ledger.row_ids import DeliveredFile
from lakehouse.ledger.row_states import AdmissionStatus, QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.bronze.landing import Fingerprint, LandingFile
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_NO_DAY = "without an event day"
_OF_MALFORMED, _SHOWN = ("line_number", "malformed_reason", "raw_payload"), 3


@dataclass(frozen=True)
class Preview:
    """The rows of a file that may contend for their keys, by event day, and these keys.

    ``out`` counts the other rows, by the reason why they may not contend; ``beyond`` those that the contract holds or drops
    because they come beyond the cutoff. ``event_days`` are those of all well-formed rows, ``values`` their values by column;
    ``malformed`` has line number, reason and raw text of the first malformed rows.
    """

    rows: dict[date, int]
    keys: pa.Array
    out: dict[str, int]
    values: dict[str, pa.Array] = field(default_factory=dict)
    malformed: list[dict[str, Any]] = field(default_factory=list)
    beyond: int = 0
    event_days: frozenset[date] = frozenset()


def preview_file(
    settings: Settings,
    contract: SourceContract,
    file: LandingFile,
    fingerprint: Fingerprint,
    values_of: Collection[str] = (),
    *,
    admit_history: bool = False,
) -> Preview:
    """Read a file that has not been ingested, as if it arrived now.

    :param values_of: columns whose values are wanted.
    :param admit_history: whether the rows that come beyond the cutoff are admitted as history.
    """
    delivery = DeliveredFile(file.name, fingerprint.ingestion_id, file.arrival_date, settings.clock())
    columns = {*judged_rows.columns_to_judge(contract), *values_of, *_OF_MALFORMED}
    schema = arrow_schema(tuple(column for column in bronze_columns(contract) if column[0] in columns))
    batches = delivery_reader.delivery_rows(settings, contract, delivery, file.path)
    rows = pa.Table.from_batches((batch.select(schema.names) for batch in batches), schema)
    judged = judged_rows.judged(contract, rows)
    beyond = pc.sum(pc.equal(judged["reason"], QuarantineReason.BEYOND_WATERMARK.value)).as_py() or 0
    if beyond and admit_history:
        judged = judged_rows.judged(contract, rows, pa.array([fingerprint.ingestion_id]))
    admitted = claims.admitted_by_contract(key_log.claims(judged))
    days = claims.rows_by_event_day(admitted)
    malformed = pc.sum(pc.is_valid(rows["malformed_reason"])).as_py() or 0
    out = Counter({"malformed": malformed, _NO_DAY: days.pop(None, 0)})
    standings = pc.value_counts(judged["standing"])
    out.update(dict(zip(standings.field("values").to_pylist(), standings.field("counts").to_pylist())))
    del out[AdmissionStatus.ADMITTED.value]
    by_day = {day: count for day, count in sorted(days.items()) if day is not None}
    sound = rows.filter(pc.is_null(rows["malformed_reason"])) if values_of else rows
    values = {name: pc.unique(sound[name]).drop_null() for name in values_of}
    unread = rows.filter(pc.is_valid(rows["malformed_reason"])).select(_OF_MALFORMED).slice(0, _SHOWN).to_pylist()
    left_out = {reason: count for reason, count in out.items() if count}
    event_days = frozenset(pc.unique(rows["event_date"].filter(pc.is_null(rows["malformed_reason"])).drop_null()).to_pylist())
    return Preview(by_day, pc.unique(admitted["record_key"]), left_out, values, unread, beyond, event_days)
