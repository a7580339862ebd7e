"""An SMTP server in a thread that keeps the mails it receives, for tests of targets that send mail."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage


@dataclass
class Mailbox:
    """The mails received, each with its envelope's recipients. ``refuses``: recipients are answered with 550."""

    port: int = 0
    refuses: bool = False
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mailbox on a free local port, without encryption."""
    mailbox = Mailbox()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            recipients: list[str] = []
            self.say("220 ready")
            while line := self.rfile.readline():
                command = line.decode().strip()
                word = command[:4].upper()
                if word == "MAIL":
                    recipients = []
                elif word == "RCPT":
                    recipients.append(command.partition("<")[2].partition(">")[0])
                elif word == "DATA":
                    self.say("354 go on")
                    mailbox.mails.append((recipients, self.content()))
                self.say("550 no such mailbox" if word == "RCPT" and mailbox.refuses else "250 ok")

        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def content(self) -> EmailMessage:
            lines = []
            while (line := self.rfile.readline()) not in {b".\r\n", b""}:
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            return message_from_bytes(b"".join(lines), policy=policy.default)  # type: ignore[return-value] # (typeshed knows one policy)

    ThreadingTCPServer.allow_reuse_address = True
    server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    mailbox.port = server.server_address[1]
    try:
        yield mailbox
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
