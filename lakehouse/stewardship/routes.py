"""``/quarantine``: the rows that wait for a steward, and the decision on a row, which needs a steward's token."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from lakehouse.dispositions import account_tables
from lakehouse.ledger.ids import format_row_id, parse_row_id, row_id_of
from lakehouse.serving import parameters, quality_models, responses
from lakehouse.serving.models import schema_name
from lakehouse.serving.parameters import Limit, NoParameters, Offset, Parameters
from lakehouse.serving.responses import Problem
from lakehouse.serving.tokens import holder_of_request
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter, StatusFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.row_states import QuarantineStatus
    from lakehouse.serving.published_cache import PublishedCache


_LOG = logging.getLogger(__name__)
_ONE_AT_A_TIME = Lock()
#: The id of a row: source, ingestion, line.
ID = r"^[a-z][a-z0-9_]{0,99}:[0-9a-zA-Z_-]{1,64}:[0-9]{1,15}$"
_COLUMNS = ("reason", "detail", "status", "since", "review_by", "decided_by", "decided_at", "decision")
#: The columns that lists read.
_READ = list(dict.fromkeys([*quarantine.KEY_COLUMNS, "record_key", "event_date", *(f"quarantine_{name}" for name in _COLUMNS)]))
Status = Annotated[StatusFilter, quality_models.inline_schema(StatusFilter, "Status")]


class QuarantineParameters(Parameters):
    """The rows to list."""

    source: Annotated[str | None, Field(pattern=parameters.NAME, description="One source; default: all.")] = None
    status: Status = StatusFilter.OPEN
    cause: Annotated[quality_models.ReasonName | None, Field(title="Cause")] = None
    limit: Limit = 100
    offset: Offset = 0


class DecisionModel(BaseModel):
    """A steward's decision on a row; it is recorded under the token's name."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"decision": "accept", "reason": "ticket 12"}]},
        model_title_generator=schema_name,
    )

    decision: quality_models.VerdictName
    reason: str = Field(min_length=1, max_length=500, pattern=r"[^\s]")


def reading(cache: PublishedCache) -> APIRouter:
    """The route that lists rows."""
    router = APIRouter(prefix="/quarantine", tags=["quarantine"])

    @router.get("", response_model=quality_models.QuarantineModel, summary="Rows that wait for a steward")
    async def waiting(request: Request, wanted: Annotated[QuarantineParameters, Query()]) -> Response:
        """The waiting rows, with reason and review deadline, but without their values."""
        names = [cache.source(wanted.source).dataset] if wanted.source else sorted(cache.catalog.sources)
        rows = [(name, row) for name in names for row in await run_in_threadpool(listed, cache, name, wanted.status)]
        if wanted.cause:
            rows = [(name, row) for name, row in rows if row["quarantine_reason"] == wanted.cause]
        now, page = cache.lake.now(), rows[wanted.offset : wanted.offset + wanted.limit]
        more = wanted.offset + len(page)
        following = {"total": len(rows), "next_offset": more if more < len(rows) else None}
        return responses.respond(request, {"rows": [_as_json(name, row, now) for name, row in page]} | following)

    return router


def listed(cache: PublishedCache, source: str, status: StatusFilter) -> list[dict[str, Any]]:
    """The rows of a source's quarantine with a given status, for the API and the pages."""
    account_tables.restore(cache.reading, cache.source(source))  # else its version may be one that was listed with other rows
    version = account_tables.quarantine_version(cache.reading, source)
    known = _NEWEST_LISTS.setdefault(cache, {})
    of_version, rows = known.get((source, status.status), (None, []))
    if of_version != version:
        rows = quarantine.entries(cache.lake, cache.source(source), QuarantineFilter(status.status), _READ)
        known[source, status.status] = (version, rows)
    return rows


#: The newest list of each source and status, with the version of its table.
_NEWEST_LISTS: WeakKeyDictionary[PublishedCache, dict[tuple[str, QuarantineStatus | None], tuple[int, list[dict[str, Any]]]]] = (
    WeakKeyDictionary()
)


def deciding(cache: PublishedCache, steward: Callable[..., Any]) -> APIRouter:
    """The route that records decisions.

    :param steward: the dependency that requires a steward's token.
    """
    router = APIRouter(prefix="/quarantine", tags=["quarantine"])

    @router.post(
        "/{row_id}/decision",
        dependencies=[Depends(steward)],
        response_model=quality_models.DecidedModel,
        summary="Decide on a row",
    )
    async def decided(
        request: Request,
        row_id: Annotated[str, Path(pattern=ID, description="As returned by GET /quarantine.")],
        decision: DecisionModel,
        _: NoParameters,
    ) -> Response:
        """Requires a steward's token. Repeating a decision has no effect. Dagster's daemon then updates silver and gold."""
        source, _colon, rest = row_id.partition(":")
        row, token = parse_row_id(rest), holder_of_request(request)
        taken = await run_in_threadpool(decide, cache, source, row, decision, token.name)
        _LOG.info("%s: %s by %s (token %s)", row_id, decision.decision, token.name, token.token_id)
        body = {"id": row_id, "decision": decision.decision, "by": token.name}
        return responses.respond(request, body | {"repeated": taken.rows == 0, "waiting_days": taken.days})

    return router


def _as_json(source: str, entry: dict[str, Any], now: datetime) -> dict[str, Any]:
    return {
        "id": f"{source}:{format_row_id(row_id_of(entry))}",
        "source": source,
        **{name: entry[name] for name in ("record_key", "event_date", "arrival_date", "source_file", "line_number")},
        **{name: entry[f"quarantine_{name}"] for name in _COLUMNS},
        "overdue": account_tables.is_overdue(entry, now),
    }


def decide(cache: PublishedCache, source: str, row: RowId, decision: DecisionModel, by: str) -> quarantine.DecisionResult:
    """Record a decision on a row that is or was quarantined. Decisions are processed one at a time.

    :raises Problem: if the row does not exist, or no decision on it is possible.
    """
    contract = cache.source(source)
    if not quarantine.entries(cache.lake, contract, QuarantineFilter(None, rows=[row]), [*quarantine.KEY_COLUMNS]):
        raise Problem(404, "unknown-row", "no row with this id is or was in quarantine; GET /quarantine?status=any lists them")
    with _ONE_AT_A_TIME:
        try:
            return quarantine.decide(cache.lake, contract, [row], decision.decision, by=by, reason=decision.reason.strip())
        except quarantine.StewardError as problem:
            raise Problem(409, "cannot-be-decided", f"{problem}") from None
