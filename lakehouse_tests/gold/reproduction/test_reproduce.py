"""Every published number can be reproduced from the inputs it names, after a VACUUM of all but Bronze (rule R10)."""

from __future__ import annotations

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.reproduction.recompute import ReproduceError
from lakehouse.snapshots.input_sets import UnknownInputsError
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import (
    METRICS,
    TWO_METRICS,
    WEEK_WATERMARK,
    ReproducibleLake,
    reproducible_lake,
    source_with_colour,
)
from lakehouse_tests.support.stopped_commits import Killed, kill_after

pytestmark = pytest.mark.spark


def a_history(reproducible: ReproducibleLake) -> None:
    """Late rows, corrections, moves, deletes, an emptied day, decisions between, and two rebuilds under changed rules."""
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue", "x,7,1,insert,,red")
    reproducible.publish()
    reproducible.deliver(2, "c,3,2,insert,,red", "d,4,1,insert,,red", "a,5,1,correct,,red")
    reproducible.publish()
    reproducible.deliver(3, "e,6,3,insert,,blue", "b,2,2,correct,,blue", "c,3,3,correct,c,")
    reproducible.publish([date(2024, 2, 2)])  # the other days lack this file still
    reproducible.at(4)
    reproducible.publish()
    reproducible.deliver(9, "f,8,1,insert,,red", "g,9,9,insert,,blue")  # f waits: beyond the watermark
    reproducible.publish()
    decide(reproducible.sample, "accept", "f")
    reproducible.at(10)
    reproducible.publish()
    reproducible.deliver(11, "c,,,delete,,", "e,,,delete,,", "h,1,11,insert,,red")  # the third day is empty now
    reproducible.publish()
    reproducible.deliver(12, "i,50,2,insert,,red", "i2,60,2,correct,f,red")  # wait
    reproducible.publish()
    reproducible.at(13)
    reproducible.rebuild(source_with_colour(lateness={"watermark": "P30D", "beyond": "quarantine"}))
    reproducible.publish()
    reproducible.at(14)
    decide(reproducible.sample, "reject", "i", by="ben")
    reproducible.publish()
    reproducible.at(15)
    reproducible.rebuild(
        source_with_colour(
            quality={"row_rules": [{"name": "small", "sql": "amount < 55", "severity": "reject"}]}, **WEEK_WATERMARK
        )
    )
    reproducible.publish()


@pytest.mark.proof
def test_every_revision_of_a_history_is_reproduced(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, TWO_METRICS, **WEEK_WATERMARK)
    a_history(reproducible)
    reproducible.vacuum()
    made = reproducible.reproduce_all()
    assert [(one.name, one.differences, one.close) for one in made if not one.equal or one.close] == []
    assert all(one.certain and not one.hidden for one in made)
    for one in TWO_METRICS:
        content = locations.gold(lake, Series(one)).read(["event_date", "content"])
        assert len({tuple(row.values()) for row in content.to_pylist()}) >= 12, "not the same numbers again and again"


@pytest.mark.merge
def test_fields_redacted_since_are_reported_and_the_rest_compared(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark)
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    reproducible.publish()
    reproducible.deliver(2, "c,3,2,insert,,red")
    reproducible.publish()
    redact_fields(lake, reproducible.sample.contract, "a", ["amount"], by="dora", reason="asked to")
    reproducible.at(3)
    for _ in range(2):  # before silver follows, and after
        reproducible.vacuum()
        total, trailing, by_colour = METRICS
        reproduction = reproducible.reproduce(total, date(2024, 2, 1), 1)
        assert reproduction.equal
        assert (reproduction.hidden, reproduction.compared) == ({"a": ["amount"]}, ["row_count"])
        assert reproducible.reproduce(by_colour, date(2024, 2, 1), 1).compared == ["colour", "row_count"]
        assert reproducible.reproduce(trailing, date(2024, 2, 2), 1).compared == ["keys", "row_count"]
        assert reproducible.reproduce(total, date(2024, 2, 2), 1).hidden == {}, "a is not in it"
        reproducible.publish()
    last = max(number for day, number, _ in reproducible.revisions(total) if day.day == 1)
    newest = reproducible.reproduce(total, date(2024, 2, 1), last)
    assert (newest.equal, newest.hidden) == (True, {}), "made under the redaction"
    redact_fields(lake, reproducible.sample.contract, "b", ["colour"], by="dora", reason="asked to")
    reproduction = reproducible.reproduce(by_colour, date(2024, 2, 1), 1)
    assert (reproduction.equal, reproduction.compared) == (True, ["row_count"]), "amounts of a and the colour of b are hidden"
    assert reproducible.reproduce(total, date(2024, 2, 1), last).compared == ["total", "biggest", "row_count"]


@pytest.mark.merge
def test_a_number_that_was_tampered_with_differs_and_is_reported_cell_by_cell(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark)
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    reproducible.publish()
    by_colour = METRICS[2]
    table = locations.gold(lake, Series(by_colour))
    rows = table.read()
    bent = pc.if_else(pc.equal(rows["colour"], "blue"), pa.scalar(9, pa.int64()), rows["total"])
    write_deltalake(table.address, rows.set_column(rows.column_names.index("total"), "total", bent), mode="overwrite")
    found = reproducible.reproduce(by_colour, date(2024, 2, 1), 1)
    assert not found.equal
    first = found.differences[0]
    assert (first.grain, first.column, first.stored, first.again) == ({"colour": "blue"}, "total", 9, 2)
    assert found.differences[1].column == "content as stored"


@pytest.mark.proof
def test_a_resent_day_is_reproduced_from_the_file_it_was_made_of(lake, spark) -> None:
    policy = {"materialization": {"reprocess_policy": "overwrite_partition_safe"}, "changes": {}}
    reproducible = reproducible_lake(lake, spark, **policy, **WEEK_WATERMARK)
    reproducible.deliver(1, "a,1,1,,,red", "b,2,1,,,red", "c,3,1,,,red")
    reproducible.publish()
    reproducible.deliver(2, "a,5,1,,,red", "b,6,1,,,blue")
    reproducible.publish()
    reproducible.deliver(20, "a,7,1,,,red", "b,8,1,,,red")  # waits
    reproducible.publish()
    reproducible.at(21)
    reproducible.rebuild(source_with_colour(**policy, lateness={"watermark": "P60D", "beyond": "quarantine"}))
    reproducible.publish()
    reproducible.vacuum()
    made = reproducible.reproduce_all()
    assert [one.differences for one in made if not one.equal] == []
    first = [one.rows["total"].to_pylist() for one in made if one.name.startswith("total_v2024-02-01")]
    assert [rows for before, rows in zip([None, *first], first) if rows != before] == [[6], [11], [15]]


@pytest.mark.proof
def test_a_rebuild_stopped_anywhere_leaves_earlier_numbers_reproducible(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1], **WEEK_WATERMARK)
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    reproducible.publish()
    reproducible.deliver(12, "i,50,1,insert,,red", "j,3,12,insert,,red")
    reproducible.publish()
    minute, stops = 0, 0
    while True:
        minute += 1
        reproducible.at(13)
        lake.settings.now = lake.now() + timedelta(minutes=minute)
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, 1)
            try:
                reproducible.rebuild(source_with_colour(lateness={"watermark": "P30D", "beyond": "quarantine"}))
            except Killed:
                stops += 1
                assert stops < 12, "it never comes to its end"
                if stops in {1, 4}:  # a run of silver answers what is recorded so far
                    patched.undo()
                    reproducible.publish()
            else:
                break
    assert stops >= 4
    reproducible.publish()
    reproducible.vacuum()
    made = reproducible.reproduce_all()
    assert [(one.name, one.differences) for one in made if not one.equal] == []
    assert 53 in {one.rows["total"].to_pylist()[0] for one in made}, "the late row counts in the end"


def test_numbers_that_cannot_be_reproduced_are_reported(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1])
    reproducible.deliver(1, "a,1,1,insert,,red")
    reproducible.publish()
    with pytest.raises(ReproduceError, match=r"total has no revision 7 of 2024-02-01; published: total_v2024-02-01.r1"):
        reproducible.reproduce(METRICS[0], date(2024, 2, 1), 7)
    with pytest.raises(ReproduceError, match="published: nothing"):
        reproducible.reproduce(METRICS[0], date(2024, 2, 9), 1)
    DeltaTable(locations.input_sets(lake).address).delete()
    with pytest.raises(UnknownInputsError, match="are not recorded"):
        reproducible.reproduce(METRICS[0], date(2024, 2, 1), 1)
