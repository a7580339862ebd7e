"""The envelope of a change feed, ``source.envelope``: how records mark changes, and in which order changes apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.changes.marking import Changes
    from lakehouse.contracts.changes.order import Order
    from lakehouse.contracts.source import SourceContract

#: The formats of change feeds, which wrap the columns of a row or add columns to them.
Envelope = Literal["debezium", "sqlserver", "delta_feed"]
#: The columns that an envelope adds to those of the row; a CSV or Parquet file must have them.
ENVELOPE_COLUMNS: dict[Envelope, tuple[str, ...]] = {
    "debezium": (),
    "sqlserver": ("__$operation", "__$start_lsn", "__$seqval"),
    "delta_feed": ("_change_type", "_commit_version"),
}
#: The column with the time at which the database made a change; in SQL Server it is not in the change table.
COMMIT_TIME: dict[Envelope, str | None] = {
    "debezium": "__source_ts_ms",
    "sqlserver": None,
    "delta_feed": "_commit_timestamp",
}


def mistakes(contract: SourceContract) -> Iterator[str]:
    """The keys that do not fit the envelope of a source, each as ``field: what to do``."""
    envelope = contract.source.envelope
    if envelope is None:
        return
    for name in _said_twice(contract.changes, contract.order):
        yield f"{name}: 'source.envelope: {envelope}' says it already; leave one of the two out"
    if contract.is_dimension:
        yield from _wrong_time(contract, COMMIT_TIME[envelope])
    if contract.synthetic_key:
        yield "synthetic_key: a change feed has the key of its table; name its columns under 'primary_key'"


def _said_twice(changes: Changes, order: Order) -> Iterator[str]:
    """The keys that repeat what the source's envelope already defines."""
    said = ("op", "insert_words", "correct_words", "delete_words", "is_correction", "corrects_event_id")
    yield from (f"changes.{name}" for name in said if name in changes.model_fields_set)
    if order.sequence:
        yield "order.sequence"


def _wrong_time(contract: SourceContract, commit_time: str | None) -> Iterator[str]:
    """Check that the changes of a dimension begin when the database made them.

    A deletion and a pre-image carry the columns of the previous row: a time from these columns would end that row where it began.
    """
    if commit_time is not None and contract.event_column != commit_time:
        yield f"clocks.event: the changes of a dimension begin when the database made them; name {commit_time} here"
    elif contract.event_column in {field.in_file for field in contract.model.fields}:
        yield (
            "clocks.event: the changes of a dimension begin when the database made them; name the column with the time of the "
            "commit, and leave it out of model.fields"
        )
