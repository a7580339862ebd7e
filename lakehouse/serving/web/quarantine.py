"""``/page/quarantine``: the rows that wait for a steward, what a steward sees of one, and the decision on it."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.days import reach_ahead
from lakehouse.delta.table_cache import TableCache
from lakehouse.ledger import decisions
from lakehouse.ledger.row_ids import format_row_id, parse_row_id, row_id_of
from lakehouse.serving.api.quarantine import ID, DecisionModel, Status, decide, listed
from lakehouse.serving.http import parameters, pending_changes
from lakehouse.serving.http.parameters import NoParameters, Offset, Parameters
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.web import number_views, sessions
from lakehouse.serving.web.page import PREFIX, goto, respond
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter, StatusFilter

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.contracts import SourceContract
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.serving.http.published_cache import Lake

_LOG = logging.getLogger(__name__)
#: Rows on a page, and numbers that are named behind a decision.
_SHOWN, _NUMBERS = 50, 12
Row = Annotated[str, Path(pattern=ID)]


class ForQuarantine(Parameters):
    """Which rows."""

    source: Annotated[str | None, Field(pattern=parameters.NAME)] = None
    status: Status = StatusFilter.OPEN
    offset: Offset = 0


def add(router: APIRouter, lake: Lake) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/quarantine")
    async def rows(request: Request, wanted: Annotated[ForQuarantine, Query()]) -> Response:
        names = [lake.source(wanted.source).dataset] if wanted.source else sorted(lake.catalog.sources)
        found = [(name, row) for name in names for row in await run_in_threadpool(listed, lake, name, wanted.status)]
        page = [_line(name, row) for name, row in found[wanted.offset : wanted.offset + _SHOWN]]
        more = wanted.offset + len(page)
        around = {"older": max(wanted.offset - _SHOWN, 0) if wanted.offset else None, "next": more if more < len(found) else None}
        about: dict[str, Any] = {"wanted": wanted, "statuses": [*StatusFilter], "sources": sorted(lake.catalog.sources)}
        values = {"rows": page, "total": len(found), "now": lake.settings.clock()}
        return respond(request, "quarantine", "quarantine", values | around | about)

    @router.get(PREFIX + "/quarantine/{row_id}")
    async def row(request: Request, row_id: Row, _: NoParameters) -> Response:
        return await _row_page(request, lake, row_id)

    @router.post(PREFIX + "/quarantine/{row_id}")
    async def decided(request: Request, row_id: Row, _: NoParameters) -> Response:
        found, said = await sessions.own_form(request)
        if not found.decides:
            raise Problem(403, "not-a-steward", f"{found.token.name} may read; to decide takes a steward's token")
        try:
            decision = DecisionModel.model_validate(said)
        except ValidationError:
            return await _row_page(request, lake, row_id, "Choose a decision and say why, in 500 characters at most.", 422)
        source, given = _parsed(row_id)
        await run_in_threadpool(decide, lake, source, given, decision, found.token.name)
        _LOG.info("%s: %s by %s (token %s)", row_id, decision.decision, found.token.name, found.token.token_id)
        return goto(f"{PREFIX}/quarantine/{row_id}")


async def _row_page(request: Request, lake: Lake, row_id: str, problem: str | None = None, status: int = 200) -> Response:
    source, given = _parsed(row_id)
    contract = lake.source(source)
    entries = await run_in_threadpool(quarantine.entries, lake.settings, contract, QuarantineFilter(None, rows=[given]))
    if not entries:
        raise Problem(404, "unknown-row", "no row of that name waits or has waited")
    entry, who = entries[0], sessions.session(request)
    said = (await run_in_threadpool(decisions.newest, lake.settings, source)).get(given)
    follows = await _follows(lake, contract, given, said) if said else None
    fields = [(one.name, entry.get(one.name)) for one in contract.typed_fields] if who and who.decides else None
    values = {"row": _line(source, entry), "fields": fields, "follows": follows, "problem": problem, "now": lake.settings.clock()}
    return respond(request, "row", "quarantine", values, status)


async def _follows(lake: Lake, contract: SourceContract, row: RowId, said: Decision) -> dict[str, Any]:
    """How far a decision has come: the event days that wait for silver, metrics that have not followed it, the numbers."""
    source, days = contract.dataset, set(said.touched_days)
    waits = await run_in_threadpool(pending_changes.read, lake.settings, lake.catalog, source, TableCache(), None)
    metrics = lake.catalog.metrics_of(source)
    found, behind = [], []
    for metric in metrics:
        shown = await lake.shown(metric)
        starts = sorted(reach_ahead(days, shown.series.metric.window))
        if waits.concerns(shown.series.name, starts):
            behind.append(metric.name)
        found += [(metric.name, one) for one in await run_in_threadpool(number_views.glances, shown, starts[:_NUMBERS])]
    command = ["lakehouse", "quarantine", said.verdict, source, format_row_id(row), "--by", said.by, "--reason", said.reason]
    told = {"days": sorted(days), "command": shlex.join(command)}
    return told | {"waiting": sorted(days & waits.days), "behind": behind, "numbers": found[:_NUMBERS]}


def _parsed(row_id: str) -> tuple[str, RowId]:
    source, _, rest = row_id.partition(":")
    return source, parse_row_id(rest)


def _line(source: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"{source}:{format_row_id(row_id_of(entry))}", "source": source, **entry}
