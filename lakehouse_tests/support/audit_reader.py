"""The audit as tests read it: follow Silver's log, parse the rows, replay them to what Silver holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.silver_log import EVENTS

if TYPE_CHECKING:
    from lakehouse.settings import Settings
    from lakehouse_tests.support.lake import Lake


def follow_audit(settings: Settings) -> int:
    """Write the audit of Silver's new versions.

    :returns: the number of new audit rows.
    """
    return audit.follow(settings, EVENTS, [])


def audit_rows(settings: Settings, **filters: Any) -> list[dict[str, Any]]:
    """Rows of the audit, with parsed values."""
    return [log.parsed(row) for row in log.read(settings, "events", **filters).to_pylist()]


def audit_columns(lake: Lake, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of the audit, in its order; values as in its JSON."""
    rows = [log.parsed(entry) for entry in log.read(lake.settings, "events").to_pylist()]
    assert len({entry["audit_id"] for entry in rows}) == len(rows), "an audit id stands twice"
    return [tuple(entry[name] for name in names) for entry in rows]


def replayed_audit(lake: Lake) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of Silver according to the audit, by key and event day."""
    state: dict[tuple[str, str], dict[str, Any]] = {}
    for key, day, old, new in audit_columns(lake, "event_id", "event_date", "original_value", "new_value"):
        before = {} if old is None else state.pop((key, old.get("event_date", f"{day}")))
        assert old is None or {name: before[name] for name in old} == old, "each row begins where the one before it ended"
        if new is not None:
            after = before | new
            assert (key, after["event_date"]) not in state
            state[key, after["event_date"]] = after
    return state
