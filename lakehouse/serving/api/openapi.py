"""The parts of the OpenAPI document that FastAPI omits: problem documents, examples, and responses without a body.

Response models are in ``models`` and ``quality_models``, examples in ``openapi_examples``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import FastAPI

from lakehouse.live import routes as live_numbers
from lakehouse.serving.api.models import MODEL
from lakehouse.serving.api.openapi_examples import ANSWERS
from lakehouse.serving.api.quality_models import ProblemModel
from lakehouse.serving.http import problems

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
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
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
