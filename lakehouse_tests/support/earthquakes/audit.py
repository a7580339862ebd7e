"""The audit that the real history should have, row by row: a plain Python model made from the files and the rules."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.calendar.days import replay_clock
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.earthquakes.history import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

COLUMNS = ("event_id", "event_date", "action_type", "original_value", "new_value", "field_changed", "reason", "actor")
COLUMNS += ("event_ts", "arrival_ts", "impacted_kpis", "notification_sent")
Row = dict[str, str | None]


class Catalogue:
    """What is published, from the files alone: each record replaces its event's row, a delete takes it away."""

    def __init__(self, contract: SourceContract) -> None:
        self._names = {field.name: field.in_file for field in contract.typed_fields}
        self._rows: dict[str, Row] = {}
        self._arrived: dict[str, datetime] = {}
        self._first_arrivals: dict[str, date] = {}

    def audit_of(self, arrival: date) -> Iterator[tuple[Any, ...]]:
        """The rows that the audit should have of one arrival day."""
        with gzip.open(BATCHES / f"arrival_date={arrival}.csv.gz", "rt", encoding="utf-8", newline="") as file:
            records = sorted(csv.DictReader(file), key=lambda record: record["arrival_ts"])
        before = {record["event_id"]: self._rows.get(record["event_id"]) for record in records}
        arrived_before = dict(self._arrived)
        for record in records:
            key, arrived = record["event_id"], datetime.fromisoformat(record["arrival_ts"].replace("Z", "+00:00"))
            assert arrived > self._arrived.get(key, datetime.min.replace(tzinfo=arrived.tzinfo)), "in this history time goes on"
            self._arrived[key] = arrived
            if record["op"] == "delete":
                self._rows.pop(key, None)
            else:
                self._rows[key] = self._row(record)
        for record in records:
            self._first_arrivals.setdefault(record["event_ts"][:10], arrival)
        followed_since = f"{min(self._first_arrivals.values())}"
        history = {day for day, first in self._first_arrivals.items() if day < followed_since and first == arrival}
        loaded: dict[str, list[tuple[datetime, bool]]] = {}
        for key, old in sorted(before.items()):
            new = self._rows.get(key)
            if new is not None and old is None and new["event_date"] in history:
                loaded.setdefault(f"{new['event_date']}", []).append((self._arrived[key], self._late(new, self._arrived[key])))
            elif new is not None:
                yield from self._change(key, old, new, self._arrived[key])
            elif old is not None:
                rest = (f"{old['event_date']}", old, None, None, "withdrawn", arrived_before[key])
                yield self._audit_row(key, "correction", *rest, [f"{old['event_date']}"])
        for day, rows in loaded.items():
            yield self._load(f"arrival_date={arrival}.csv.gz", day, rows)

    def _row(self, record: dict[str, str]) -> Row:
        event = record["event_ts"].replace("Z", "000+00:00")  # the files tell milliseconds
        said: Row = {name: record[column] or None for name, column in self._names.items()}
        clocks: Row = {"event_ts": event.replace(".000000", ""), "event_date": record["event_ts"][:10]}
        return {"record_key": record["event_id"], **said, **clocks, "source_system": "NCSS"}

    @staticmethod
    def _late(row: Row, arrived: datetime) -> bool:
        return arrived - datetime.fromisoformat(f"{row['event_ts']}") > timedelta(days=1)

    def _load(self, file: str, day: str, rows: list[tuple[datetime, bool]]) -> tuple[Any, ...]:
        """The row about the history that a file brought to an event day."""
        value: Any = {"source_file": file, "rows": len(rows), "late": sum(late for _, late in rows)}
        noun = "row" if len(rows) == 1 else "rows"
        sentence = f"first load of the day: {len(rows):,} {noun} of {file}"
        arrived = max(arrived for arrived, _ in rows)
        return self._audit_row(None, "backfill", day, None, value, None, sentence, arrived, [day])

    def _change(self, key: str, old: Row | None, new: Row, arrived: datetime) -> Iterator[tuple[Any, ...]]:
        late = arrived - datetime.fromisoformat(f"{new['event_ts']}")
        day = f"{new['event_date']}"
        if old is None:
            if self._late(new, arrived):
                yield self._audit_row(
                    key, "late_merge", day, None, new, None, f"arrived {in_words(late)} after the event", arrived, [day]
                )
            return
        names = sorted(name for name in new if old[name] != new[name])
        if not names:
            return
        days = sorted({f"{old['event_date']}", day})
        sentence = f"corrected {in_words(late)} after the event"
        if len(days) > 1:
            sentence = f"moved from {old['event_date']} to {day}"
        sides = [{name: side[name] for name in names} for side in (old, new)]
        yield self._audit_row(
            key, "correction", day, sides[0], sides[1], ",".join(names), sentence, arrived, days, event=new["event_ts"]
        )

    @staticmethod
    def _audit_row(
        key: str | None,
        action: str,
        day: str,
        old: Row | None,
        new: Row | None,
        names: str | None,
        reason: str,
        arrived: datetime,
        days: list[str],
        event: str | None = None,
    ) -> tuple[Any, ...]:
        said = event or (new or old or {}).get("event_ts")
        event_ts = datetime.fromisoformat(said) if said else None
        kpis = [f"earthquakes_daily@{one}" for one in days]
        dates = [date.fromisoformat(one) for one in days]
        kpis += [f"earthquakes_daily_weekly@{name}" for name in dict.fromkeys(f"{one:%G-W%V}" for one in dates)]
        kpis += [f"earthquakes_daily_monthly@{name}" for name in dict.fromkeys(f"{one:%Y-%m}" for one in dates)]
        return (key, date.fromisoformat(day), action, old, new, names, reason, "NCSS", event_ts, arrived, kpis, False)


def in_words(late: timedelta) -> str:
    """The two greatest units."""
    whole = int(late.total_seconds())
    parts = {"d": whole // 86_400, "h": whole // 3_600 % 24, "min": whole // 60 % 60, "s": whole % 60}
    return " ".join([f"{count:,} {unit}" for unit, count in parts.items() if count][:2]) or "0 s"


class AuditModel:
    """Holds the audit of each arrival day, replayed one by one, against the model."""

    def __init__(self, catalog: Catalog) -> None:
        self._model = Catalogue(catalog.sources["earthquakes"])
        self.counts: Counter[str] = Counter()

    def check(self, lake: Lake, arrival: date) -> None:
        """The audit has exactly the rows of the model for the arrival day, of one commit."""
        found = log.read(lake, "earthquakes", since=replay_clock(arrival)).to_pylist()
        assert len({row["silver_version"] for row in found}) <= 1, "one commit a day"
        told = sorted((tuple(log.parsed(row)[name] for name in COLUMNS) for row in found), key=by_key)
        expected = sorted(self._model.audit_of(arrival), key=by_key)
        actions = Counter(row[2] for row in expected)
        assert Counter(row[2] for row in told) == actions, arrival
        differing = [(one, other) for one, other in zip(told, expected) if one != other]
        assert differing[:3] == [], arrival
        self.counts += actions

    def check_all(self, lake: Lake) -> None:
        """Over all days: as many rows of each action as the model has, none of them twice."""
        rows = log.read(lake, "earthquakes")
        assert Counter(rows["action_type"].to_pylist()) == self.counts
        assert len(set(rows["audit_id"].to_pylist())) == len(rows)


def by_key(row: tuple[Any, ...]) -> tuple[str, date]:
    return row[0] or "", row[1]
