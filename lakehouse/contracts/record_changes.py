"""The contract's sections for records that change earlier ones: ``changes``, ``order``, ``source.envelope`` and ``dimension``.

``changes`` marks such records. With ``changes.corrections: partial`` they carry only what they change; what a contract cannot
combine with that is stated here, how their empty fields are filled in ``dispositions.readings``. ``order`` is the order in which
changes apply. An envelope of a change feed marks changes and orders them itself. ``dimension`` states how changes become
intervals, and excludes other keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_serializer, field_validator, model_validator

from lakehouse.contracts.base import Strict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


#: The column with a record's operation, and its values.
OPERATION = "change_op"
OPERATIONS = ("insert", "correct", "delete")
#: The operation that only dimensions have.
RETRACT = "retract"


class Changes(Strict):
    """The columns that mark a record as a change to an earlier one."""

    op: str | None = Field(None, description="Column that holds insert, correct or delete (or the words below).")
    insert_words: list[str] = Field(default_factory=lambda: ["insert", "i", "c", "r"])
    correct_words: list[str] = Field(default_factory=lambda: ["correct", "update", "upsert", "u"])
    delete_words: list[str] = Field(default_factory=lambda: ["delete", "d"])
    retract_words: list[str] = Field(
        default_factory=lambda: ["retract"], description="Of a dimension: the change at this event time has never happened."
    )
    is_correction: str | None = Field(None, description="Column that marks a correction (1/true).")
    corrects_event_id: str | None = Field(None, description="Column with the key that the record corrects.")
    corrected_by: str | None = Field(None, description="Column that names who corrected.")
    correction_reason: str | None = Field(None, description="Column with the reason of a correction.")
    corrected_field: str | None = Field(None, description="Column that names what was corrected.")
    corrections: Literal["whole", "partial"] = Field(
        "whole",
        description="Whether a correction has all fields, or only those that it changes; the others keep their values.",
    )

    @model_validator(mode="after")
    def _one_meaning(self) -> Changes:
        words = [
            word for part in (self.insert_words, self.correct_words, self.delete_words) for word in {w.lower() for w in part}
        ]
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            msg = f"op: these words have two meanings: {', '.join(twice)}; give each of the three lists its own"
            raise ValueError(msg)
        return self


class OrderColumn(Strict):
    """A column that orders the changes of a key."""

    column: str
    type: Literal["integer", "text", "time"] = Field(
        "integer",
        description="Text is compared by its bytes, as hexadecimal numbers are. A time is compared as an instant, and is bounded "
        "by its delivery (clocks.max_ahead).",
    )


class Order(Strict):
    """The source's own sequence, if any, followed by arrival time, file and line."""

    sequence: list[OrderColumn] = Field(
        default_factory=list,
        description="Column, or columns from the most to the least significant, that grow with every change of a key.",
    )

    @field_validator("sequence", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [{"column": item} if isinstance(item, str) else item for item in items]

    @field_validator("sequence")
    @classmethod
    def _each_once(cls, value: list[OrderColumn]) -> list[OrderColumn]:
        names = [item.column for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"these columns are named twice: {', '.join(twice)}"
            raise ValueError(msg)
        return value

    @field_serializer("sequence")
    def _as_written(self, value: list[OrderColumn]) -> Any:
        """Dump a single integer column as its name, so that the contract's version is the same as before other orders existed."""
        if not value or self.is_one_integer:
            return value[0].column if value else None
        return [item.model_dump() for item in value]

    @property
    def is_one_integer(self) -> bool:
        """Whether a single integer column is the whole order."""
        return [item.type for item in self.sequence] == ["integer"]

    @property
    def is_one_number(self) -> bool:
        """Whether a single column is the whole order, and ``source_sequence`` holds it."""
        return len(self.sequence) == 1 and self.sequence[0].type != "text"


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


def envelope_mistakes(contract: SourceContract) -> Iterator[str]:
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


Kind = Literal["event", "dimension"]
#: The columns of a change, as (name, Spark type): whether the key ends with it, and the end that it names itself.
OF_A_CHANGE = (("key_ends", "boolean"), ("ends_at", "timestamp"))
#: The columns of a dimension's tables besides those of every source; no field may have one of these names.
COLUMNS = (*(name for name, _ in OF_A_CHANGE), "bucket", "dimension_key", "valid_from", "valid_to", "is_current")


class Dimension(Strict):
    """The rules by which the changes of a key become intervals of validity."""

    untracked: list[str] = Field(
        default_factory=list,
        description="Fields whose newest value holds in every interval of the key; a change of them opens no interval.",
    )
    valid_to: str | None = Field(
        None, description="Column (as in the file) with the time at which a change ends, unless another change begins earlier."
    )
    valid_to_is_last_day: bool = Field(
        False, description="Whether a day in 'valid_to' is the last day of a change; default: the first day without it."
    )
    buckets: int = Field(16, ge=1, le=4096, description="Into how many partitions, by key, the intervals are divided.")


def dimension_mistakes(contract: SourceContract) -> Iterator[str]:
    """The parts of a contract that its kind excludes, each as ``key: sentence``."""
    if contract.is_dimension:
        yield from _excluded_by_dimension(contract)
        yield from _wrong_fields(contract)
        yield from _words_of_two_meanings(contract.changes)
        return
    if contract.dimension != Dimension():
        yield "dimension: only a source with 'kind: dimension' has this section; set the kind, or leave the section out"
    if contract.changes.retract_words != Changes().retract_words:
        yield "changes.retract_words: only a source with 'kind: dimension' has them; the words for a delete are delete_words"


def _excluded_by_dimension(contract: SourceContract) -> Iterator[str]:
    policy = contract.materialization.reprocess_policy
    if policy != "merge":
        yield f"materialization.reprocess_policy: a dimension needs 'merge'; under {policy} a change could not be corrected"
    if contract.synthetic_key:
        yield "synthetic_key: a dimension needs a primary_key, by which facts refer to it"
    if contract.changes.corrects_event_id:
        yield (
            "changes.corrects_event_id: a change of a dimension is corrected by a later record about the same key and event "
            "time; leave the key out"
        )


def _wrong_fields(contract: SourceContract) -> Iterator[str]:
    if contract.dimension.valid_to_is_last_day and not contract.dimension.valid_to:
        yield "dimension.valid_to_is_last_day: is about the days in 'dimension.valid_to', which is missing; name the column"
    names = [field.name for field in contract.typed_fields]
    taken = sorted({*names} & {*COLUMNS})
    if taken:
        yield f"model.fields: a dimension fills {', '.join(taken)} itself; give the field another name and set 'column:'"
    unknown = [name for name in contract.dimension.untracked if name not in names]
    if unknown:
        yield f"dimension.untracked: not among model.fields: {', '.join(unknown)}"
    in_key = [name for name in contract.dimension.untracked if name in contract.primary_key]
    if in_key:
        yield f"dimension.untracked: {', '.join(in_key)} is part of the primary key, which never changes; leave it out"


def _words_of_two_meanings(changes: Changes) -> Iterator[str]:
    others = {word.lower() for word in (*changes.insert_words, *changes.correct_words, *changes.delete_words)}
    both = sorted({word.lower() for word in changes.retract_words} & others)
    if both:
        yield f"changes.retract_words: these words have two meanings: {', '.join(both)}; give each list its own"


_KEY = "changes.corrections"


def partial_correction_mistakes(contract: SourceContract) -> Iterator[str]:
    """What a contract with partial corrections excludes, each as ``key: sentence``."""
    if not contract.has_partial_corrections:
        return
    changes, policy = contract.changes, contract.materialization.reprocess_policy
    if contract.source.envelope:
        yield f"{_KEY}: the records of a change feed are whole; leave the key out"
    elif not (changes.op or changes.is_correction):
        yield f"{_KEY}: no record is a correction; name 'changes.op' or 'changes.is_correction', or leave the key out"
    if contract.is_dimension:
        yield f"{_KEY}: a change of a dimension has all attributes; leave the key out"
    if policy != "merge":
        yield f"{_KEY}: needs 'reprocess_policy: merge'; under {policy} a record is taken as it was sent"
    if contract.synthetic_key:
        yield f"{_KEY}: a synthetic key is made of fields that a partial correction may lack; needs a primary_key"
    if changes.corrects_event_id:
        yield (
            f"{_KEY}: a correction under another key ('changes.corrects_event_id') replaces the whole record; leave one of the "
            "two out"
        )


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """What does not fit between a metric and sources with partial corrections: where in the metric's file, and what to do."""
    partial = [entry.source for entry in metric.read if entry.source in sources and sources[entry.source].has_partial_corrections]
    if metric.late_events is not None and partial:
        yield (
            ("late_events",),
            f"a row of {partial[0]} that came too late may have filled a partial correction ('{_KEY}'); leave the key out",
        )
    if metric.live is not None and partial:
        yield (
            ("live",),
            f"a stream has no earlier records to fill the partial corrections of {partial[0]} from ('{_KEY}'); leave the key out",
        )
