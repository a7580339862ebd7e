"""Every change of a silver row leaves one row in the audit, whatever made it, also after a stop; redacted values leave none."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.delta.columns import content_columns
from lakehouse.ledger import decisions, redactions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse.silver import merge as silver_merge
from lakehouse.silver import update as silver_update
from lakehouse.spark import commits as spark_commits
from lakehouse_tests.support.audit_reader import audit_columns, replayed_audit
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, content_id, contract, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.silver_histories import BY_SPARK, FORWARD, histories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse_tests.support.silver_histories import History

pytestmark = pytest.mark.spark

FOLLOWED = "the first row"
FIRST, SECOND, THIRD = date(2024, 2, 1), date(2024, 2, 2), date(2024, 2, 3)
TRAILING = ("2024-01-31", "2024-02-01", "2024-02-02")
METRICS = [
    MetricContract.model_validate(
        {"metric": name, "source": "events", "window": window, "measures": [{"name": "n", "sql": "count(*)", "type": "long"}]}
    )
    for name, window in (("daily", 1), ("trailing", 3))
]


def row(key: str, amount: object, event: str, arrival: str, op: str = "insert") -> str:
    return f"{key},{amount},{event and f'2024-{event}:00Z'},2024-{arrival}:00Z,{op},,0"


def arrive(sample: SampleLake, arrival: date, *lines: str, days: Iterable[date] | None = None) -> None:
    """One arrival day through silver; by default all the days that it touches."""
    sample.deliver(arrival, csv_file(lines))
    sample.ingest(arrival)
    update(sample, sample.pending() if days is None else days)


def update(sample: SampleLake, days: Iterable[date]) -> None:
    """Bring silver up to date, and the audit with it."""
    silver_update.update(sample.lake, sample.contract, lambda: sample.spark, frozenset(days), "run", METRICS)


def followed(sample: SampleLake) -> SampleLake:
    """Bring a first row on its own day, so that no later row comes as history (see ``lateness.history``)."""
    arrive(sample, date(2024, 1, 1), row(FOLLOWED, 0, "01-01T10:00", "01-01T10:00"))
    return sample


VALUES = ("event_id", "action_type", "original_value", "new_value", "field_changed")


def test_late_rows_and_changes_are_audited_and_timely_rows_are_not(lake, spark) -> None:
    sample = followed(SampleLake(lake, contract(), spark))
    arrive(
        sample,
        FIRST,
        row("late", 1, "01-28T08:00", "02-01T12:00"),
        row("in time", 2, "01-31T12:00", "02-01T12:00"),
        row("gone", 3, "02-01T10:00", "02-01T12:00"),
        row("moved", 4, "02-01T10:00", "02-01T12:00"),
        row("same", 5, "02-01T10:00", "02-01T12:00"),
    )
    assert audit_columns(sample, "event_id", "action_type", "reason", "actor") == [
        ("late", "late_merge", "arrived 4 d 4 h after the event", "events"),
    ]
    ((original, new, fields),) = audit_columns(sample, "original_value", "new_value", "field_changed")
    assert (original, fields) == (None, None)
    assert new == {
        "record_key": "late",
        "id": "late",
        "amount": 1,
        "event_ts": "2024-01-28T08:00:00+00:00",
        "event_date": "2024-01-28",
        "source_system": "events",
    }

    arrive(
        sample,
        SECOND,
        row("in time", 7, "01-31T12:00", "02-02T12:00", "correct"),
        row("gone", "", "", "02-02T12:00", "delete"),
        row("moved", 4, "01-30T10:00", "02-02T12:00", "correct"),
        row("same", 5, "02-01T10:00", "02-02T12:00", "correct"),
    )
    gone, changed, moved = audit_columns(sample, *VALUES, "reason", "event_date")[1:]
    assert gone[:2] == ("gone", "correction")
    assert (gone[2]["amount"], *gone[3:]) == (3, None, None, "withdrawn", date(2024, 2, 1))
    corrected = ("in time", "correction", {"amount": 2}, {"amount": 7}, "amount", "corrected 2 d after the event")
    assert changed == (*corrected, date(2024, 1, 31))
    assert moved == (
        "moved",
        "correction",
        {"event_ts": "2024-02-01T10:00:00+00:00", "event_date": "2024-02-01"},
        {"event_ts": "2024-01-30T10:00:00+00:00", "event_date": "2024-01-30"},
        "event_date,event_ts",
        "moved from 2024-02-01 to 2024-01-30",
        date(2024, 1, 30),
    )
    columns = ("runner_id", "arrival_ts", "audit_ts", "notification_sent", "impacted_kpis")
    arrived = datetime(2024, 2, 2, 12, tzinfo=timezone.utc)
    days = ("2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02", "2024-02-03")
    kpis = ["daily@2024-01-30", "daily@2024-02-01", *(f"trailing@{day}" for day in days)]
    assert audit_columns(sample, *columns)[-1] == ("run", arrived, lake.settings.now, False, kpis)
    assert [row[0] for row in audit_columns(sample, "silver_version")] == [2, 3, 3, 3]

    version = sample.silver_version()
    assert audit.follow(lake, sample.contract, METRICS) == 0
    update(sample, [FIRST])
    assert sample.silver_version() == version
    assert audit.follow(lake, sample.contract, METRICS) == 0
    assert {row["event_id"] for row in log.read(lake, "events", day=FIRST).to_pylist()} == {"gone", "moved"}
    assert {row["event_id"] for row in log.read(lake, "events", day=date(2024, 1, 30)).to_pylist()} == {"moved"}


@pytest.mark.merge
def test_history_is_counted_by_file_and_day(lake, spark) -> None:
    sample = SampleLake(lake, contract(), spark)
    first = [row("a", 1, "01-30T10:00", "02-01T12:00"), row("b", 2, "01-30T23:00", "02-01T13:00")]
    arrive(sample, FIRST, *first, row("c", 3, "01-31T22:00", "02-01T12:00"), row("d", 4, "02-01T10:00", "02-01T12:00"))
    arrive(sample, SECOND, row("e", 5, "01-30T10:00", "02-02T12:00"), row("f", 6, "01-29T10:00", "02-02T12:00"))
    (name, later) = (f"arrival_date={day}.csv" for day in (FIRST, SECOND))
    arrived = [datetime(2024, 2, day, hour, tzinfo=timezone.utc) for day, hour in ((1, 13), (1, 12), (2, 12), (2, 12))]
    days = [date(2024, 1, 30), date(2024, 1, 31), date(2024, 1, 29), date(2024, 1, 30)]
    assert audit_columns(sample, "event_id", "action_type", "event_date", "arrival_ts", "silver_version") == [
        (None, "backfill", days[0], arrived[0], 1),
        (None, "backfill", days[1], arrived[1], 1),
        ("e", "late_merge", days[3], arrived[3], 2),
        (None, "backfill", days[2], arrived[2], 2),
    ]
    rows = audit_columns(sample, "event_id", "new_value", "reason")
    assert [(value, reason) for key, value, reason in rows if key is None] == [
        ({"source_file": name, "rows": 2, "late": 2}, f"first load of the day: 2 rows of {name}"),
        ({"source_file": name, "rows": 1, "late": 0}, f"first load of the day: 1 row of {name}"),
        ({"source_file": later, "rows": 1, "late": 1}, f"first load of the day: 1 row of {later}"),
    ]
    assert audit_columns(sample, "impacted_kpis")[1] == (["daily@2024-01-31", *(f"trailing@{day}" for day in TRAILING)],)


@pytest.mark.merge
def test_a_move_applied_one_day_at_a_time_is_audited_as_it_happened(lake, spark) -> None:
    sample = followed(SampleLake(lake, contract(lateness={"expected": "PT0S"}), spark))
    arrive(sample, FIRST, row("a", 1, "02-01T10:00", "02-01T12:00"))
    arrive(sample, SECOND, row("a", 2, "01-30T10:00", "02-02T12:00", "correct"), days=[date(2024, 1, 30)])
    update(sample, sample.pending())
    assert [(kind, old and old["amount"], new and new["amount"]) for _, kind, old, new, _ in audit_columns(sample, *VALUES)] == [
        ("late_merge", None, 1),
        ("late_merge", None, 2),
        ("correction", 1, None),
    ]


@pytest.mark.merge
def test_who_corrected_and_why_are_taken_from_the_record_and_values_can_be_made_again(lake, spark) -> None:
    fields = [("id", "string"), ("price", "decimal(12,2)"), ("ratio", "double"), ("due", "date"), ("paid", "boolean")]
    model = {"fields": [{"name": name, "type": kind} for name, kind in fields]}
    changes = {"op": "op", "corrected_by": "who", "correction_reason": "why"}
    sample = SampleLake(lake, contract(model=model, changes=changes), spark)
    header = "id,price,ratio,due,paid,event_time,arrived_at,op,who,why"
    for arrival, line in (
        (FIRST, '"ä""\\",10.50,0.1,2024-03-01,true,2024-02-01T10:00:00Z,2024-02-01T12:00:00Z,insert,,'),
        (SECOND, '"ä""\\",9.00,,2024-03-02,false,2024-02-01T10:00:00Z,2024-02-02T12:00:00Z,correct,cem,"wrong, twice"'),
    ):
        sample.deliver(arrival, f"{header}\n{line}\n".encode())
        sample.ingest(arrival)
        sample.update()
    ((key, _, old, new, names),) = audit_columns(sample, *VALUES)
    assert (key, names) == ('ä"\\', "due,paid,price,ratio")
    assert old == {"price": "10.50", "ratio": 0.1, "due": "2024-03-01", "paid": True}
    assert new == {"price": "9.00", "ratio": None, "due": "2024-03-02", "paid": False}
    assert audit_columns(sample, "actor", "reason") == [("cem", "wrong, twice")]


@pytest.mark.merge
def test_redacted_values_are_in_no_row_whenever_it_was_written(lake, spark, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = SampleLake(lake, contract(lateness={"expected": "PT0S"}), spark)
    arrive(sample, FIRST, row("a", 4711, "02-01T10:00", "02-01T12:00"), row("b", 1, "02-01T10:00", "02-01T12:00"))
    with monkeypatch.context() as stopped:
        stopped.setattr(audit, "follow", lambda *_: 0)  # this version is audited behind the redaction
        arrive(sample, SECOND, row("a", 4712, "02-01T10:00", "02-02T12:00", "correct"))
    entry = Redaction("a", ["amount"], "dana", "asked for it", lake.now(), touched_days=[FIRST])
    redactions.record(lake, "events", entry)
    assert audit.erase(lake, "events") == 1
    assert audit.erase(lake, "events") == 0
    sample.update()
    hidden = {"amount": "[redacted]"}
    rows = audit_columns(sample, *VALUES, "actor", "reason")
    assert [(kind, old and old["amount"], new["amount"]) for key, kind, old, new, *_ in rows if key == "a"] == [
        ("late_merge", None, "[redacted]"),
        ("correction", "[redacted]", "[redacted]"),
        ("redaction", "[redacted]", "[redacted]"),
    ]
    assert rows[-1] == ("a", "redaction", hidden, hidden, "amount", "dana", "asked for it")
    assert [new["amount"] for key, _, _, new, *_ in rows if key == "b"] == [1], "other keys keep their values"
    assert "471" not in json.dumps(log.read(lake, "events").to_pylist(), default=str)


@pytest.mark.merge
def test_steward_replay_and_backfill_are_told_apart_by_the_commit(lake, spark) -> None:
    watermark = {"watermark": "P2D", "beyond": "quarantine"}
    sample = SampleLake(lake, contract(lateness=watermark), spark)
    content = csv_file([row("a", 1, "02-01T10:00", "02-01T12:00"), row("b", 2, "01-28T10:00", "02-01T12:00")])
    sample.deliver(FIRST, content)
    sample.ingest(FIRST)
    sample.update()
    assert audit_columns(sample, "event_id") == [], "what waits for a steward is not in silver"
    accepted = Decision(
        content_id(content), 3, "b", "accept", "anna", "seen the till", lake.now(), touched_days=[date(2024, 1, 28)]
    )
    decisions.record(lake, "events", [accepted])
    sample.update()

    def broken(why: dict[str, Any]) -> None:
        """Spoil the day of a, and mend it."""
        target = locations.silver(lake, "events")
        rows = spark.read.format("delta").load(target.address).where(F.col("event_date") == F.lit(FIRST)).localCheckpoint()
        spark_commits.replace_days(
            rows.withColumn("amount", F.lit(9)), target, [FIRST], {"run_id": "spoils", "method": "rebuild"}
        )
        silver_merge.rebuild(
            spark, lake, sample.contract, [FIRST], {"method": "rebuild", "ingestions": [], **why}, rows_of_days={}
        )

    broken({"run_id": "mends", "operation": "bug_replay", "by": "ben", "reason": "BUG-7"})
    broken({"run_id": "fills", "operation": "backfill", "by": "cem", "reason": "lost disk"})
    audit.follow(lake, sample.contract, METRICS)
    assert audit_columns(sample, "event_id", "action_type", "actor", "reason", "runner_id") == [
        ("b", "steward", "anna", "seen the till", "run"),
        ("a", "backfill", "lakehouse", "made again from Bronze", "spoils"),
        ("a", "replay", "ben", "BUG-7", "mends"),
        ("a", "backfill", "lakehouse", "made again from Bronze", "spoils"),
        ("a", "backfill", "cem", "lost disk", "fills"),
    ]


@pytest.mark.merge
def test_rows_that_come_by_a_backfill_name_its_plan(lake, spark) -> None:
    sample = followed(SampleLake(lake, contract(), spark))
    arrive(sample, FIRST, row("known", 1, "02-01T10:00", "02-01T12:00"))
    lines = [
        row("late", 1, "01-28T08:00", "02-02T12:00"),
        row("in time", 2, "02-02T11:00", "02-02T12:00"),
        row("in time as well", 3, "02-02T11:00", "02-02T12:00"),
        row("known", 9, "02-01T10:00", "02-02T12:00", "correct"),
    ]
    sample.deliver(SECOND, csv_file(lines))
    sample.ingest(SECOND)
    because = {"backfill": "plan-1", "reason": "the missing week", "by": "anna"}
    silver_update.update(
        lake, sample.contract, lambda: spark, frozenset(sample.pending()), "run", METRICS, silver_update.UpdatePlan(because)
    )
    suffix = "backfill plan-1 by anna: the missing week"
    audited = audit_columns(sample, "event_id", "event_date", "action_type", "reason")
    assert [line for line in audited if line[0] is None] == [
        (None, SECOND, "backfill", f"{suffix}: 2 rows of arrival_date=2024-02-02.csv")
    ]
    assert sorted(line for line in audited if line[0] is not None) == [
        ("known", FIRST, "backfill", f"corrected 1 d 2 h after the event ({suffix})"),
        ("late", date(2024, 1, 28), "backfill", f"arrived 5 d 4 h after the event ({suffix})"),
    ]
    assert len(log.read(lake, "events", day=SECOND, action="backfill")) == 1
    silver_update.update(
        lake, sample.contract, lambda: spark, frozenset([FIRST]), "run", METRICS, silver_update.UpdatePlan(because)
    )
    assert len(audit_columns(sample, "event_id")) == len(audited), "a day that does not change has no row"
    arrive(sample, THIRD, row("known", 8, "02-01T10:00", "02-03T12:00", "correct"))
    assert audit_columns(sample, "action_type", "reason")[-1] == ("correction", "corrected 2 d 2 h after the event")


@pytest.mark.merge
def test_after_a_stop_the_next_run_reports_what_the_stopped_one_did_not(lake, spark, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = SampleLake(lake, contract(lateness={"expected": "PT0S"}), spark)

    class Killed(BaseException):
        """As little is caught of it as of a SIGKILL."""

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    follow = audit.follow
    for arrival, op, amount in ((FIRST, "insert", 1), (SECOND, "correct", 2), (THIRD, "correct", 3)):
        with monkeypatch.context() as stopped:
            stopped.setattr(audit, "follow", lambda *_: 0)
            arrive(sample, arrival, row("a", amount, "02-01T10:00", f"{arrival:%m-%d}T12:00", op))
        if arrival == SECOND:
            with monkeypatch.context() as stopped:
                stopped.setattr(log.row_writer, "append", killed)
                with pytest.raises(Killed):
                    follow(lake, sample.contract, METRICS)
    assert audit_columns(sample, "audit_id") == []
    assert follow(lake, sample.contract, METRICS) == 3
    assert follow(lake, sample.contract, METRICS) == 0
    assert [(old and old["amount"], new["amount"]) for _, _, old, new, _ in audit_columns(sample, *VALUES)] == [
        (None, 1),
        (1, 2),
        (2, 3),
    ]


@pytest.mark.proof
@law(25)
@example(history=FORWARD)
@example(history=BY_SPARK)
@given(history=histories())
def test_replaying_the_audit_gives_what_silver_holds(
    history: History, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sample = followed(SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(lateness={"expected": "PT0S"}), spark))
    sample.lake.settings.local_rows, sample.lake.settings.file_bytes = history.local_rows, history.file_bytes
    for number, step in enumerate(history.steps):
        sample.deliver(step.arrival, csv_file(map(csv_line, history.files[step.file])), f".{number}.csv")
        sample.ingest(step.arrival)
        if days := step.updated & set(sample.pending()):
            sample.update(days)
    sample.update()
    names = [name for name, _ in content_columns(sample.contract)]
    rows = locations.silver(sample.lake, "events").read(names)
    assert rows is not None
    held = [
        {name: value.isoformat() if isinstance(value, date) else value for name, value in one.items()}
        for one in rows.to_pylist()
        if one["record_key"] != FOLLOWED
    ]
    assert replayed_audit(sample) == {(one["record_key"], one["event_date"]): one for one in held}
