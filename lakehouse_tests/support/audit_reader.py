"""The audit as tests read it: follow Silver's log, parse the rows, replay them to what Silver holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.silver_log import EVENTS

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse_tests.support.lake import SampleLake


def follow_audit(lake: Lake) -> int:
    """Write the audit of Silver's new versions.

    :returns: the number of new audit rows.
    """
    return audit.follow(lake, EVENTS, [])


def audit_rows(lake: Lake, **filters: Any) -> list[dict[str, Any]]:
    """Rows of the audit, with parsed values."""
    return [log.parsed(row) for row in log.read(lake, "events", **filters).to_pylist()]


def audit_columns(sample: SampleLake, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of the audit, in its order; values as in its JSON."""
    rows = [log.parsed(entry) for entry in log.read(sample.lake, "events").to_pylist()]
    assert len({entry["audit_id"] for entry in rows}) == len(rows), "an audit id stands twice"
    return [tuple(entry[name] for name in names) for entry in rows]


def replayed_audit(sample: SampleLake) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of Silver according to the audit, by key and event day."""
    state: dict[tuple[str, str], dict[str, Any]] = {}
    for key, day, old, new in audit_columns(sample, "event_id", "event_date", "original_value", "new_value"):
        before = {} if old is None else state.pop((key, old.get("event_date", f"{day}")))
        assert old is None or {name: before[name] for name in old} == old, "each row begins where the one before it ended"
        if new is not None:
            after = before | new
            assert (key, after["event_date"]) not in state
            state[key, after["event_date"]] = after
    return state
