"""An HTTP server in a thread that accepts or refuses messages, for tests of the webhook channel."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext


@dataclass
class Receiver:
    """The requests received. ``answers`` are the status codes of the next responses, then 204; None: the connection is closed."""

    url: str = ""
    answers: list[int | None] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def webhook_server(tls: SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver on a free local port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((self.path, dict(self.headers), body))
            answer = receiver.answers.pop(0) if receiver.answers else 204
            if answer is None:
                return
            if answer == 204:
                receiver.taken.append(json.loads(body))
            self.send_response(answer)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            receiver.requests.append((self.path, dict(self.headers), b""))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    receiver.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/hook"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
