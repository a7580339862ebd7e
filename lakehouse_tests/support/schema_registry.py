"""A schema registry in a thread, with the two requests that readers make; and messages in its wire format."""

from __future__ import annotations

import io
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class RegistryServer:
    """The schemas of a registry, and what it was asked.

    :param failures: status codes of the next answers, before it answers as it should.
    """

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def register(self, schema_id: int, schema: Any, **more: Any) -> None:
        """Register a schema under an id."""
        self.schemas[schema_id] = {"schema": json.dumps(schema), **more}

    def register_subject(self, subject: str, schema: Any, **more: Any) -> dict[str, Any]:
        """Register a schema as the first version of a subject; gives the reference to it."""
        self.subjects[f"/subjects/{subject}/versions/1"] = {"schema": json.dumps(schema), **more}
        return {"name": schema["name"], "subject": subject, "version": 1}

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body for a path."""
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "not now"}
        if path in self.subjects:
            return 200, self.subjects[path]
        schema_id = path.removeprefix("/schemas/ids/")
        if schema_id == path or not schema_id.isdigit():
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        found = self.schemas.get(int(schema_id))
        return (404, {"error_code": 40403, "message": "Schema not found"}) if found is None else (200, found)


@contextmanager
def schema_registry() -> Iterator[RegistryServer]:
    """A registry on a free local port."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.paths.append(self.path)
            registry.authorizations.append(self.headers["Authorization"])
            status, body = registry.answer(self.path)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", f"{len(content)}")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def framed(schema_id: int, body: bytes) -> bytes:
    """A message in the wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def avro_message(schema_id: int, schema: Any, value: Any) -> bytes:
    """A value in the wire format, as a producer sends it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return framed(schema_id, body.getvalue())
