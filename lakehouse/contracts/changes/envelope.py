"""The envelope of a change feed, ``source.envelope``: it says how records mark changes, and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.changes.marking import Changes
    from lakehouse.contracts.changes.order import Order
    from lakehouse.contracts.source import SourceContract

#: The formats of change feeds: what surrounds the columns of a row, or stands beside them.
Envelope = Literal["debezium", "sqlserver", "delta_feed"]
#: The columns beside those of the row, which a file of CSV or Parquet must have.
ENVELOPE_COLUMNS: dict[Envelope, tuple[str, ...]] = {
    "debezium": (),
    "sqlserver": ("__$operation", "__$start_lsn", "__$seqval"),
    "delta_feed": ("_change_type", "_commit_version"),
}
#: The column with the time at which the database made a change; that of SQL Server is not in the change table.
COMMIT_TIME: dict[Envelope, str | None] = {
    "debezium": "__source_ts_ms",
    "sqlserver": None,
    "delta_feed": "_commit_timestamp",
}


def mistakes(contract: SourceContract) -> Iterator[str]:
    """What does not fit the envelope of a source, each as ``field: what to do``."""
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
    """The keys that a contract gives although the envelope of its source says the same."""
    said = ("op", "insert_words", "correct_words", "delete_words", "is_correction", "corrects_event_id")
    yield from (f"changes.{name}" for name in said if name in changes.model_fields_set)
    if order.sequence:
        yield "order.sequence"


def _wrong_time(contract: SourceContract, commit_time: str | None) -> Iterator[str]:
    """Whether the changes of a dimension begin when the database made them.

    A deletion, and a pre-image, have the columns of the row that was there before: by a time among these, they would end it where
    it began.
    """
    if commit_time is not None and contract.event_column != commit_time:
        yield f"clocks.event: the changes of a dimension begin when the database made them; name {commit_time} here"
    elif contract.event_column in {field.in_file for field in contract.model.fields}:
        yield (
            "clocks.event: the changes of a dimension begin when the database made them; name the column with the time of the "
            "commit, and leave it out of model.fields"
        )
