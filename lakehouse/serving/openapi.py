"""The parts of the OpenAPI document that FastAPI omits: problem documents, examples, and responses without a body.

Examples are listed by the path of GET (and of the only POST). Response models are in ``models``, ``quality_models`` and
``released_models``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import FastAPI

from lakehouse.gold.numbers import comparison_routes
from lakehouse.late_events import routes as late_events
from lakehouse.live import routes as live
from lakehouse.live import routes as live_numbers
from lakehouse.serving import released_models as released
from lakehouse.serving import responses
from lakehouse.serving.models import MODEL
from lakehouse.serving.quality_models import ProblemModel
from lakehouse.snapshots import routes
from lakehouse.text import with_earlier_names

_SCHEMAS = "#/components/schemas/"
_MODEL_REFERENCE = re.compile(rf'("{_SCHEMAS}\w+){MODEL}"')
#: The status codes that any request may get.
ERRORS = {
    400: "The request makes no sense.",
    404: "There is no such metric, window, version, source or row.",
    421: "The server does not accept this host name.",
    422: "A parameter is not as documented.",
    429: "Too many requests.",
    500: "An internal error; the server's log describes the incident.",
    503: "The tables cannot be read.",
}
#: The status codes of a request that needs a token.
TOKEN_ERRORS = {401: "A token is needed."}
#: The status codes of a request that needs a steward's token.
STEWARD_ERRORS = TOKEN_ERRORS | {403: "The token does not allow it."}
#: The status codes of a request that writes.
WRITE_ERRORS = TOKEN_ERRORS | {
    403: "The token does not allow it, or the request comes from a page of another site.",
    409: "The row cannot be decided on.",
    413: "The request is too large.",
}


def problem_responses(meanings: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """The problem documents of a route, in the form of FastAPI's ``responses``.

    :param meanings: the meaning of each status.
    """
    content = {responses.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {status: {"description": text, "content": content} for status, text in meanings.items()}


def _examples(path: str) -> dict[str, Any]:
    """The example of a response, or one example per layer if both layers may respond."""
    if path not in live_numbers.NUMBER_EXAMPLES:
        return {"example": ANSWERS[path]}
    return {"examples": {"books": {"value": ANSWERS[path]}, "live": {"value": live_numbers.NUMBER_EXAMPLES[path]}}}


class DocumentedAPI(FastAPI):
    """An application whose OpenAPI document has the parts that FastAPI omits. The document is built on its first request."""

    def openapi(self) -> dict[str, Any]:
        """The complete OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    document = json.loads(_MODEL_REFERENCE.sub(r'\1"', json.dumps(document)))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path in ANSWERS:
                operation["responses"]["200"]["content"]["application/json"] |= _examples(path)
            if method == "get":
                operation["responses"]["304"] = {"description": "The response named by If-None-Match is still current."}
    schemas = {name.removesuffix(MODEL): schema for name, schema in document["components"]["schemas"].items()}
    problem = ProblemModel.model_json_schema(ref_template=_SCHEMAS + "{model}")
    definitions = {name.removesuffix(MODEL): schema for name, schema in problem.pop("$defs", {}).items()}
    problem = json.loads(_MODEL_REFERENCE.sub(r'\1"', json.dumps(problem)))
    document["components"]["schemas"] = schemas | definitions | {"Problem": problem}
    return document


_WINDOW: dict[str, Any] = {
    "metric": "revenue",
    "series": "revenue",
    "window": "2024-11-07",
    "first_day": "2024-11-07",
    "last_day": "2024-11-07",
    "deprecated_on": None,
}
_TIER: dict[str, Any] = {"within_seconds": 86_400, "serves": "daily numbers", "tolerated_share": 0.05, "beyond": 1_206}
_VERSION: dict[str, Any] = {
    "version_name": "revenue_v2024-11-07.r2",
    "version": "r2",
    "revision": 2,
    "adjustment": None,
    "state": "preliminary",
    "label": "Preliminary",
    "is_final": False,
    "is_latest": True,
    "result": [{"revenue": "1204.50", "sales": 61, "customers": 40, "row_count": 61}],
    "total_rows": 1,
    "event_count": 61,
    "undecided_rows": 0,
    "changed_rows": 3,
    "computed_at": "2024-11-08T06:00:00Z",
    "superseded_at": None,
    "reason": "late_data",
    "restated_on": "2024-11-08T06:00:00Z",
    "restatement_reason": "late_data: 3 inserted",
    "booked_on": None,
    "known_through": "2024-11-08",
    "due_on": "2024-11-14",
    "dataset_version": 1,
    "signed_off_by": None,
    "sign_off_reason": None,
}
_MOVED: dict[str, Any] = {"revenue": {"before": "1180.00", "after": "1204.50", "difference": "24.50", "percent": 2.08}}
_SIDE: dict[str, Any] = {
    "asked": "latest",
    "version_name": "revenue_v2024-11-07.r2",
    "version": "r2",
    "state": "preliminary",
    "label": "Preliminary",
    "computed_at": "2024-11-08T06:00:00Z",
    "note": None,
}
_POINT = ("window", "first_day", "last_day", "version", "state", "label", "is_final", "revision", "event_count", "computed_at")
_CHANGED = ("version", "version_name", "state", "reason", "restatement_reason", "changed_rows", "booked_on", "signed_off_by")
_NUMBER: dict[str, Any] = _WINDOW | {"layer": "books"} | _VERSION
_KNOWN: dict[str, Any] = {"window": "2024-11-07", "at": "2024-11-08T13:00:00Z", "number": _VERSION, "note": None}
_ADVICE: dict[str, Any] = {
    "verdict": "raise",
    "severity": "warn",
    "wanted_share": 0.99,
    "current_seconds": 172_800,
    "proposed_seconds": 266_400,
    "needed_seconds": 266_400,
    "because": "99.0% of 12,060 rows came within 3 d 2 h; 2 d catches 97.10%",
    "evidence": [
        with_earlier_names({"cutoff_seconds": 172_800, "share": 0.971}),
        with_earlier_names({"cutoff_seconds": 266_400, "share": 0.990133}),
    ],
}
_OF_TYPE: dict[str, Any] = {
    "event_type": "insert",
    "rows": 12_060,
    "on_time": 10_854,
    "on_time_share": 0.9,
    "late_share": 0.1,
    "seconds": {"p50": 1_800, "p90": 86_400, "p95": 129_600, "p99": 266_000, "p99_9": 500_000, "max": 691_200},
    "recommendation": _ADVICE,
}

ANSWERS: dict[str, Any] = {
    "/sources/{source}/rows": routes.EXAMPLE,
    "/metrics/{name}/publications/{publication_id}": comparison_routes.REPORT_EXAMPLE,
    **live.LAYER_EXAMPLES,
    **live.STREAM_EXAMPLES,
    **released.EXAMPLES,
    "/metrics/{name}": _NUMBER
    | {
        "staleness": {"seconds": 5_400, "behind": False, "newest_arrival": "2024-11-08T05:58:12Z"},
        "waiting_for": ["2 rows wait for a steward"],
        "window_end": "2024-11-08T00:00:00Z",
        "watermark_passed": False,
        "update_count": 1,
        "held": None,
        "adjusted": {},
        "completeness": {
            "known": True,
            "share": 0.962,
            "low": 0.931,
            "high": 0.985,
            "coverage": 0.91,
            "earlier_periods": 45,
            "age_hours": 6,
            "horizon_hours": 174,
        },
        "next_row_offset": None,
        "adjustments": [],
        "note": None,
        "history": None,
    },
    "/metrics/{name}/compare": _WINDOW
    | {
        "version_a": _SIDE | {"asked": "first", "version_name": "revenue_v2024-11-07.r1", "version": "r1"},
        "version_b": _SIDE,
        "changes": [{"grain": {}, "measure": "revenue", **_MOVED["revenue"]}],
        "total": 1,
        "next_offset": None,
        "totals": _MOVED,
        "reason": "late_data",
        "changed_rows": 3,
    },
    "/metrics/{name}/series": {
        "metric": "revenue",
        "series": "revenue",
        "deprecated_on": None,
        "layer": "books",
        "version": "latest",
        "points": [{name: _NUMBER[name] for name in (*_POINT, "result", "total_rows")}],
        "next_start": None,
    },
    "/metrics/{name}/history": _WINDOW | {"versions": [_VERSION | {"moved": _MOVED}], "total": 1, "next_offset": None},
    "/metrics/{name}/at-this-time": {
        "metric": "revenue",
        "series": "revenue",
        "at": "2024-11-08T13:00:00Z",
        "yesterday_at_this_time": _KNOWN | {"at": "2024-11-07T13:00:00Z"},
        "yesterday": _KNOWN,
        "today": _KNOWN | {"window": "2024-11-08"},
        "yesterday_moved": _MOVED,
        "same_weekday_at_this_time": _KNOWN | {"window": "2024-11-01", "at": "2024-11-01T13:00:00Z"},
        "today_against_yesterday": _MOVED,
        "today_against_same_weekday": _MOVED,
    },
    "/data-quality/lateness": {
        "start_date": "2024-11-01",
        "end_date": "2024-11-28",
        "sources": [
            {
                "source": "sales",
                "expected_seconds": 86_400,
                "rows": 12_060,
                "on_time_share": 0.9,
                "late_share": 0.1,
                "seconds": _OF_TYPE["seconds"],
                "without_event_time": 0,
                "accepted": 12_050,
                "quarantined": 10,
                "dropped": 0,
                "dispositions": {"applied": 12_000, "superseded": 50, "quarantined": 10},
                "recommendation": _ADVICE,
                "event_types": [_OF_TYPE],
                "event_types_left_out": 0,
                "skewed": 0,
                "history": 0,
                "tiers": [_TIER | {"share": 0.1, "is_exceeded": True}],
                "late_accepted": 1_196,
                "late_quarantined": 10,
                "late_dropped": 0,
                "recommendations": [
                    {
                        "about": "lateness.tiers",
                        "severity": "warn",
                        "event_type": None,
                        "tier": "daily numbers",
                        "current_seconds": 86_400,
                        "proposed_seconds": None,
                        "text": "of the rows 10.00% (1,206) came later than 1 d, the tier that serves 'daily numbers'; the "
                        "contract tolerates 5.00%; ask who delivers it, or give the tier another bound",
                    }
                ],
            }
        ],
    },
    **late_events.EXAMPLES,
    "/sources/{source}/watermark": {
        "source": "sales",
        "strategy": "bounded",
        "watermark": "2024-11-26T05:58:12Z",
        "moved_by": "arrival_date=2024-11-28.csv",
        "newest_arrival": "2024-11-28T06:00:00Z",
        "skewed": 0,
        "tuning": {
            "max_lateness_seconds": 172_800,
            "contract_seconds": 138_240,
            "pinned": None,
            "tuning": {
                "auto": True,
                "catch": 0.99,
                "at_least_seconds": 3_600,
                "at_most_seconds": 604_800,
                "band": 0.25,
                "days": 28,
                "rows": 500,
                "event_types": [],
            },
            "decisions": [
                {
                    "number": 1,
                    "kind": "applied",
                    "seconds_before": 138_240,
                    "seconds": 172_800,
                    "by": "tuning",
                    "reason": _ADVICE["because"],
                    "automatic": True,
                    "decided_at": "2024-11-28T01:30:00Z",
                    "evidence": {"rows": 12_060, "caught": 0.971},
                }
            ],
            "recommendation": {
                "first": "2024-11-01",
                "last": "2024-11-28",
                "rows": 12_060,
                "skewed": 0,
                "history": 0,
                "without_event_time": 0,
                "seconds": _OF_TYPE["seconds"],
                "event_types": [{name: _OF_TYPE[name] for name in ("event_type", "rows", "seconds")}],
                "proposal": _ADVICE,
                "next_step_seconds": 216_000,
                "trade_offs": [{"max_lateness_seconds": 172_800, "share": 0.971, "delay_seconds": 194_400, "open_days": 3}],
            },
        },
    },
    "/metrics": {
        "metrics": [
            {
                "name": "revenue",
                "description": "Revenue per day.",
                "owner": "finance",
                "source": "sales",
                "from": [],
                "joins": [],
                "grain": [],
                "measures": [{"name": "revenue", "type": "decimal(18,2)", "additive": True, "description": None}],
                "windows": ["day", "week", "month"],
                "terms": {
                    "start_delay": 0,
                    "preliminary_after": 1,
                    "final_after": 7,
                    "after_close": "restate",
                    "timezone": "UTC",
                },
                "consumers": ["the daily report"],
                "dataset_version": 1,
                "deprecated_on": None,
                "published": 366,
                "first_day": "2023-11-08",
                "last_day": "2024-11-07",
                "last_restated_at": "2024-11-08T06:00:00Z",
            }
        ],
        "total": 1,
        "unreadable": [],
    },
    "/data-quality/restatements": {
        "start_date": "2024-11-02",
        "end_date": "2024-11-08",
        "restatements": [
            _WINDOW | {name: _VERSION[name] for name in _CHANGED} | {"restated_on": "2024-11-08T06:00:00Z", "moved": _MOVED}
        ],
        "unreadable": [],
        "total": 1,
        "by_reason": {"late_data": 1},
        "by_state": {"preliminary": 1},
        "next_offset": None,
    },
    "/lineage/{name}/{window_name}": _WINDOW
    | {name: _VERSION[name] for name in ("version", "version_name", "state", "known_through", "signed_off_by", "sign_off_reason")}
    | {
        "source": "sales",
        "inputs": "3f1c0b9a7d2e4f60",
        "inputs_without": None,
        "silver_version": 412,
        "made_from": {},
        "code_version": "0.1.0",
        "contract_version": "b2a4c9e01d77",
        "run_id": "5d0c8f6e",
        "because": None,
        "publication": comparison_routes.PUBLICATION_EXAMPLE,
    },
    "/quarantine": {
        "rows": [
            {
                "id": "sales:3f1c0b9a7d2e4f60:17",
                "source": "sales",
                "record_key": "s-17",
                "event_date": "2024-11-07",
                "arrival_date": "2024-11-15",
                "source_file": "sales-2024-11-15.csv",
                "line_number": 17,
                "reason": "beyond_watermark",
                "detail": "7 d 3 h after the event; the cutoff is 7 d",
                "status": "open",
                "since": "2024-11-15T06:00:00Z",
                "review_by": "2024-11-22T06:00:00Z",
                "overdue": False,
                "decided_by": None,
                "decided_at": None,
                "decision": None,
            }
        ],
        "total": 1,
        "next_offset": None,
    },
    "/health": {
        "status": "ok",
        "version": "0.1.0",
        "now": "2024-11-08T13:00:00Z",
        "metrics": [{"metric": "revenue", "table_version": 730, "periods": 366}],
    },
    "/quarantine/{row_id}/decision": {
        "id": "sales:3f1c0b9a7d2e4f60:17",
        "decision": "accept",
        "by": "anna",
        "repeated": False,
        "waiting_days": ["2024-11-07"],
    },
}
