"""Sends messages to targets in order, within a time limit; each delivery is recorded before the next message is sent.

Alerts and notices share this loop: they decide which messages are due, and record deliveries. A target is the log, a file, a
webhook, or any service supported by Apprise. ``LAKEHOUSE_ALERT_TARGETS`` lists the targets of a deployment; one YAML file has the
addresses of owners, stewards, consumers and the platform team.

Delivery is at least once: if a process dies between a delivery and its record, the message is repeated with the same
``message_id``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import Enum
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import Field
from requests import RequestException, Session
from requests.adapters import HTTPAdapter
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from lakehouse.contracts.base import Strict
from lakehouse.contracts.loader import load_model
from lakehouse.errors import LakehouseError
from lakehouse.settings import (
    CHAT_FORM,
    TargetAddress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from requests import PreparedRequest

    from lakehouse.lake import Lake

_FILE = "file:"
#: Chats truncate or refuse longer messages; the smallest of the usual limits is 4,096 characters after escaping.
_CHAT_CHARACTERS = 3_500
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 4.0
#: Status codes after which the same request may succeed soon; any other refusal is final for this tick.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Message:
    """A message to people.

    :param message_id: identifies the message, so that a receiver can recognise a repeated delivery.
    :param subject: one line.
    :param text: plain text of a few lines.
    :param addressed_to: the people or teams concerned, the first one responsible.
    :param data: the same content for programs; dates and times are written as text.
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
    """A target refused a message. The text names the target, the message and the reason."""


class Target(Protocol):
    """A destination of messages."""

    @property
    def name(self) -> str:
        """The name in logs and delivery records: stable for the same setting, and without secrets."""

    def send(self, message: Message) -> None:
        """Deliver a message.

        :raises DeliveryError: if the message was not delivered, or the outcome is unknown.
        """


@dataclass(frozen=True)
class Log:
    """The log of the tick; a message is a warning."""

    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("lakehouse.alerts"))
    name: str = "log"

    def send(self, message: Message) -> None:
        """Write subject, addressees and text."""
        to = f" (to {', '.join(message.addressed_to)})" if message.addressed_to else ""
        self.logger.warning("%s%s\n%s", message.subject, to, message.text)


@dataclass(frozen=True)
class File:
    """A file to which each message is appended as a line of JSON; the line is on disk when ``send`` returns."""

    path: str

    @property
    def name(self) -> str:
        """``file:`` and the path."""
        return f"{_FILE}{self.path}"

    def send(self, message: Message) -> None:
        """Append the message in one write, after completing a line that an earlier write left unfinished."""
        try:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)  # noqa: PTH103, PTH120 (next to the calls of os below)
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
    """An address that receives the message by POST, with the header ``Idempotency-Key: <message_id>``.

    The body is the message as JSON or, in the form ``chat``, ``{"text": ...}`` as accepted by the incoming webhooks of Slack,
    Mattermost, Rocket.Chat and Google Chat.

    Any 2xx response is a delivery. A failed connection, a timeout, and the responses 408, 425, 429 and 5xx are retried, three
    attempts in total. A redirect is refused, because following it would turn the POST into a GET.

    :param timeout: seconds to connect, and seconds to wait for each part of the response.
    :param pause: seconds before the second attempt; doubled before the third.
    """

    url: str
    timeout: float = _TIMEOUT_SECONDS
    pause: float = 0.5
    form: Literal["json", "chat"] = "json"

    @property
    def name(self) -> str:
        """The host, and a hash of the whole address, because the path is often a secret."""
        kind = "chat" if self.form == "chat" else "webhook"
        return f"{kind}:{urlsplit(self.url).hostname}:{_digest(self.url)}"

    def send(self, message: Message) -> None:
        """Post the message."""
        attempts = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(self.pause),
            retry=retry_if_exception_type(_TransientError),
            reraise=True,
        )
        try:
            attempts(self._post, message)
        except _TransientError as problem:
            raise DeliveryError(
                f"{self.name} did not take message {message.message_id} in {_ATTEMPTS} attempts: {problem}"
            ) from problem

    def _post(self, message: Message) -> None:
        headers = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": message.message_id}
        body = (json.dumps({"text": chat_text(message)}) if self.form == "chat" else message.json_line()).encode()
        try:
            with Session() as session:
                session.mount("https://", _SystemTrust())
                response = session.post(
                    self.url, body, headers=headers, timeout=self.timeout, allow_redirects=False, stream=True, auth=_no_netrc
                )
        except RequestException as problem:
            raise _TransientError(f"no answer ({_root_cause(problem)})") from problem
        answer = f"it answered {response.status_code} {response.reason}"
        if response.status_code in _TRANSIENT:
            raise _TransientError(answer)
        if response.status_code // 100 != 2:  # noqa: PLR2004 (the class of successful answers)
            raise DeliveryError(
                f"{self.name} refused message {message.message_id}: {answer}; check its address in LAKEHOUSE_ALERT_TARGETS"
            )


def chat_text(message: Message) -> str:
    """A message for a chat: subject, addressees and text, shortened to the limit of chats.

    ``&``, ``<`` and ``>`` are escaped, as these webhooks require, so that no part of a message becomes a link or a mention.
    """
    to = f"To: {', '.join(message.addressed_to)}\n" if message.addressed_to else ""
    text = f"{' '.join(message.subject.split())}\n{to}\n{message.text}"
    if len(text) > _CHAT_CHARACTERS:
        text = f"{text[:_CHAT_CHARACTERS].rstrip()} ... (shortened)"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True)
class AppriseService:
    """A chat, mail or paging service by its Apprise URL, such as ``slack://...``, ``workflows://...`` (Teams) or ``mailtos://...``.

    The service receives subject, addressees and text, one attempt per call. Attempts and timeouts are set in the URL with
    Apprise's own parameters (``retry``, ``wait``, ``cto``, ``rto``).
    """

    url: str

    @property
    def name(self) -> str:
        """The service, and a hash of the whole address, because the address contains credentials."""
        return f"{urlsplit(self.url).scheme}:{_digest(self.url)}"

    def send(self, message: Message) -> None:
        """Notify the service."""
        import apprise  # noqa: PLC0415 (takes 0.3 s to load, and most deployments have no such target)

        service = apprise.Apprise.instantiate(self.url)
        if service is None:
            raise DeliveryError(f"{self.name} is not an Apprise URL; check LAKEHOUSE_ALERT_TARGETS")
        text = f"To: {', '.join(message.addressed_to)}\n\n{message.text}" if message.addressed_to else message.text
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:  # type: ignore[no-untyped-call] # (Apprise has no types here)
            delivered = service.notify(
                body=text, title=message.subject, notify_type=apprise.NotifyType.WARNING, body_format=apprise.NotifyFormat.TEXT
            )
        if not delivered:
            reason = " ".join(log.getvalue().split()) or "Apprise gives no reason"
            raise DeliveryError(f"{self.name} did not take message {message.message_id}: {reason}")


def targets(lake: Lake, logger: logging.Logger | None = None) -> list[Target]:
    """The targets of a deployment, in the order of ``LAKEHOUSE_ALERT_TARGETS``, without repetitions.

    :param logger: the logger of the target ``log``; default: the logger ``lakehouse.alerts``.
    """
    return [_target(address, logger) for address in dict.fromkeys(lake.settings.alert_targets)]


def _target(address: str, logger: logging.Logger | None) -> Target:
    if address == "log":
        return Log(logger) if logger else Log()
    if address.startswith(_FILE):
        return File(address.removeprefix(_FILE))
    if address.startswith(CHAT_FORM):
        return Webhook(address.removeprefix(CHAT_FORM), form="chat")
    return Webhook(address) if urlsplit(address).scheme in {"http", "https"} else AppriseService(address)


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()[:8]


class _TransientError(Exception):
    """A failure that may be temporary."""


class _SystemTrust(HTTPAdapter):
    """Trusts the certificate authorities of the system (``SSL_CERT_FILE``) in addition to those that requests bundles."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=ssl.create_default_context(), **kwargs)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        return super().proxy_manager_for(*args, ssl_context=ssl.create_default_context(), **kwargs)


def _no_netrc(request: PreparedRequest) -> PreparedRequest:
    """Leave a request unchanged; without an ``auth``, requests would add credentials from ``~/.netrc``."""
    return request


def _root_cause(problem: BaseException) -> str:
    """The root cause of an error of requests, whose own messages repeat the address."""
    while (cause := problem.__cause__ or problem.__context__) is not None:
        problem = cause
    return type(problem).__name__ if isinstance(problem, RequestException) else str(problem)


class AddressFile(Strict):
    """The keys of the file."""

    owners: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By 'owner' of a contract.")
    stewards: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By name in 'stewards' of a source.")
    consumers: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By name in 'consumers' of a metric.")
    platform: list[TargetAddress] | None = Field(None, description="Who runs the deployment; default: LAKEHOUSE_ALERT_TARGETS.")
    escalate_after: timedelta = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="How long an alert waits for its owner before the platform team gets it.",
    )


#: The names of a consumer's targets.
TargetsOf = Callable[[str], "Sequence[str]"]


@dataclass(frozen=True)
class Directory:
    """The targets of a deployment, by name, and the target names of owners, stewards, consumers and the platform team.

    :param owners: by the name of an owner or a steward.
    :param platform: the target names of the platform team.
    :param escalate_after: None if all have the same addresses.
    """

    targets: Mapping[str, Target]
    platform: Sequence[str]
    owners: Mapping[str, Sequence[str]] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    escalate_after: timedelta | None = None

    @staticmethod
    def of(targets: Iterable[Target]) -> Directory:
        """A directory with the same targets for everybody."""
        by_name = {target.name: target for target in targets}
        return Directory(by_name, list(by_name))

    def of_owners(self, owners: Iterable[str]) -> list[str]:
        """The targets of owners and stewards, without repetition; those of the platform team if none has an address."""
        names = dict.fromkeys(name for owner in owners for name in self.owners.get(owner, ()))
        return list(names or self.platform)

    def of_consumer(self, consumer: str) -> list[str]:
        """The targets of a consumer; those of the platform team if the consumer has no address."""
        return list(self.consumers.get(consumer) or self.platform)


def directory(lake: Lake, logger: logging.Logger | None = None) -> Directory:
    """The addresses of a deployment.

    :param logger: the logger of the target ``log``.
    :raises ContractError: if the file cannot be read, or has mistakes, each with its line and field.
    """
    if lake.settings.addresses is None:
        return Directory.of(targets(lake, logger))
    file = load_model(lake.settings.addresses, AddressFile, "docs/alerts.md")
    by_name: dict[str, Target] = {}

    def names(addresses: Sequence[str]) -> list[str]:
        here = targets(lake.with_settings(alert_targets=[*addresses]), logger)
        by_name.update({target.name: target for target in here})
        return [target.name for target in here]

    return Directory(
        by_name,
        names(lake.settings.alert_targets if file.platform is None else file.platform),
        {
            name: list(dict.fromkeys([*names(file.owners.get(name, [])), *names(file.stewards.get(name, []))]))
            for name in dict.fromkeys([*file.owners, *file.stewards])
        },
        {consumer: names(addresses) for consumer, addresses in file.consumers.items()},
        file.escalate_after,
    )


#: The pauses in seconds before failed messages are retried: for the second attempt, and for the third.
PAUSES = (1.0, 4.0)


class AfterFailure(Enum):
    """Whether a target still receives messages after a failed delivery, before the retry."""

    #: Messages are independent: a refused one does not delay the others.
    CONTINUE = "continue"
    #: Messages depend on their order, such as the opening of an alert and its resolution: the target waits.
    STOP = "stop"


@dataclass(frozen=True)
class PendingMessage:
    """A message, the targets that have not received it, and a function that records the names of those that have."""

    message: Message
    targets: Sequence[Target]
    record: Callable[[list[str]], None]


@dataclass(frozen=True)
class DeliveryFailure:
    """A message that a target refused; ``reason`` is None if the time limit was reached before sending."""

    target: str
    reason: str | None


@dataclass
class DeliveryReport:
    """The number of delivered messages, counted per target, and the failures after the last attempt."""

    delivered: int = 0
    failures: list[DeliveryFailure] = field(default_factory=list)


def deliver(messages: Iterable[PendingMessage], after_failure: AfterFailure, seconds: float) -> DeliveryReport:
    """Send messages in order; a failure of one target does not affect the others.

    Failed messages are retried after all other messages were sent, up to three attempts. Targets share the time: a slow or
    unresponsive target uses up only its own part.

    If a process dies between sending a message and recording it, the message is repeated with the same ``message_id``
    (at-least-once delivery).

    :param seconds: the time limit, after which no further message is sent.
    """
    report, started, waiting = DeliveryReport(), monotonic(), list(messages)
    for pause in (0.0, *PAUSES):
        left = seconds - (monotonic() - started)
        if pause and pause >= left:
            break
        sleep(pause)
        attempt = _Attempt(after_failure, left - pause)
        waiting = attempt.send(waiting)
        report.delivered += attempt.delivered
        report.failures = attempt.failures
        if not waiting:
            break
    return report


class _Attempt:
    """One attempt to send messages to all their targets."""

    def __init__(self, after_failure: AfterFailure, seconds: float) -> None:
        self.after_failure, self.seconds = after_failure, seconds
        self.delivered, self.failures = 0, list[DeliveryFailure]()

    def send(self, messages: Sequence[PendingMessage]) -> list[PendingMessage]:
        """Send messages, and return the messages that targets have not received, each for these targets."""
        spent = dict.fromkeys((target.name for pending in messages for target in pending.targets), 0.0)
        share = self.seconds / max(len(spent), 1)
        stopped: set[str] = set()
        waiting = []
        for pending in messages:
            received = []
            for target in pending.targets:
                if target.name in stopped:
                    continue
                if spent[target.name] >= share:
                    stopped.add(target.name)
                    self.failures.append(DeliveryFailure(target.name, None))
                    continue
                begun = monotonic()
                try:
                    target.send(pending.message)
                except Exception as problem:  # noqa: BLE001 (any failure of one target must not stop the others)
                    self.failures.append(DeliveryFailure(target.name, f"{problem}"))
                    if self.after_failure is AfterFailure.STOP:
                        stopped.add(target.name)
                else:
                    received.append(target.name)
                spent[target.name] += monotonic() - begun
            if received:
                pending.record(received)
                self.delivered += len(received)
            if others := [target for target in pending.targets if target.name not in received]:
                waiting.append(PendingMessage(pending.message, others, pending.record))
        return waiting
