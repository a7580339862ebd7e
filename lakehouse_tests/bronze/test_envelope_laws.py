"""A history of a table, written as any change feed and in any order, gives the rows of the table; without Spark."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse.bronze.reader import rows_by_columns
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import winners
from lakehouse.ledger import key_log
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse_tests.support.both_readers import DELIVERY
from lakehouse_tests.support.disposed_claims import ordered_by_file
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.row_histories import FEEDS, Feed, RowState, SentHistory, sent_histories, table_after


def living_rows(feed: Feed, files: list[bytes]) -> dict[int, RowState]:
    """What silver would hold, from the claims of the rows of files."""
    contract = feed.contract
    batches: list[pa.RecordBatch] = []
    for place, content in enumerate(files):
        batches += rows_by_columns(contract, replace(DELIVERY, ingestion_id=f"{place}"), io.BytesIO(content))
    rows = pa.Table.from_batches(batches, arrow_schema(bronze_columns(contract)))
    assert rows["malformed_reason"].null_count == len(rows), rows["malformed_reason"]
    judgement = {"standing": AdmissionStatus.ADMITTED.value}
    for name in key_log.JUDGED:
        field = key_log.SCHEMA.field(name)
        rows = rows.append_column(field, pa.repeat(pa.scalar(judgement.get(name), field.type), len(rows)))
    claims = key_log.claims(rows.select([*key_log.BRONZE_COLUMNS, *key_log.JUDGED]))
    won = winners.winners(ordered_by_file(claims), by_sequence=contract.by_sequence).to_pylist()
    places = {(row["ingestion_id"], row["line_number"], row["record_key"]): row for row in rows.to_pylist()}
    living = [
        places[row["ingestion_id"], row["line_number"], row["record_key"]] for row in won if row["kind"] in winners.LIVING_KINDS
    ]
    return {row["id"]: RowState(row["id"], row["amount"], row["event_date"]) for row in living}


@pytest.mark.parametrize("name", FEEDS)
@law(200, in_each_run=50)
@given(sent=sent_histories())
def test_a_history_in_any_order_gives_the_rows_of_the_table(name: str, sent: SentHistory) -> None:
    feed = FEEDS[name]
    assert living_rows(feed, sent.files(feed)) == table_after(sent.history)
