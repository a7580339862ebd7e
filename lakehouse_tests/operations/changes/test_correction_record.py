"""A correction's record is a line of the source: every value comes back as it was, in each format."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.file_formats import read_records
from lakehouse.bronze.json_columns import check_names
from lakehouse.bronze.row_parser import RowParser
from lakehouse.ledger import redactions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.ledger.redactions import Redaction
from lakehouse.operations.changes import correction_record
from lakehouse.operations.changes.correction_record import CorrectionError, CorrectionEvent, CorrectionEventKind, Operation
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.dimension_lake import dimension
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract

YEARS = (datetime(1900, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 (hypothesis adds the zone)
NOON = datetime(2024, 1, 9, 12, tzinfo=timezone.utc)
FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": "decimal(18,2)"},
    {"name": "size", "type": "double"},
    {"name": "count", "type": "long", "column": "Count"},
    {"name": "sent", "type": "date"},
    {"name": "open", "type": "boolean"},
    {"name": "seen", "type": "timestamp"},
    {"name": "word", "type": "string", "column": "The Word"},
]


def source(**changes: Any) -> SourceContract:
    return contract(model={"fields": FIELDS}, order={"sequence": "seq"}, **changes)


def event(before: dict[str, str | None], values: dict[str, str], operation: Operation = Operation.CORRECT) -> CorrectionEvent:
    return CorrectionEvent(
        *("events", "c1", CorrectionEventKind.PROPOSED, "a", operation, 1, "anna", "typo", NOON), values=values, before=before
    )


_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_rows = st.fixed_dictionaries(
    {
        "amount": st.none() | st.decimals(-1000, 1000, places=2),
        "size": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "sent": st.none() | st.dates(),
        "open": st.none() | st.booleans(),
        "seen": st.none() | st.datetimes(*YEARS, timezones=st.just(timezone.utc)),
        "word": st.none() | _texts,
    }
)


@given(row=_rows, form=st.sampled_from(["csv", "json", "parquet"]))
def test_the_other_fields_stay_as_they_were(row: dict[str, Any], form: str) -> None:
    events = source(source={"format": form, "delimiter": ";"} if form == "csv" else {"format": form})
    row = row | {"id": "a", "event_ts": NOON, "event_date": date(2024, 1, 9)}
    proposal = event(correction_record.fields_of(events, row) | {"source_sequence": "5"}, {"count": "7"})
    typed = correction_record.check(events, proposal)
    content = correction_record.content_of(events, correction_record.values_of(events, proposal, NOON))
    [values] = _read(content, events)
    delivery = DeliveredFile("file", "id", NOON.date(), NOON)
    again = RowParser(events, delivery).row(replace(values, raw=""))
    assert "malformed_reason" not in again
    for name, value in row.items():
        expected = 7 if name == "count" else value
        assert typed[name] == again[name] == expected, name
    assert typed["source_sequence"] == again["source_sequence"] == 5
    assert (again["change_op"], again["arrival_ts"]) == ("correct", NOON)


def _read(content: bytes, events: SourceContract) -> list[Any]:
    if events.source.format != "parquet":
        return list(read_records(io.BytesIO(content), events.source, events.columns_read))
    from lakehouse.bronze.parquet import records_of  # noqa: PLC0415

    return [record for batch in pq.read_table(io.BytesIO(content)).to_batches() for record in records_of(batch, 1)]


def test_who_and_why_are_in_the_record_where_the_source_has_columns_for_it() -> None:
    columns = {"op": "op", "is_correction": "fix", "corrected_by": "who", "correction_reason": "why", "corrected_field": "what"}
    events = contract(changes=columns)
    proposal = event({"id": "a", "amount": "1", "event_time": "2024-01-09T12:00:00Z"}, {"amount": "2"})
    values = correction_record.values_of(events, proposal, NOON)
    assert {name: values[name] for name in ("op", "fix", "who", "why", "what")} == {
        "op": "correct",
        "fix": "1",
        "who": "anna",
        "why": "typo",
        "what": "amount",
    }
    withdrawn = correction_record.values_of(events, replace(proposal, operation=Operation.WITHDRAW, values={}), NOON)
    assert (withdrawn["op"], withdrawn["fix"]) == ("delete", "0")


def claim(kind: str, sequence: int, standing: str = "admitted") -> dict[str, Any]:
    file = {"ingestion_id": f"{kind}{sequence}", "line_number": 1, "arrival_date": NOON.date(), "standing": standing}
    arrived = NOON - timedelta(days=1) + timedelta(hours=sequence)
    return {"record_key": "a", "kind": kind, "source_sequence": sequence, "arrival_ts": arrived, **file}


def test_a_record_gets_the_number_after_all_that_count_of_its_key(tmp_path: Path) -> None:
    events, lake = source(), lake_in(tmp_path)
    row = {"id": "a", "event_ts": NOON, "source_sequence": 1}
    assert correction_record.before(lake, events, "a", None) == {}
    append_claims(lake, "events", [claim("insert", 1), claim("delete", 7), claim("insert", 9, "held"), claim("retire", 3)])
    assert correction_record.before(lake, events, "a", None) == {"source_sequence": "8"}
    assert correction_record.before(lake, events, "a", row)["source_sequence"] == "8"
    assert correction_record.before(lake, events, "b", None) == {}
    assert correction_record.before(lake, contract(), "b", None) == {}
    entered = event({"source_sequence": "8"}, {"id": "a", "event_time": "2024-01-09T12:00:00Z"}, Operation.ENTER)
    assert correction_record.check(events, entered)["source_sequence"] == 8
    first = event({}, {"id": "a", "event_time": "2024-01-09T12:00:00Z"}, Operation.ENTER)
    assert correction_record.check(events, first)["source_sequence"] == 0


def of_a_retired_key(**values: str) -> CorrectionEvent:
    return event({"change_op": "retire"}, {"id": "a", "event_time": "2024-01-09T12:00:00Z", **values}, Operation.ENTER)


def test_a_key_that_was_corrected_under_another_one_comes_back_as_a_correction(tmp_path: Path) -> None:
    plain, lake = {"source_sequence": 0}, lake_in(tmp_path)
    append_claims(lake, "events", [claim("insert", 1) | plain])
    assert correction_record.before(lake, contract(), "a", None) == {}
    append_claims(lake, "events", [claim("retire", 3) | plain, claim("insert", 4) | plain])
    assert correction_record.before(lake, contract(), "a", None) == {"change_op": "retire"}
    append_claims(lake, "events", [claim("delete", 5) | plain])
    assert correction_record.before(lake, contract(), "a", None) == {}
    entered = of_a_retired_key(amount="5")
    assert correction_record.check(contract(), entered)["change_op"] == "correct"
    flagged = contract(changes={"is_correction": "fix", "corrects_event_id": "corrects"})
    assert correction_record.check(flagged, entered)["change_op"] == "correct"
    with pytest.raises(CorrectionError, match="a was corrected under another key, after which no insert of it counts; 'lake"):
        correction_record.check(contract(changes={"corrects_event_id": "corrects"}), entered)


def test_redacted_values_are_masked_where_people_read_a_correction(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    proposal = event({"amount": "1", "word": "secret", "size": "2"}, {"word": "other", "amount": "2"})
    later = NOON + timedelta(hours=1)
    for of_key in (proposal, replace(proposal, correction_id="c2", record_key="b", recorded_at=later)):
        correction_record.record(lake, of_key)
    redactions.record(lake, "events", Redaction("a", ["word", "sent"], "dpo", "request", NOON))
    masked, open_to_all = correction_record.of_source(lake, "events")
    assert masked.described == "correct a: amount 1 -> 2, word [redacted] -> [redacted]"
    assert (masked.shown[0].before["word"], masked.shown[0].values["amount"]) == ("[redacted]", "2")
    assert open_to_all.described == "correct b: amount 1 -> 2, word secret -> other"
    assert open_to_all.shown == open_to_all.events


def test_a_redacted_field_stays_empty_even_if_it_is_required(tmp_path: Path) -> None:
    lake, fields = lake_in(tmp_path), [{**spec, "required": spec["name"] in {"word", "count"}} for spec in FIELDS]
    events = contract(model={"fields": fields})
    redactions.record(lake, "events", Redaction("a", ["word", "event_time"], "dpo", "request", NOON))
    hidden = correction_record.hidden_of(lake, events, "a")
    assert (hidden, correction_record.hidden_of(lake, events, "b")) == ({"word"}, set())
    before = {"id": "a", "count": "1", "word": "secret", "event_time": "2024-01-09T12:00:00Z"}
    assert correction_record.check(events, event(before, {"count": "2"}), hidden)["word"] is None
    assert correction_record.values_of(events, event(before, {"count": "2"}), NOON, hidden)["The Word"] is None
    with pytest.raises(CorrectionError, match="Count: required and empty"):
        correction_record.check(events, event({**before, "count": None}, {"amount": "2"}), hidden)


def test_the_file_of_a_correction_in_json_has_each_column_and_is_not_held() -> None:
    of = contract(source={"format": "json"})
    values = dict.fromkeys([*of.columns_read, DeliveredFile.CORRECTION]) | {"id": "a"}
    content = correction_record.content_of(of, values)
    assert json.loads(content) == values
    check_names(enumerate(content.splitlines(), 1), of)


def test_a_change_of_a_dimension_keeps_its_time_and_is_withdrawn_by_a_retraction() -> None:
    customers = dimension()
    row = {"customer_id": "17", "tier": "gold", "event_ts": NOON, "ends_at": NOON + timedelta(days=1), "key_ends": False}
    proposal = event(correction_record.fields_of(customers, row), {"tier": "silver"})
    proposal = replace(proposal, record_key=f'["17","{NOON:%Y-%m-%dT%H:%M:%S}.000000Z"]', recorded_at=NOON)
    corrected = correction_record.check(customers, proposal)
    assert (corrected["tier"], corrected["event_ts"], corrected["ends_at"]) == ("silver", NOON, NOON + timedelta(days=1))
    withdrawn = correction_record.check(customers, replace(proposal, operation=Operation.WITHDRAW, values={}))
    assert (withdrawn["change_op"], withdrawn["key_ends"]) == ("delete", False)


def test_a_record_that_would_be_malformed_or_another_key_is_refused() -> None:
    events = contract()
    before = {"id": "a", "amount": "1", "event_time": "2024-01-09T12:00:00Z"}
    with pytest.raises(
        CorrectionError, match="the correction of a is not a valid record of events: amount: 'much' is not an integer"
    ):
        correction_record.check(events, event(before, {"amount": "much"}))
    with pytest.raises(
        CorrectionError, match="the record has the key b, not a: withdraw the one, and enter the other with --new"
    ):
        correction_record.check(events, event(before, {"id": "b"}))
    with pytest.raises(CorrectionError, match="event_time: required and empty"):
        correction_record.check(events, event({}, {"id": "a", "amount": "1"}, Operation.ENTER))
