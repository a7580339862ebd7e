"""Generated parts of key logs, with the decisions of stewards about some of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakehouse.dispositions.claims import Membership
from lakehouse.dispositions.reprocess_policy import POLICIES
from lakehouse.ledger import key_log
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.row_states import StewardVerdict

if TYPE_CHECKING:
    from lakehouse.dispositions.reprocess_policy import ReprocessPolicy
    from lakehouse.ledger.ids import RowId

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
DAYS = [date(2024, 1, day) for day in (1, 2, 3)]
FILES = ["f2", "f1", "f3"]
KEYS = ["a", "b", "c"]
#: The last two are in another order by UTF-16.
ORDERS = [None, None, "0a", "0a\x1f1", "\uffee", "\U0001f600"]
STATUSES = ["admitted", "admitted", "admitted", "quarantined", "rejected", "dropped"]


@dataclass(frozen=True)
class ClaimHistory:
    """Claims of a key log in any order, complete for their keys; the decisions in force; the content of each row.

    ``delivered`` holds the deliveries of some files, by file; ``again`` when some were delivered again.
    """

    policy: ReprocessPolicy
    log: list[dict[str, Any]]
    decided: dict[RowId, Decision]
    content: dict[RowId, tuple[Any, ...]]
    delivered: dict[str, set[Membership]]
    again: dict[str, datetime]


@st.composite
def claim_histories(draw: st.DrawFn) -> ClaimHistory:
    """Claims about three keys under any policy; their times are often equal."""
    policy = POLICIES[draw(st.sampled_from(sorted(POLICIES)))](
        by_sequence=draw(st.booleans()), one_event=draw(st.booleans()), max_shrink=draw(st.sampled_from([0.0, 0.5]))
    )
    kinds = ["insert", "insert", "correct", "delete"] if policy.name == "merge" else ["insert"]
    log: list[dict[str, Any]] = []
    decided: dict[RowId, Decision] = {}
    content: dict[RowId, tuple[Any, ...]] = {}
    arrivals = {file: draw(st.sampled_from(DAYS)) for file in FILES}
    again_at = st.none() | st.integers(0, 3).map(lambda hours: NOON + timedelta(hours=hours))
    deliveries = st.dictionaries(st.sampled_from(["m1", "m2"]), st.tuples(st.sampled_from(DAYS), again_at))
    delivered = {file: {Membership(name, *when) for name, when in draw(deliveries).items()} for file in FILES}
    for line in range(draw(st.integers(0, 14))):
        standing, kind, day = (draw(st.sampled_from(values)) for values in (STATUSES, kinds, [*DAYS, *DAYS, None]))
        file = draw(st.sampled_from(FILES))
        row: dict[str, Any] = dict.fromkeys(key_log.SCHEMA.names) | {
            "record_key": draw(st.sampled_from(KEYS)),
            "kind": kind,
            "event_date": day,
            "source_sequence": draw(st.integers(0, 2)) if policy.by_sequence else 0,
            "source_order": draw(st.sampled_from(ORDERS)) if policy.by_sequence else None,
            "arrival_ts": NOON + timedelta(hours=draw(st.integers(0, 2))),
            "ingestion_id": file,
            "line_number": line,
            "arrival_date": arrivals[file],
            "standing": standing,
            "reason": None if standing == "admitted" else "rule_failed",
            "detail": None if standing == "admitted" else draw(st.sampled_from([None, "fails r", "fails q"])),
            "failed_rules": draw(st.lists(st.sampled_from(["r", "q"]), unique=True) | st.none()),
            "beyond": draw(st.booleans()),
        }
        log.append(row)
        row_id = row["ingestion_id"], line
        corrects = draw(st.sampled_from([None, None, *KEYS])) if policy.name == "merge" else None
        if corrects not in {None, row["record_key"]}:
            log.append(row | {"record_key": corrects, "kind": "retire", "event_date": None})
        verdict = draw(st.none() | st.none() | st.sampled_from(sorted(StewardVerdict)))
        if verdict is not None:
            about = draw(st.booleans())
            decided[row_id] = Decision(*row_id, row["record_key"], verdict, "anna", "why", NOON, about_file=about)
        says = (row["record_key"], draw(st.sampled_from([0.0, -0.0, 1.0, None, float("nan")])), draw(st.sampled_from("xy")))
        content[row_id] = says
    hours = draw(st.dictionaries(st.sampled_from(FILES), st.integers(0, 3)))
    again = {file: NOON + timedelta(hours=hour) for file, hour in hours.items()}
    order = draw(st.permutations(range(len(log))))
    return ClaimHistory(policy, [log[place] for place in order], decided, content, delivered, again)
