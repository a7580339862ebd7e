"""Every published number can be made again from the inputs it names, after a VACUUM of all but Bronze (rule R10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.ledger import contracts, store
from lakehouse.ledger.inputs import UnknownInputsError
from lakehouse.ledger.inputs import path as inputs_path
from lakehouse.tables import publish, replays, reproduce, stewardship, terms
from lakehouse.tables.again import ReproduceError
from lakehouse.tables.audited import Run
from lakehouse.tables.series import Series
from lakehouse.tables.terms import ForgottenContractError
from lakehouse_tests.tables.lake import Lake, contract, csv_file
from lakehouse_tests.tables.test_interruption import Killed, kill_after
from lakehouse_tests.tables.test_quarantine import decide

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.settings import Settings
    from lakehouse.tables.reproduce import Reproduced

pytestmark = pytest.mark.spark

TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
BIGGEST = {"name": "biggest", "sql": "max(amount)", "type": "long"}
KEYS = {"name": "keys", "sql": "count(distinct id)", "type": "long"}
WEEK: dict[str, Any] = {"lateness": {"watermark": "P7D", "beyond": "quarantine"}}


def metric(name: str, *measures: dict[str, Any], **said: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": [*measures], **said})


METRICS = [
    metric("total", TOTAL, BIGGEST),
    metric("trailing", TOTAL, KEYS, window=3),
    metric("by_colour", TOTAL, BIGGEST, grain=["colour"]),
]


def coloured(**said: Any) -> Any:
    """The lake's source with a column for a grain."""
    names = {"id": "string", "amount": "int", "colour": "string"}
    fields = [{"name": name, "type": kind, "column": "seq" if name == "colour" else None} for name, kind in names.items()]
    return contract(model={"fields": fields}, **said)


@dataclass
class Office:
    """A lake whose numbers are published day by day."""

    lake: Lake
    metrics: list[MetricContract] = field(default_factory=lambda: METRICS)

    @property
    def settings(self) -> Settings:
        return self.lake.settings

    @property
    def catalog(self) -> Catalog:
        return Catalog({"events": self.lake.contract}, {one.metric: one for one in self.metrics})

    def at(self, day: int, hour: int = 23) -> None:
        self.settings.now = datetime.combine(date(2024, 2, 1), time(hour), timezone.utc) + timedelta(days=day - 1)

    def deliver(self, day: int, *lines: str) -> None:
        """Lines ``key,amount,event day of February,op,corrects,colour`` that arrive on a day of February."""
        self.at(day)
        rows = []
        for line in lines:
            key, amount, event, op, corrects, colour = line.split(",")
            when = f"2024-02-{int(event):02}T06:00:00Z" if event else ""
            rows.append(f"{key},{amount},{when},2024-02-{day:02}T12:00:00Z,{op},{corrects},{colour}")
        self.lake.deliver(date(2024, 2, day), csv_file(rows), f".{len(rows)}{hash(lines)}.csv")
        self.lake.ingest(date(2024, 2, day))

    def publish(self, days: Collection[date] | None = None) -> None:
        """Bring silver up to date on some days, by default all that wait, and publish what that changed."""
        waiting = set(self.lake.pending()) if days is None else set(days)
        if waiting:
            self.lake.update(waiting)
        for one in self.metrics:
            series = Series(one)
            terms.remember(self.settings, one, self.lake.contract)
            pending = publish.pending(self.settings, series)
            asked = {*pending.days, *publish.due(self.settings, series)}
            publish.restate(self.settings, series, lambda: self.lake.spark, asked, Run("run"), pending)

    def rebuild(self, **said: Any) -> replays.Planned:
        """Judge all rows anew under a changed contract."""
        self.lake.contract = coloured(**said)
        first, last = date(2024, 1, 1), date(2024, 12, 31)
        return replays.plan(
            self.settings, self.lake.contract, lambda: self.lake.spark, first, last, reason="mended", runner_id="anna"
        )

    def revisions(self, one: MetricContract) -> list[tuple[date, int, int | None]]:
        found = store.read(Series(one).path(self.settings), ["event_date", "revision", "adjustment"])
        return sorted({tuple(row.values()) for row in found.to_pylist()}, key=str) if found is not None else []

    def again(self, one: MetricContract, day: date, revision: int, adjustment: int | None = None) -> Reproduced:
        return reproduce.reproduce(self.settings, self.catalog, Series(one), day, revision, lambda: self.lake.spark, adjustment)

    def all_again(self) -> list[Reproduced]:
        return [self.again(one, *revision) for one in self.metrics for revision in self.revisions(one)]

    def vacuum(self) -> None:
        """Take everything away but the newest version of each table, and all of it but Bronze."""
        tables = [path.parent for path in Path(self.settings.root).glob("*/*/_delta_log") if path.parent.name != "events_keys"]
        keys = DeltaTable(self.settings.table("ops", "events_keys"))
        keys.optimize.compact()
        keys.vacuum(0, enforce_retention_duration=False, dry_run=False)
        for path in tables:
            if path != Path(self.settings.table("bronze", "events")):
                DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)


def office(settings: Settings, spark: Any, metrics: list[MetricContract] | None = None, **said: Any) -> Office:
    return Office(Lake(settings, coloured(**said), spark), metrics or METRICS)


def a_history(of: Office) -> None:
    """Late rows, corrections, moves, deletes, an emptied day, decisions between, and two rebuilds under changed rules."""
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue", "x,7,1,insert,,red")
    of.publish()
    of.deliver(2, "c,3,2,insert,,red", "d,4,1,insert,,red", "a,5,1,correct,,red")
    of.publish()
    of.deliver(3, "e,6,3,insert,,blue", "b,2,2,correct,,blue", "c,3,3,correct,c,")
    of.publish([date(2024, 2, 2)])  # the other days lack this file still
    of.at(4)
    of.publish()
    of.deliver(9, "f,8,1,insert,,red", "g,9,9,insert,,blue")  # f waits: beyond the watermark
    of.publish()
    decide(of.lake, "accept", "f")
    of.at(10)
    of.publish()
    of.deliver(11, "c,,,delete,,", "e,,,delete,,", "h,1,11,insert,,red")  # the third day is empty now
    of.publish()
    of.deliver(12, "i,50,2,insert,,red", "i2,60,2,correct,f,red")  # wait
    of.publish()
    of.at(13)
    of.rebuild(lateness={"watermark": "P30D", "beyond": "quarantine"})
    of.publish()
    of.at(14)
    decide(of.lake, "reject", "i", by="ben")
    of.publish()
    of.at(15)
    of.rebuild(quality={"row_rules": [{"name": "small", "sql": "amount < 55", "severity": "reject"}]}, **WEEK)
    of.publish()


def test_every_revision_of_a_history_is_made_again(settings, spark) -> None:
    of = office(settings, spark, **WEEK)
    a_history(of)
    of.vacuum()
    made = of.all_again()
    assert [(one.name, one.differences, one.close) for one in made if not one.equal or one.close] == []
    assert all(one.certain and not one.hidden for one in made)
    of.lake.contract = coloured(**WEEK)
    for one, least in zip(METRICS, (25, 25, 25)):
        named = of.revisions(one)
        assert len(named) >= least
        content = store.read(Series(one).path(settings), ["event_date", "content"])
        assert len({tuple(row.values()) for row in content.to_pylist()}) >= 12, "these are not the same number again and again"


def test_what_was_redacted_since_is_told_and_the_rest_compared(settings, spark) -> None:
    of = office(settings, spark)
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    of.deliver(2, "c,3,2,insert,,red")
    of.publish()
    stewardship.redact(settings, of.lake.contract, "a", ["amount"], by="dora", reason="asked to")
    of.at(3)
    for _ in range(2):  # before silver follows, and after
        of.vacuum()
        total, trailing, by_colour = METRICS
        found = of.again(total, date(2024, 2, 1), 1)
        assert found.equal
        assert (found.hidden, found.compared) == ({"a": ["amount"]}, ["row_count"])
        assert of.again(by_colour, date(2024, 2, 1), 1).compared == ["colour", "row_count"]
        assert of.again(trailing, date(2024, 2, 2), 1).compared == ["keys", "row_count"]
        assert of.again(total, date(2024, 2, 2), 1).hidden == {}, "a is not in it"
        of.publish()
    newest = of.again(total, date(2024, 2, 1), max(number for day, number, _ in of.revisions(total) if day.day == 1))
    assert (newest.equal, newest.hidden) == (True, {}), "made under the redaction"
    stewardship.redact(settings, of.lake.contract, "b", ["colour"], by="dora", reason="asked to")
    found = of.again(by_colour, date(2024, 2, 1), 1)
    assert (found.equal, found.compared) == (True, ["row_count"]), "amounts of a and the colour of b are hidden"
    assert of.again(total, date(2024, 2, 1), 2).compared == ["total", "biggest", "row_count"]


def test_a_number_that_was_tampered_with_differs_and_is_told_cell_by_cell(settings, spark) -> None:
    of = office(settings, spark)
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    by_colour = METRICS[2]
    path = Series(by_colour).path(settings)
    rows = store.read(path)
    bent = pc.if_else(pc.equal(rows["colour"], "blue"), pa.scalar(9, pa.int64()), rows["total"])
    write_deltalake(path, rows.set_column(rows.column_names.index("total"), "total", bent), mode="overwrite")
    found = of.again(by_colour, date(2024, 2, 1), 1)
    assert not found.equal
    first = found.differences[0]
    assert (first.grain, first.column, first.stored, first.again) == ({"colour": "blue"}, "total", 9, 2)
    assert found.differences[1].column == "content as stored"


def test_a_revision_is_made_under_the_contracts_of_then(settings, spark) -> None:
    of = office(settings, spark, [metric("total", TOTAL)], materialization={"reprocess_policy": "append"}, changes={})
    of.deliver(1, "a,1,1,,,red", "a,2,1,,,red")
    of.publish()
    of.at(2)
    doubled = metric("total", TOTAL | {"sql": "2 * sum(amount)"})
    of.metrics = [doubled]
    of.rebuild(changes={})
    of.publish()
    numbers = store.read(Series(doubled).path(settings), ["total"])["total"].to_pylist()
    assert sorted(numbers) == [3, 4], "both rows, then the newest one twice"
    assert [(one.equal, one.contract_then == one.contract_now, one.certain) for one in of.all_again()] == [
        (True, False, True),
        (True, True, True),
    ]
    contracts_path = Path(contracts.path(settings))
    contracts_path.rename(contracts_path.with_name("gone"))
    with pytest.raises(ForgottenContractError, match="published under the contract"):
        of.again(doubled, date(2024, 2, 1), 1)
    assert not of.again(doubled, date(2024, 2, 1), 2).certain


def test_a_resent_day_is_made_again_from_the_file_that_it_was_made_of(settings, spark) -> None:
    policy = {"materialization": {"reprocess_policy": "overwrite_partition_safe"}, "changes": {}}
    of = office(settings, spark, **policy, **WEEK)
    of.deliver(1, "a,1,1,,,red", "b,2,1,,,red", "c,3,1,,,red")
    of.publish()
    of.deliver(2, "a,5,1,,,red", "b,6,1,,,blue")
    of.publish()
    of.deliver(20, "a,7,1,,,red", "b,8,1,,,red")  # waits
    of.publish()
    of.at(21)
    of.rebuild(**policy, lateness={"watermark": "P60D", "beyond": "quarantine"})
    of.publish()
    of.vacuum()
    made = of.all_again()
    assert [one.differences for one in made if not one.equal] == []
    first = [one.rows["total"].to_pylist() for one in made if one.name.startswith("total_v2024-02-01")]
    assert [rows for before, rows in zip([None, *first], first) if rows != before] == [[6], [11], [15]]


def test_adjustments_of_a_closed_number_add_up_to_what_is_made_again(settings, spark) -> None:
    closes = {"publication": {"after_close": "adjust", "final_after": 2}}
    of = office(settings, spark, [metric("total", TOTAL, **closes), metric("coloured", TOTAL, grain=["colour"], **closes)])
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    for day, line in [(5, "c,3,1,insert,,blue"), (6, "d,4,1,insert,,green"), (7, "a,,,delete,,")]:
        of.deliver(day, line)
        of.publish()
    of.vacuum()
    assert {adjustment for one in of.metrics for _, _, adjustment in of.revisions(one)} == {None, 1, 2, 3}
    assert [one.differences for one in of.all_again() if not one.equal] == []
    found = of.again(of.metrics[0], date(2024, 2, 1), 2, 2) if (date(2024, 2, 1), 2, 2) in of.revisions(of.metrics[0]) else None
    found = found or of.again(of.metrics[0], date(2024, 2, 1), 1, 2)
    assert found.rows["total"].to_pylist() == [10]


def test_a_rebuild_stopped_anywhere_leaves_earlier_numbers_reproducible(settings, spark) -> None:
    of = office(settings, spark, METRICS[:1], **WEEK)
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    of.deliver(12, "i,50,1,insert,,red", "j,3,12,insert,,red")
    of.publish()
    minute, stops = 0, 0
    while True:
        minute += 1
        of.at(13)
        settings.now = settings.clock() + timedelta(minutes=minute)
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, 1)
            try:
                of.rebuild(lateness={"watermark": "P30D", "beyond": "quarantine"})
            except Killed:
                stops += 1
                if stops % 2:  # a run of silver comes in between
                    patched.undo()
                    of.publish()
            else:
                break
    assert stops >= 4
    of.publish()
    of.vacuum()
    made = of.all_again()
    assert [(one.name, one.differences) for one in made if not one.equal] == []
    assert 53 in {one.rows["total"].to_pylist()[0] for one in made}, "the late row counts in the end"


def test_what_cannot_be_made_again_is_said(settings, spark) -> None:
    of = office(settings, spark, METRICS[:1])
    of.deliver(1, "a,1,1,insert,,red")
    of.publish()
    with pytest.raises(ReproduceError, match=r"total has no revision 7 of 2024-02-01; published is total_v2024-02-01.r1"):
        of.again(METRICS[0], date(2024, 2, 1), 7)
    with pytest.raises(ReproduceError, match="published is nothing"):
        of.again(METRICS[0], date(2024, 2, 9), 1)
    DeltaTable(inputs_path(settings)).delete()
    with pytest.raises(UnknownInputsError, match="nothing is recorded"):
        of.again(METRICS[0], date(2024, 2, 1), 1)


def test_what_was_known_at_a_time_is_told_whether_or_not_it_was_published(settings, spark) -> None:
    of = office(settings, spark, METRICS[:1], **WEEK)
    of.deliver(1, "a,1,1,insert,,red")
    lines = [
        "b,2,2024-02-01T06:00:00Z,2024-02-02T12:00:00Z,insert,,red",
        "a,9,2024-02-01T06:00:00Z,2024-02-03T12:00:00Z,correct,,red",  # of the same file, a day later
        "c,4,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,insert,,red",  # waits
    ]
    of.lake.deliver(date(2024, 2, 2), csv_file(lines))
    of.lake.ingest(date(2024, 2, 2))
    of.at(21)
    decide(of.lake, "accept", "c")
    of.at(25)
    decide(of.lake, "reject", "b")

    def at(day: int) -> list[int]:
        when = datetime(2024, 2, day, 23, 30, tzinfo=timezone.utc)
        first = date(2024, 2, 1)
        found = reproduce.known_at(settings, of.catalog, METRICS[0], [first], when, lambda: spark)
        return found[first]["total"].to_pylist() if first in found else []

    assert [at(day) for day in (1, 2, 3, 20, 21, 25)] == [[1], [3], [11], [11], [15], [13]]
    before = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert reproduce.known_at(settings, of.catalog, METRICS[0], [date(2024, 2, 1)], before, lambda: spark) == {}
