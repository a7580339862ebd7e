"""Settings that people write by hand: what is understood, and the messages about the rest."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import lakehouse
from lakehouse.settings import InvalidSettingsError, Settings


def test_alerts_go_to_the_log_by_default(monkeypatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_ALERT_TARGETS", raising=False)
    assert Settings().alert_targets == ["log"]


def test_targets_are_a_json_list_and_paths_become_absolute(monkeypatch) -> None:
    targets = [
        "log",
        "file:alerts.jsonl",
        "file:///var/log/a%20b.jsonl",
        "https://example.com:8443/hook?token=x",
        "chat+https://example.com:8443/hook?token=x",
        "mailtos://user:password@example.com?to=team@example.com",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#alerts",
    ]
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", json.dumps(targets))
    absolute = f"file:{Path('alerts.jsonl').absolute()}"
    assert Settings().alert_targets == ["log", absolute, "file:/var/log/a b.jsonl", *targets[3:]]


@pytest.mark.parametrize(
    "text",
    [
        *("log", '"log"', '{"log": 1}', "[1]", '["mail:me"]', '["file:"]', '["file:/folder/"]', '["file://host/a"]'),
        *('["https://"]', '["http://[x"]', '["http://host:99999/"]', '["http://host/a b"]', '["slack://"]', '["htps://host/a"]'),
        *('["chat+https://"]', '["chat+file:/a"]', '["chat+slack://a/b/c"]', '["chat+log"]', '["chat+http://host/a b"]'),
    ],
)
def test_anything_else_is_answered_with_what_to_write(monkeypatch, text: str) -> None:
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", text)
    with pytest.raises(InvalidSettingsError, match=r'write a JSON list such as \["log", "file:/path/alerts.jsonl"'):
        Settings()


@pytest.mark.parametrize(
    "value",
    [
        *("https://h/hunter2; https://h/hunter2", '["log", "htps://h/hunter2"]', '["log", "http://h:hunter2/"]'),
        *('["slack://hunter2"]', '"hunter2"', '["chat+slack://hunter2"]', '[{"hunter2": 1}]'),
    ],
)
def test_a_misspelt_target_is_named_by_its_place_and_never_printed(
    monkeypatch, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", value)
    with pytest.raises(InvalidSettingsError) as refused:
        Settings()
    assert f"{refused.value}".startswith("LAKEHOUSE_ALERT_TARGETS: ")
    assert "hunter2" not in f"{refused.value} {caplog.text}"


def test_the_place_of_a_misspelt_target_is_its_number(monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_ALERT_TARGETS", '["log", "htps://h/hunter2"]')
    with pytest.raises(InvalidSettingsError, match=r"LAKEHOUSE_ALERT_TARGETS: target 2 is unknown; write a JSON list"):
        Settings()


def test_no_module_assigns_to_settings() -> None:
    """Settings are shared; a module that needs other ones makes a copy."""
    assigning = [
        f"{path}:{node.lineno}"
        for path in sorted(Path(lakehouse.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and ast.unparse(target.value).split(".")[-1].strip("_") == "settings"
    ]
    assert assigning == []


def test_mistakes_are_named_in_one_line_without_values(monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", '{"spark.hadoop.fs.s3a.secret.key": "hunter2"')
    with pytest.raises(InvalidSettingsError) as broken:
        Settings()
    assert f"{broken.value}" == "LAKEHOUSE_SPARK_CONF: its value is not JSON"
    monkeypatch.delenv("LAKEHOUSE_SPARK_CONF")
    monkeypatch.setenv("LAKEHOUSE_SPARK_PROFILE", "hunter2")
    monkeypatch.setenv("LAKEHOUSE_STORAGE_OPTIONS", '{"AWS_SECRET_ACCESS_KEY": ["hunter2"]}')
    with pytest.raises(InvalidSettingsError) as bad:
        Settings()
    assert f"{bad.value}" == (
        "LAKEHOUSE_SPARK_PROFILE: input should be 'small' or 'large'; "
        "LAKEHOUSE_STORAGE_OPTIONS AWS_SECRET_ACCESS_KEY: input should be a valid string"
    )


@pytest.mark.parametrize(
    ("variable", "value", "mistake"),
    [
        ("SPARK_MEMORY", "lots", "is no amount of memory; write a whole number with a unit, as in 512m or 2g"),
        ("SPARK_MEMORY", "-2g", "is no amount of memory"),
        ("SETTLE_SECONDS", "-1", "input should be greater than or equal to 0"),
        ("SETTLE_SECONDS", "inf", "input should be a finite number"),
        ("RECONCILE_SECONDS", "nan", "input should be a finite number"),
        ("SENSOR_SECONDS", "-4", "input should be greater than or equal to 1"),
        ("LOCAL_ROWS", "-5", "input should be greater than or equal to 0"),
        ("ROOT", "", "is empty; give a folder or a URI"),
        ("LANDING", " ", "is empty; give a folder or a URI"),
        ("ROOT", "lake%20house", "has '%20' in its path"),
        ("ROOT", "/data/[new]", "has '[' in its path"),
        ("SPARK_REMOTE", "hunter2", "is no address of a Spark Connect server; write sc://host:15002, or auto"),
        ("CLOSE_CRON", "never", "is no cron schedule; write minute, hour, day, month and weekday"),
        ("MAINTENANCE_CRON", "99 2 * * *", "is no cron schedule"),
        ("SPARK_CONF", '{"spark.sql.ansi.enabled": "false"}', "spark.sql.ansi.enabled decides what expressions mean"),
        ("SPARK_CONF", '{"spark.sql.session.timeZone": "Europe/Berlin"}', "spark.sql.session.timeZone decides"),
        ("SPARK_CONF", '{"spark.sql.mapKeyDedupPolicy": "hunter2"}', "spark.sql.mapKeyDedupPolicy decides"),
        ("SPARK_CONF", '{"spark.sql.legacy.timeParserPolicy": "LEGACY"}', "spark.sql.legacy.timeParserPolicy decides"),
        ("WEBSERVER", "hunter2", "is no address; write one with its scheme"),
    ],
)
def test_nonsense_is_refused_in_one_line_without_its_value(monkeypatch, variable: str, value: str, mistake: str) -> None:
    monkeypatch.setenv(f"LAKEHOUSE_{variable}", value)
    with pytest.raises(InvalidSettingsError) as refused:
        Settings()
    assert f"{refused.value}".startswith(f"LAKEHOUSE_{variable}: {mistake}")
    assert "\n" not in f"{refused.value}"
    assert "hunter2" not in f"{refused.value}"


def test_an_option_that_decides_what_expressions_mean_may_be_written_as_it_is(monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", '{"spark.sql.ansi.enabled": "True", "spark.sql.shuffle.partitions": "8"}')
    assert Settings().spark_conf["spark.sql.shuffle.partitions"] == "8"


def test_schedules_may_have_names(monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_CLOSE_CRON", "@daily")
    monkeypatch.setenv("LAKEHOUSE_TUNING_CRON", "30 1 * JAN-MAR MON")
    settings = Settings()
    assert (settings.close_cron, settings.tuning_cron) == ("@daily", "30 1 * JAN-MAR MON")
