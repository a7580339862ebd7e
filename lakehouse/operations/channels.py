"""Where messages to people go: to the log, to a file, to a webhook.

``LAKEHOUSE_ALERT_TARGETS`` names them. A target is told a message once by those who use it; after a kill between a delivery and
its record it may be told again, with the same ``message_id``: a receiver that wants it once looks at that.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.settings import Settings

_FILE = "file:"
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 4.0
#: Answers of a receiver that may take the same message a moment later; any other refusal is its last word for now.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Message:
    """What somebody is told.

    :param message_id: the same for the same news, so that a receiver can tell a repetition.
    :param subject: one line.
    :param text: plain text, some lines.
    :param addressed_to: whom it concerns, the first one first.
    :param data: the same in figures, for programs; dates and times become text.
    """

    message_id: str
    subject: str
    text: str
    addressed_to: list[str]
    data: Mapping[str, Any]

    def json_line(self) -> str:
        """The message as one line of JSON, without its end."""
        return json.dumps(asdict(self), default=str)


class DeliveryError(LakehouseError):
    """A target did not take a message. The text says which, why, and what happens next."""


class Target(Protocol):
    """Something that can be told a message."""

    @property
    def name(self) -> str:
        """How records call it: the same for the same setting, and without secrets."""

    def send(self, message: Message) -> None:
        """Deliver a message.

        :raises DeliveryError: when it was not, or when that is not known.
        """


@dataclass(frozen=True)
class Log:
    """A line of the log, as a warning."""

    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("lakehouse.alerts"))
    name: str = "log"

    def send(self, message: Message) -> None:
        """Write subject, addressees and text."""
        to = f" (to {', '.join(message.addressed_to)})" if message.addressed_to else ""
        self.logger.warning("%s%s\n%s", message.subject, to, message.text)


@dataclass(frozen=True)
class File:
    """A file that a line of JSON is added to; it is on disk when ``send`` returns."""

    path: str

    @property
    def name(self) -> str:
        """``file:`` and the path."""
        return f"{_FILE}{self.path}"

    def send(self, message: Message) -> None:
        """Append the message in one write. A line that an earlier write left unfinished is ended before it."""
        try:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)  # noqa: PTH103, PTH120 (beside the calls of os below)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                line = f"{chr(10) if torn else ''}{message.json_line()}\n".encode()
                written = os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as problem:
            raise DeliveryError(f"{self.name} did not take message {message.message_id}: {problem}") from problem
        if written < len(line):
            raise DeliveryError(
                f"{self.name} took {written} of {len(line)} bytes of message {message.message_id}: is the disk full?"
            )


@dataclass(frozen=True)
class Webhook:
    """An address that is sent the message as JSON by POST, with the header ``Idempotency-Key: <message_id>``.

    Any answer 2xx is a delivery. No connection, no answer in time, and the answers 408, 425, 429 and 5xx are tried again,
    three attempts in all; a redirection is refused, because it would turn the POST into a GET.
    """

    url: str
    timeout: float = _TIMEOUT_SECONDS
    pause: float = 0.5

    @property
    def name(self) -> str:
        """The host, and a hash of the whole address: what stands behind the host is often a secret."""
        return f"webhook:{urlsplit(self.url).hostname}:{hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    def send(self, message: Message) -> None:
        """Post the message."""
        attempts = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(self.pause),
            retry=retry_if_exception_type(_PassingError),
            reraise=True,
        )
        try:
            attempts(self._post, message)
        except _PassingError as problem:
            raise DeliveryError(
                f"{self.name} did not take message {message.message_id} in {_ATTEMPTS} attempts: {problem}"
            ) from problem

    def _post(self, message: Message) -> None:
        headers = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": message.message_id}
        request = Request(self.url, message.json_line().encode(), headers, method="POST")  # noqa: S310 (settings admit http(s) only)
        try:
            with build_opener(_NoRedirect).open(request, timeout=self.timeout):
                pass
        except HTTPError as answer:
            with answer:
                said = f"it answered {answer.code} {answer.reason}"
            if answer.code in _PASSING:
                raise _PassingError(said) from answer
            raise DeliveryError(
                f"{self.name} refused message {message.message_id}: {said}; look at its address in LAKEHOUSE_ALERT_TARGETS"
            ) from answer
        except (OSError, HTTPException) as problem:  # also URLError and timeouts
            raise _PassingError(f"no answer ({getattr(problem, 'reason', problem)})") from problem


def targets(settings: Settings, logger: logging.Logger | None = None) -> list[Target]:
    """The targets of a deployment, in the order of ``LAKEHOUSE_ALERT_TARGETS``, each once.

    :param logger: where the target ``log`` writes; default: the logger ``lakehouse.alerts``.
    """
    return [_target(address, logger) for address in dict.fromkeys(settings.alert_targets)]


def _target(address: str, logger: logging.Logger | None) -> Target:
    if address == "log":
        return Log(logger) if logger else Log()
    return File(address.removeprefix(_FILE)) if address.startswith(_FILE) else Webhook(address)


class _PassingError(Exception):
    """A failure that may be gone a moment later."""


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Leave the answer 3xx as it is: an error."""
