"""Every published number can be made again from the inputs it names, after a VACUUM of all but Bronze (rule R10)."""

from __future__ import annotations

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.gold.reproduction.recompute import ReproduceError
from lakehouse.gold.restatement.input_sets import UnknownInputsError
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import METRICS, TWO, WEEK, Office, coloured, office
from lakehouse_tests.support.stopped_commits import Killed, kill_after

pytestmark = pytest.mark.spark


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
    of.rebuild(coloured(lateness={"watermark": "P30D", "beyond": "quarantine"}))
    of.publish()
    of.at(14)
    decide(of.lake, "reject", "i", by="ben")
    of.publish()
    of.at(15)
    of.rebuild(coloured(quality={"row_rules": [{"name": "small", "sql": "amount < 55", "severity": "reject"}]}, **WEEK))
    of.publish()


def test_every_revision_of_a_history_is_made_again(settings, spark) -> None:
    of = office(settings, spark, TWO, **WEEK)
    a_history(of)
    of.vacuum()
    made = of.all_again()
    assert [(one.name, one.differences, one.close) for one in made if not one.equal or one.close] == []
    assert all(one.certain and not one.hidden for one in made)
    for one in TWO:
        content = table_io.read(locations.gold(settings, Series(one)), ["event_date", "content"])
        assert len({tuple(row.values()) for row in content.to_pylist()}) >= 12, "not the same numbers again and again"


def test_what_was_redacted_since_is_told_and_the_rest_compared(settings, spark) -> None:
    of = office(settings, spark)
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    of.deliver(2, "c,3,2,insert,,red")
    of.publish()
    redact_fields(settings, of.lake.contract, "a", ["amount"], by="dora", reason="asked to")
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
    last = max(number for day, number, _ in of.revisions(total) if day.day == 1)
    newest = of.again(total, date(2024, 2, 1), last)
    assert (newest.equal, newest.hidden) == (True, {}), "made under the redaction"
    redact_fields(settings, of.lake.contract, "b", ["colour"], by="dora", reason="asked to")
    found = of.again(by_colour, date(2024, 2, 1), 1)
    assert (found.equal, found.compared) == (True, ["row_count"]), "amounts of a and the colour of b are hidden"
    assert of.again(total, date(2024, 2, 1), last).compared == ["total", "biggest", "row_count"]


def test_a_number_that_was_tampered_with_differs_and_is_told_cell_by_cell(settings, spark) -> None:
    of = office(settings, spark)
    of.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    of.publish()
    by_colour = METRICS[2]
    path = locations.gold(settings, Series(by_colour))
    rows = table_io.read(path)
    bent = pc.if_else(pc.equal(rows["colour"], "blue"), pa.scalar(9, pa.int64()), rows["total"])
    write_deltalake(path, rows.set_column(rows.column_names.index("total"), "total", bent), mode="overwrite")
    found = of.again(by_colour, date(2024, 2, 1), 1)
    assert not found.equal
    first = found.differences[0]
    assert (first.grain, first.column, first.stored, first.again) == ({"colour": "blue"}, "total", 9, 2)
    assert found.differences[1].column == "content as stored"


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
    of.rebuild(coloured(**policy, lateness={"watermark": "P60D", "beyond": "quarantine"}))
    of.publish()
    of.vacuum()
    made = of.all_again()
    assert [one.differences for one in made if not one.equal] == []
    first = [one.rows["total"].to_pylist() for one in made if one.name.startswith("total_v2024-02-01")]
    assert [rows for before, rows in zip([None, *first], first) if rows != before] == [[6], [11], [15]]


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
                of.rebuild(coloured(lateness={"watermark": "P30D", "beyond": "quarantine"}))
            except Killed:
                stops += 1
                assert stops < 12, "it never comes to its end"
                if stops in {1, 4}:  # a run of silver answers what is recorded so far
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
    DeltaTable(locations.input_sets(settings)).delete()
    with pytest.raises(UnknownInputsError, match="nothing is recorded"):
        of.again(METRICS[0], date(2024, 2, 1), 1)
