"""Settings that people write by hand: what is understood, and what is said about the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from lakehouse.settings import Settings


def test_alerts_go_to_the_log_where_nothing_is_said(monkeypatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_ALERT_TARGETS", raising=False)
    assert Settings().alert_targets == ["log"]


def test_targets_are_a_json_list_and_paths_become_absolute(monkeypatch) -> None:
    said = ["log", "file:alerts.jsonl", "file:///var/log/a%20b.jsonl", "https://example.com:8443/hook?token=x"]
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", json.dumps(said))
    absolute = f"file:{Path('alerts.jsonl').absolute()}"
    assert Settings().alert_targets == ["log", absolute, "file:/var/log/a b.jsonl", said[-1]]


@pytest.mark.parametrize(
    "said",
    [
        *("log", '"log"', '{"log": 1}', "[1]", '["mail:me"]', '["file:"]', '["file:/folder/"]', '["file://host/a"]'),
        *('["https://"]', '["http://[x"]', '["http://host:99999/"]', '["http://host/a b"]'),
    ],
)
def test_anything_else_is_answered_with_what_to_write(monkeypatch, said: str) -> None:
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", said)
    with pytest.raises(ValidationError, match=r'write a JSON list such as \["log", "file:/path/alerts.jsonl"'):
        Settings()
