"""What a file would say, read as landing and Bronze read it, with nothing written and no JVM.

Row rules are Spark's to judge, and are left out here. What the file touches is told in ``impact``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze import delivery_reader
from lakehouse.calendar.event_day import lateness
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions.admission import ADMITTED, Standing, judge
from lakehouse.ledger import key_log
from lakehouse.ledger.row_ids import Delivery

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.bronze.landing import Fingerprint, LandingFile
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_NO_DAY = "without an event day"


@dataclass(frozen=True)
class Preview:
    """The rows of a file that may contend for their keys, by event day, and these keys.

    ``out`` counts the other rows, by what becomes of them.
    """

    rows: dict[date, int]
    keys: pa.Array
    out: dict[str, int]


def of(settings: Settings, contract: SourceContract, file: LandingFile, print_: Fingerprint) -> Preview:
    """Read a file that has not been taken in, as if it came now."""
    delivery = Delivery(file.name, print_.ingestion_id, file.arrival_date, settings.clock())
    by = contract.lateness.by.column if contract.lateness.by else "change_op"
    columns = list(dict.fromkeys([*key_log.BRONZE_COLUMNS, "event_ts", by]))
    schema = arrow_schema(tuple(column for column in bronze_columns(contract) if column[0] in columns))
    batches = delivery_reader.delivery_rows(settings, contract, delivery, file.path)
    rows = pa.Table.from_batches((batch.select(schema.names) for batch in batches), schema)
    standings = _standings(contract, rows, by)
    judged = rows.select(key_log.BRONZE_COLUMNS).append_column("standing", pa.array(standings, pa.string()))
    for name in key_log.JUDGED[1:]:
        judged = judged.append_column(name, pa.nulls(len(judged), key_log.SCHEMA.field(name).type))
    claims = key_log.claims(judged)
    admitted = claims.filter(pc.equal(claims["standing"], Standing.ADMITTED.value))
    own = admitted.filter(pc.not_equal(admitted["kind"], "retire"))
    days = Counter(own["event_date"].to_pylist())
    malformed = pc.sum(pc.is_valid(rows["malformed_reason"])).as_py() or 0
    out = Counter({"malformed": malformed, _NO_DAY: days.pop(None, 0)})
    out.update(standing for standing in standings if standing != Standing.ADMITTED.value)
    return Preview(dict(sorted(days.items())), pc.unique(admitted["record_key"]), {why: n for why, n in out.items() if n})


def _standings(contract: SourceContract, rows: pa.Table, by: str) -> list[str]:
    """What the watermark says of each row (R5); a malformed one is no claim, whatever its standing."""
    zone = ZoneInfo(contract.clocks.timezone)
    bounds_of = cache(contract.lateness.as_of)
    needed = ("event_ts", "event_date", "arrival_ts", "arrival_date", by, "malformed_reason")
    return [
        (
            ADMITTED
            if malformed is not None
            else judge(lateness(event_ts, event_date, arrival_ts, zone), bounds_of(kind and str(kind), arrival_date), [], {})
        ).standing.value
        for event_ts, event_date, arrival_ts, arrival_date, kind, malformed in zip(*(rows[name].to_pylist() for name in needed))
    ]
