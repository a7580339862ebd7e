"""A lake whose Silver is written by delta-rs and aggregated by Arrow, with its audit; for tests of notices of restatements."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable

from lakehouse import locations
from lakehouse.calendar.days import reach_back
from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import local_measures, metric_query, rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.operations.delivery import DeliveryError, Directory
from lakehouse.operations.notices.dispatch import dispatch_notices
from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lakehouse.gold.numbers.lifecycle import RevisionReason
    from lakehouse.gold.publication.write_audit_publish import PublishResult
    from lakehouse.lake import Lake
    from lakehouse.operations.delivery import Message
    from lakehouse.operations.notices.dispatch import NoticeDispatch
    from lakehouse.operations.notices.log import NoticeEntry

TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}


def metric(name: str = "total", *consumers: str, **changes: Any) -> MetricContract:
    """The sum of all amounts, and its consumers."""
    fields = {"metric": name, "source": "events", "measures": [TOTAL], "consumers": [*consumers]}
    return MetricContract.model_validate({**fields, **changes})


@contextmanager
def numbers_from_silver() -> Iterator[None]:
    """Metrics are computed from Silver by Arrow, not by Spark."""

    def numbers(
        _: Any, lake: Lake, metric_contract: MetricContract, days: Collection[date], _made_from: Any = None
    ) -> dict[date, pa.Table]:
        rows = locations.silver(lake, metric_contract.source).read(["event_date", "amount"])
        totals = {}
        for day in days:
            covered = pa.array(sorted(reach_back([day], metric_contract.window)), pa.date32())
            amounts = rows.filter(pc.is_in(rows["event_date"], covered))["amount"] if rows is not None else []
            if len(amounts):
                total = pa.array([pc.sum(amounts).as_py()], pa.int64())
                totals[day] = pa.table({"total": total, "row_count": pa.array([len(amounts)], pa.int64())})
        return totals

    def nothing(*_: Any) -> pa.Table:
        return pa.table({"total": pa.nulls(1, pa.int64()), "row_count": pa.array([0], pa.int64())})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metric_query, "numbers", numbers)
        patched.setattr(metric_query, "nothing", nothing)
        patched.setattr(local_measures, "few_rows", lambda *_: None)
        yield


@dataclass
class RecordingChannel:
    """A channel that keeps its messages; one whose subject contains ``broken`` cannot be sent."""

    name: str = "box"
    messages: list[Message] = field(default_factory=list)
    broken: str | None = None

    def send(self, message: Message) -> None:
        if self.broken and self.broken in message.subject:
            raise DeliveryError(f"{self.name} is broken")
        self.messages.append(message)

    @property
    def sent(self) -> list[tuple[str, str]]:
        """Subject and addressee of each."""
        return [(message.subject, *message.addressed_to) for message in self.messages]


@dataclass
class NotifiedLake:
    """One source and its metrics, on days of February 2024."""

    lake: Lake
    metrics: list[MetricContract] = field(default_factory=lambda: [metric("total", "board", "shop")])

    @property
    def catalog(self) -> Catalog:
        return Catalog({"events": contract()}, {one.name: one for one in self.metrics})

    def at(self, day: int, hour: int = 12) -> None:
        """Set the clock."""
        self.lake.settings.now = datetime(2024, 2, day, hour, tzinfo=timezone.utc)

    def add_rows(self, *rows: tuple[str, int, int], late: int = 5) -> None:
        """New rows of silver in one commit, each ``(key, day, amount)``, and their audit."""
        append_to_silver(self.lake, *rows, late=late)
        self.audit()

    def correct(self, key: str, **values: str) -> None:
        """Another value for some columns of a row, each as SQL."""
        table = DeltaTable(locations.silver(self.lake, "events").address)
        why = CommitProperties(custom_metadata={"userMetadata": '{"ingestions": ["y"], "run_id": "run"}'})
        table.update(updates=values, predicate=f"record_key = '{key}'", commit_properties=why)
        self.audit()

    def audit(self) -> None:
        audit.follow(self.lake, contract(), self.metrics)

    def publish(self, *names: str, reason: RevisionReason | None = None, days: Collection[int] = ()) -> list[PublishResult]:
        """Let metrics, by default all, follow silver and close what is due, and their longer periods follow."""
        done = []
        for one in self.metrics:
            if names and one.name not in names:
                continue
            daily, run = Series(one), Run("run", reason=reason)
            pending = find_pending(self.lake, daily)
            wanted = {date(2024, 2, day) for day in days} or {*pending.starts, *find_due(self.lake, contract(), daily)}
            done.append(restatement_days.restate(self.lake, contract(), daily, no_session, wanted, run, pending))
            for longer in daily.rollups:
                news = find_pending(self.lake, longer)
                starts = {*news.starts, *find_due(self.lake, contract(), longer)}
                if starts:
                    done.append(rollups.restate(self.lake, contract(), longer, no_session, starts, run, news))
        return done

    def dispatch(self, *boxes: Any) -> NoticeDispatch:
        """One tick."""
        return dispatch_notices(self.lake, self.catalog, Directory.of(boxes))

    def notified(self) -> dict[str, list[bool]]:
        """Whether each change of a key was notified according to the audit, in the order of the changes."""
        found: dict[str, list[bool]] = {}
        for row in log.read(self.lake, "events").sort_by([("silver_version", "ascending")]).to_pylist():
            found.setdefault(row["event_id"], []).append(row["notification_sent"])
        return found


def published_lake(lake: Lake, *metrics: MetricContract) -> NotifiedLake:
    """Three days published on the fourth, and the notice sensor has run: from here on restatements are notified."""
    sample = NotifiedLake(lake, [*metrics] or [metric("total", "board", "shop")])
    sample.at(4)
    sample.add_rows(("a", 1, 10), ("b", 2, 20), ("c", 3, 30), late=0)
    sample.publish()
    sample.dispatch()
    return sample


def no_session() -> Any:
    """Takes the place of a Spark session where none is needed."""
    return None


def restated_figures(entry: NoticeEntry | Message) -> list[tuple[Any, ...]]:
    """Period, before, after, difference and percent of each measure in a notice."""
    return [
        (one["period"], *(measure[name] for name in ("before", "after", "difference", "percent")))
        for one in entry.data["restated"]
        for measure in one["measures"]
    ]
