"""Brokers that cannot be read: each reason is a sentence with the way out."""

from __future__ import annotations

import pytest

from lakehouse.contracts.inputs import KafkaTopic
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.streams import client
from lakehouse.streams.client import StreamProblem, TopicReader
from lakehouse_tests.support.free_port import free_port

NOBODY = KafkaTopic(topic="t", servers=f"127.0.0.1:{free_port()}")


def test_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.5)
    with TopicReader(Lake(Settings()), NOBODY) as reader, pytest.raises(StreamProblem) as problem:
        reader.state()
    assert f"the brokers at {NOBODY.servers} cannot be read" in str(problem.value)
    assert "check source.kafka.servers, the network, and LAKEHOUSE_KAFKA_OPTIONS" in str(problem.value)


def test_an_option_that_the_client_does_not_know() -> None:
    with pytest.raises(StreamProblem, match="No such configuration property"):
        TopicReader(Lake(Settings(kafka_options={"no.such.option": "1"})), NOBODY)


def test_the_settings_replace_the_options_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.5)
    other = f"127.0.0.1:{free_port()}"
    reading = TopicReader(Lake(Settings(kafka_options={"bootstrap.servers": other})), NOBODY)
    with reading as reader, pytest.raises(StreamProblem, match=f"the brokers at {other} cannot be read"):
        reader.state()
