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


def mistakes(contract: SourceContract) -> Iterator[str]:
    """What does not fit the envelope of a source, each as ``field: what to do``."""
    envelope = contract.source.envelope
    if envelope is None:
        return
    for name in _said_twice(contract.changes, contract.order):
        yield f"{name}: 'source.envelope: {envelope}' says it already; leave one of the two out"
    if contract.is_dimension:
        # A deletion, and a pre-image, have the event time of the row that was there before: they would end it where it began.
        yield "kind: a dimension cannot read a change feed; give its changes as records with an op, or leave the envelope out"
    if contract.synthetic_key:
        yield "synthetic_key: a change feed has the key of its table; name its columns under 'primary_key'"


def _said_twice(changes: Changes, order: Order) -> Iterator[str]:
    """The keys that a contract gives although the envelope of its source says the same."""
    said = ("op", "insert_words", "correct_words", "delete_words", "is_correction", "corrects_event_id")
    yield from (f"changes.{name}" for name in said if name in changes.model_fields_set)
    if order.sequence:
        yield "order.sequence"
