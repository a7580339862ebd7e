"""What a message becomes in the log, in a file and at a real HTTP server, and the errors where it does not arrive."""

from __future__ import annotations

import html
import json
import logging
import shutil
import socket
import ssl
import subprocess
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.operations.delivery import AppriseService, DeliveryError, File, Log, Message, Webhook, chat_text, targets
from lakehouse.settings import Settings
from lakehouse_tests.support.mail_server import mail_server
from lakehouse_tests.support.webhook_server import Receiver, webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MESSAGE = Message("a1:opened", "Alert: München", "One line.\nAnother.", ["anna", "ben"], {"day": date(2024, 11, 5), "rows": 3})
AS_JSON = {
    "message_id": "a1:opened",
    "subject": "Alert: München",
    "text": "One line.\nAnother.",
    "addressed_to": ["anna", "ben"],
    "data": {"day": "2024-11-05", "rows": 3},
}


@pytest.fixture(name="receiver")
def _receiver(monkeypatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with webhook_server() as found:
        yield found


def hook(receiver: Receiver) -> Webhook:
    return Webhook(receiver.url, pause=0.001)


def test_the_log_has_subject_addressees_and_text(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        Log().send(MESSAGE)
    [record] = caplog.records
    assert (record.name, record.levelno) == ("lakehouse.alerts", logging.WARNING)
    assert record.getMessage() == "Alert: München (to anna, ben)\nOne line.\nAnother."


def test_a_file_gets_a_line_a_message(tmp_path: Path) -> None:
    file = File(str(tmp_path / "new" / "alerts.jsonl"))
    file.send(MESSAGE)
    file.send(MESSAGE)
    lines = (tmp_path / "new" / "alerts.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [AS_JSON, AS_JSON]


def test_a_torn_line_is_ended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_text('{"message_id": "a0')
    File(str(path)).send(MESSAGE)
    torn, whole = path.read_text().splitlines()
    assert torn == '{"message_id": "a0'
    assert json.loads(whole) == AS_JSON


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"file:.* did not take message a1:opened: .*Is a directory"):
        File(str(tmp_path)).send(MESSAGE)


def test_a_webhook_receives_the_message_and_its_id(receiver: Receiver) -> None:
    hook(receiver).send(MESSAGE)
    [(path, headers, body)] = receiver.requests
    assert path == "/hook"
    assert headers["Idempotency-Key"] == "a1:opened"
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert json.loads(body) == AS_JSON


@pytest.mark.parametrize("answers", [[500], [503, 429], [None], [None, 502]])
def test_what_fails_first_is_sent_again_under_the_same_id(receiver: Receiver, answers: list[int | None]) -> None:
    receiver.answers = [*answers]
    hook(receiver).send(MESSAGE)
    assert receiver.taken == [AS_JSON]
    assert {headers["Idempotency-Key"] for _, headers, _ in receiver.requests} == {"a1:opened"}
    assert len(receiver.requests) == len(answers) + 1


def test_it_is_not_retried_without_end(receiver: Receiver) -> None:
    receiver.answers = [500] * 9
    with pytest.raises(DeliveryError, match=r"did not take message a1:opened in 3 attempts: it answered 500"):
        hook(receiver).send(MESSAGE)
    assert len(receiver.requests) == 3


@pytest.mark.parametrize("answer", [400, 401, 404, 302, 307])
def test_a_refusal_is_not_retried_and_a_redirection_counts_as_one(receiver: Receiver, answer: int) -> None:
    receiver.answers = [answer]
    with pytest.raises(DeliveryError, match=rf"refused message a1:opened: it answered {answer} .*LAKEHOUSE_ALERT_TARGETS"):
        hook(receiver).send(MESSAGE)
    assert len(receiver.requests) == 1, "nothing followed"


def test_no_listener_and_no_answer_in_time(monkeypatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/hook"
        with pytest.raises(DeliveryError, match=r"in 3 attempts: no answer \(.*refused"):
            Webhook(url, timeout=1, pause=0.001).send(MESSAGE)
        deaf.listen()
        with pytest.raises(DeliveryError, match=r"in 3 attempts: no answer \(.*timed out"):
            Webhook(url, timeout=0.05, pause=0.001).send(MESSAGE)


def test_credentials_of_netrc_stay_at_home(receiver: Receiver, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login anna password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    hook(receiver).send(MESSAGE)
    [(_, headers, _)] = receiver.requests
    assert "Authorization" not in headers


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_certificate_that_the_system_trusts_is_trusted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-out", certificate, "-keyout", key], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with webhook_server(context) as receiver:
        with pytest.raises(DeliveryError, match=r"no answer \(.*certificate verify failed"):
            hook(receiver).send(MESSAGE)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        hook(receiver).send(MESSAGE)
    assert receiver.taken == [AS_JSON]


def test_a_chat_receives_readable_text(receiver: Receiver) -> None:
    Webhook(receiver.url, form="chat").send(MESSAGE)
    [(_, headers, body)] = receiver.requests
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert headers["Idempotency-Key"] == "a1:opened"
    assert json.loads(body) == {"text": "Alert: München\nTo: anna, ben\n\nOne line.\nAnother."}


def test_nothing_in_a_message_becomes_a_link_or_a_mention_in_a_chat(receiver: Receiver) -> None:
    text = "revenue 10 -> 15: <!channel> <https://example.com|R&D>\n&lt;"
    Webhook(receiver.url, form="chat").send(replace(MESSAGE, subject="one\nline", text=text, addressed_to=[]))
    [sent] = receiver.taken
    assert not set(sent["text"]) & {"<", ">"}
    assert html.unescape(sent["text"]) == f"one line\n\n{text}", "as a chat shows it"


@pytest.mark.parametrize("character", ["x", "&", "<"])
def test_a_chat_receives_the_beginning_of_a_long_text(character: str) -> None:
    shown = html.unescape(chat_text(replace(MESSAGE, text=character * 90_000)))
    assert shown.endswith(f"{character * 9} ... (shortened)")
    assert 3_000 < len(shown) < 4_000


def test_a_mail_has_subject_addressees_and_text() -> None:
    with mail_server() as mailbox:
        AppriseService(mail_url(mailbox.port)).send(MESSAGE)
    [(recipients, mail)] = mailbox.mails
    assert recipients == ["team@example.com"]
    assert (mail["From"], mail["To"], mail["Subject"]) == ("lake@example.com", "team@example.com", "Alert: München")
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().splitlines() == ["To: anna, ben", "", "One line.", "Another."]


def test_a_subject_cannot_add_headers_to_a_mail() -> None:
    injected = replace(MESSAGE, subject="Late\r\nBcc: eve@example.com\n\n<b>body</b>", addressed_to=["a\r\nCc: eve@example.com"])
    with mail_server() as mailbox:
        AppriseService(mail_url(mailbox.port)).send(injected)
    [(recipients, mail)] = mailbox.mails
    assert recipients == ["team@example.com"]
    assert (mail["Bcc"], mail["Cc"]) == (None, None)
    assert mail["Subject"] == "Late Bcc: eve@example.com <b>body</b>"


def test_a_mail_server_that_refuses_is_reported() -> None:
    with mail_server() as mailbox:
        mailbox.refuses = True
        with pytest.raises(DeliveryError, match=r"mailto:\w+ did not take message a1:opened: Sending email to .* failed"):
            AppriseService(mail_url(mailbox.port)).send(MESSAGE)
    assert mailbox.mails == []


def mail_url(port: int) -> str:
    return f"mailto://127.0.0.1:{port}?from=lake@example.com&to=team@example.com&mode=insecure"


def test_a_service_of_apprise_receives_subject_addressees_and_text(receiver: Receiver) -> None:
    AppriseService(receiver.url.replace("http://", "json://")).send(MESSAGE)
    [taken] = receiver.taken
    assert taken["title"] == "Alert: München"
    assert taken["message"] == "To: anna, ben\n\nOne line.\nAnother."
    assert taken["type"] == "warning"


def test_a_service_that_refuses_is_reported_with_its_reason(receiver: Receiver) -> None:
    receiver.answers = [403]
    service = AppriseService(receiver.url.replace("http://", "json://"))
    with pytest.raises(DeliveryError, match=rf"{service.name} did not take message a1:opened: .*403"):
        service.send(MESSAGE)
    with pytest.raises(DeliveryError, match=r"nothing:\w+ is not an Apprise URL; check LAKEHOUSE_ALERT_TARGETS"):
        AppriseService("nothing://secret").send(MESSAGE)


def test_names_tell_targets_apart_and_no_secrets() -> None:
    one, other = Webhook("https://hooks.example.com/T1/secret"), Webhook("https://hooks.example.com/T2/secret")
    assert one.name != other.name
    assert one.name.startswith("webhook:hooks.example.com:")
    assert "secret" not in one.name
    assert AppriseService("slack://T1/secret").name.startswith("slack:")
    assert "secret" not in AppriseService("slack://T1/secret").name


def test_the_setting_names_the_targets_each_once() -> None:
    addresses = ["log", "file:/a/b.jsonl", "https://example.com/x", "log", "json://example.com/x", "chat+https://example.com/x"]
    listed = targets(Lake(Settings(alert_targets=addresses)))
    assert [type(target) for target in listed] == [Log, File, Webhook, AppriseService, Webhook]
    assert listed[1].name == "file:/a/b.jsonl"
    assert listed[-1] == Webhook("https://example.com/x", form="chat")
    assert listed[-1].name.startswith("chat:example.com:")
    logger = logging.getLogger("mine")
    assert targets(Lake(Settings(alert_targets=["log"])), logger) == [Log(logger)]
    assert targets(Lake(Settings(alert_targets=[]))) == []
