"""Examples of the responses about late events, for the OpenAPI document."""

from __future__ import annotations

_COUNTS = {
    "metric": "orders_by_hour",
    "rows": 12_060,
    "on_time": 11_700,
    "late_accepted": 330,
    "late_dropped": 30,
    "on_time_rate": 0.970149,
    "late_accepted_rate": 0.027363,
    "late_dropped_rate": 0.002488,
}
#: By path of a route.
EXAMPLES = {
    "/metrics/{name}/late-events": {
        **_COUNTS,
        "source": "sales",
        "action": "recompute",
        "at_close": "include",
        "allowed_lateness_seconds": 300,
        "total": 1,
        "late_rows": [
            {
                "ingestion_id": "3f2a9c1b7d4e5f60",
                "line_number": 17,
                "record_key": "order-4711",
                "event_ts": "2024-11-07T13:41:10Z",
                "event_date": "2024-11-07",
                "arrival_ts": "2024-11-07T16:20:00Z",
                "lateness_seconds": 9_530.0,
                "watermark": "2024-11-07T15:58:00Z",
                "window_end": "2024-11-07T14:00:00Z",
                "action": "side_output",
                "reason": "dropped_beyond_tolerance",
                "counts": False,
                "windows": ["2024-11-07T13"],
                "counted_at_close": False,
            }
        ],
    },
    "/sources/{source}/late-events": {
        "source": "sales",
        "total": _COUNTS | {"metric": "sales"},
        "metrics": [_COUNTS],
    },
}
