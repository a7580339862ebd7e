"""``/page/quarantine``: the rows that wait for a steward, and a single row with the decision on it."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool

from lakehouse.contracts.series import days_reached
from lakehouse.gold.numbers import page_views
from lakehouse.ledger import decisions
from lakehouse.ledger.ids import format_row_id, parse_row_id, row_id_of
from lakehouse.serving import parameters, pending_changes, sessions
from lakehouse.serving.page import PREFIX, goto, respond
from lakehouse.serving.parameters import NoParameters, Offset, Parameters
from lakehouse.serving.responses import Problem
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter, StatusFilter
from lakehouse.stewardship.routes import ID, DecisionModel, Status, decide, listed

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.contracts import SourceContract
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.ids import RowId
    from lakehouse.serving.published_cache import PublishedCache


_LOG = logging.getLogger(__name__)
#: The number of rows on a page, and of numbers listed for a decision.
_SHOWN, _NUMBERS = 50, 12
Row = Annotated[str, Path(pattern=ID)]


class QuarantinePageParameters(Parameters):
    """The rows to show."""

    source: Annotated[str | None, Field(pattern=parameters.NAME)] = None
    status: Status = StatusFilter.OPEN
    offset: Offset = 0


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/quarantine")
    async def rows(request: Request, wanted: Annotated[QuarantinePageParameters, Query()]) -> Response:
        names = [cache.source(wanted.source).dataset] if wanted.source else sorted(cache.catalog.sources)
        entries = [(name, row) for name in names for row in await run_in_threadpool(listed, cache, name, wanted.status)]
        page = [_line(name, row) for name, row in entries[wanted.offset : wanted.offset + _SHOWN]]
        more = wanted.offset + len(page)
        around = {
            "older": max(wanted.offset - _SHOWN, 0) if wanted.offset else None,
            "next": more if more < len(entries) else None,
        }
        about: dict[str, Any] = {"wanted": wanted, "statuses": [*StatusFilter], "sources": sorted(cache.catalog.sources)}
        values = {"rows": page, "total": len(entries), "now": cache.lake.now()}
        return respond(request, "quarantine", "quarantine", values | around | about)

    @router.get(PREFIX + "/quarantine/{row_id}")
    async def row(request: Request, row_id: Row, _: NoParameters) -> Response:
        return await _row_page(request, cache, row_id)

    @router.post(PREFIX + "/quarantine/{row_id}")
    async def decided(request: Request, row_id: Row, _: NoParameters) -> Response:
        session, fields = await sessions.own_form(request)
        if not session.decides:
            raise Problem(403, "not-a-steward", f"{session.token.name} may read; decisions need a steward's token")
        try:
            decision = DecisionModel.model_validate(fields)
        except ValidationError:
            return await _row_page(request, cache, row_id, "Choose a decision and enter a reason of at most 500 characters.", 422)
        source, given = _parsed(row_id)
        await run_in_threadpool(decide, cache, source, given, decision, session.token.name)
        _LOG.info("%s: %s by %s (token %s)", row_id, decision.decision, session.token.name, session.token.token_id)
        return goto(f"{PREFIX}/quarantine/{row_id}")


async def _row_page(
    request: Request, cache: PublishedCache, row_id: str, problem: str | None = None, status: int = 200
) -> Response:
    source, given = _parsed(row_id)
    contract = cache.source(source)
    entries = await run_in_threadpool(quarantine.entries, cache.lake, contract, QuarantineFilter(None, rows=[given]))
    if not entries:
        raise Problem(404, "unknown-row", "no row with this id is or was in quarantine")
    entry, who = entries[0], sessions.session(request)
    decision = (await run_in_threadpool(decisions.newest_about, cache.lake, source, [given])).get(given)
    follows = await _follows(cache, contract, given, decision) if decision else None
    fields = [(field.name, entry.get(field.name)) for field in contract.typed_fields] if who and who.decides else None
    values = {
        "row": _line(source, entry),
        "fields": fields,
        "follows": follows,
        "problem": problem,
        "now": cache.lake.now(),
    }
    return respond(request, "row", "quarantine", values, status)


async def _follows(cache: PublishedCache, contract: SourceContract, row: RowId, decision: Decision) -> dict[str, Any]:
    """The progress of a decision: event days pending in silver, metrics not restated yet, and the affected numbers."""
    source, days = contract.dataset, set(decision.touched_days)
    pending = await run_in_threadpool(pending_changes.read, cache.reading, cache.catalog, source)
    metrics = cache.catalog.metrics_from(source)
    numbers, stale = [], []
    for metric in metrics:
        published = await cache.published(metric)
        starts = sorted(days_reached(published.series.metric, days))
        if pending.affects(published.series.name, starts):
            stale.append(metric.name)
        numbers += [(metric.name, glance) for glance in await run_in_threadpool(page_views.glances, published, starts[:_NUMBERS])]
    command = ["lakehouse", "quarantine", decision.verdict, source, format_row_id(row)]
    command += ["--by", decision.by, "--reason", decision.reason]
    progress = {"waiting": sorted(days & pending.days), "behind": stale, "numbers": numbers[:_NUMBERS]}
    return {"days": sorted(days), "command": shlex.join(command)} | progress


def _parsed(row_id: str) -> tuple[str, RowId]:
    source, _, rest = row_id.partition(":")
    return source, parse_row_id(rest)


def _line(source: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"{source}:{format_row_id(row_id_of(entry))}", "source": source, **entry}
