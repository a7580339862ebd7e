"""``/promotions``: the promotions and rollbacks of data and models in one form, as JSON or as JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.models.promotion import promotion_export
from lakehouse.serving.api.released import shapes
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import NAME, Parameters

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import PublishedCache

#: The media type of JSON lines.
LINES = "application/x-ndjson"


class PromotionParameters(Parameters):
    """The metric or model whose promotions are returned."""

    name: Annotated[str | None, Field(pattern=NAME, description="Only those of this metric or model.")] = None


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/promotions", tags=["models"])
    lines = {"description": "With 'Accept: application/x-ndjson' one promotion a line.", "content": {LINES: {"schema": {}}}}

    @router.get("", response_model=shapes.PromotionsModel, responses={200: lines}, summary="Promotions of data and models")
    async def promotions(request: Request, wanted: Annotated[PromotionParameters, Query()]) -> Response:
        """The promotions and rollbacks of metrics and models, oldest first: author, time, reason, and signed-off rules.

        With `Accept: application/x-ndjson`, the response is a log of JSON lines.
        """
        records = await run_in_threadpool(promotion_export.records, cache.settings, wanted.name)
        if request.headers.get("accept", "").startswith(LINES):
            text = "".join(f"{json.dumps(record, default=str, ensure_ascii=False)}\n" for record in records)
            return responses.respond_with_text(request, text, LINES)
        return responses.respond(request, {"promotions": records})

    return router
