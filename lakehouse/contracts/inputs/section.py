"""The contract's section ``source``: where records arrive, and their format.

Rules for names in landing are in ``contracts.landing``, the topic of a source of Kafka is in ``kafka``.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import Strict
from lakehouse.contracts.changes.envelope import Envelope  # noqa: TC001 (pydantic reads them)
from lakehouse.contracts.inputs import written_values
from lakehouse.contracts.inputs.kafka import KAFKA, KafkaTopic
from lakehouse.contracts.landing import CompleteWhen, Landing  # noqa: TC001 (pydantic reads them)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.source import SourceContract


#: Spellings of "not a number" in pandas, Python, Spark, polars and DuckDB.
_NO_NUMBERS = (
    frozenset({"NaN", "nan", "NAN"}),
    frozenset({"Infinity", "infinity", "inf", "Inf", "INF"}),
    frozenset({"-Infinity", "-infinity", "-inf", "-Inf", "-INF"}),
)
_POLICIES_OF_A_STREAM = ("merge", "append")


class Source(Strict):
    """The location of arriving files or messages, and their format."""

    landing: Landing = Field(
        "arrival_date={arrival_date}*", description="The pattern of the names of files in landing; or kafka, for a topic."
    )
    kafka: KafkaTopic | None = Field(None, description="The topic, with 'landing: kafka'. See docs/streams.md.")
    complete_when: CompleteWhen | None = Field(
        None, description="What marks an arrival day as complete; default: each file is ingested once it is stable."
    )
    format: Literal["csv", "json", "parquet"] = "csv"
    envelope: Envelope | None = Field(
        None, description="The format of a change feed: it says what else 'changes' and 'order' say. See docs/change_feeds.md."
    )
    delimiter: str = Field(",", min_length=1, max_length=1)
    quote: str = Field('"', min_length=1, max_length=1)
    null_values: list[str] = Field(
        default_factory=lambda: [""],
        description="Words for 'no value', besides the blank; NaN and numbers also as numbers of JSON and Parquet.",
    )
    blank_is_null: bool = Field(True, description="Whether a blank means 'no value', too.")
    formats: dict[str, str] = Field(
        default_factory=dict,
        description="By column of the file how its values are written: a pattern of a time, a word for seconds since 1970, "
        "or the number 1234.56 as the sender writes it. See docs/contracts.md, Values.",
    )
    joined: dict[str, Annotated[list[str], Field(min_length=2)]] = Field(
        default_factory=dict, description="Columns that are made of others, joined by a blank, such as a time of date and clock."
    )
    columns: list[str] = Field(default_factory=list, description="The names of the columns of CSV files that have no header.")
    skip_lines: int = Field(0, ge=0, description="How many lines of a CSV file stand before its header, or its first record.")
    comment: str = Field("", description="What the lines of a CSV file begin with that are no records.")
    array: bool = Field(False, description="Whether a JSON file is one array of records; default: a record a line.")
    start_date: date = Field(date(2020, 1, 1), description="The first arrival day.")
    system: str | None = Field(None, description="The name of the source system; default: the dataset's name.")

    @property
    def nulls(self) -> frozenset[str]:
        """Every text that means 'no value'; all spellings of "not a number" are included if one is."""
        words = {*self.null_values, ""} if self.blank_is_null else set(self.null_values) - {""}
        for spellings in _NO_NUMBERS:
            if spellings & words:
                words |= spellings
        return frozenset(words)

    @property
    def word_for_null(self) -> str:
        """The text that means 'no value' in a file of the source."""
        return "" if self.blank_is_null else next(iter(self.null_values), "")

    @property
    def is_plain(self) -> bool:
        """Whether the columnar readers can read the files as they are."""
        return not (self.formats or self.joined or self.columns or self.skip_lines or self.comment or self.array)

    @field_validator("formats")
    @classmethod
    def _readable(cls, value: dict[str, str]) -> dict[str, str]:
        for form in value.values():
            written_values.reader(form)
        return value

    @model_validator(mode="after")
    def _separable(self) -> Source:
        if self.delimiter == self.quote or {self.delimiter, self.quote} & set("\r\n\0"):
            msg = "delimiter: must differ from the quote, and neither may be a line end"
            raise ValueError(msg)
        if self.comment[:1] in {self.delimiter, self.quote}:
            msg = f"comment: {self.comment!r} also begins records, which would be left out; use another prefix"
            raise ValueError(msg)
        if self.columns and len(set(self.columns)) < len(self.columns):
            msg = "columns: name each column once"
            raise ValueError(msg)
        if self.envelope == "debezium" and self.format != "json":
            msg = "envelope: debezium is read from JSON lines; set 'format: json'"
            raise ValueError(msg)
        if (self.landing == KAFKA) != (self.kafka is not None):
            msg = "kafka: names the topic of a source with 'landing: kafka'; give both or neither"
            raise ValueError(msg)
        if self.kafka and self.format != "json":
            msg = "format: messages are read as JSON; set 'format: json'"
            raise ValueError(msg)
        if self.kafka and self.complete_when:
            msg = "complete_when: a topic has no files that could mark a day as complete; leave the key out"
            raise ValueError(msg)
        if self.complete_when and self.complete_when.takes_files_of(self.landing):
            msg = "complete_when: its pattern matches the day's files themselves; name the file that marks the day as complete"
            raise ValueError(msg)
        return self


def mistakes(contract: SourceContract) -> Iterator[str]:
    """The conflicts between ``source`` and the rest of its contract, each as ``field: what to do``."""
    yield from _mistakes_of_formats(contract)
    if contract.source.kafka is None:
        if contract.alerts.stream_lag is not None:
            yield "alerts.stream_lag: only a source of 'landing: kafka' has such a lag; leave the key out"
        return
    policy = contract.materialization.reprocess_policy
    if policy not in _POLICIES_OF_A_STREAM:
        yield (
            f"materialization.reprocess_policy: under {policy} a delivery replaces others, and messages have no such deliveries; "
            f"use one of {', '.join(_POLICIES_OF_A_STREAM)}"
        )
    names = [field.name for field in contract.model.fields if field.name.startswith("kafka_")]
    if names:
        yield (
            f"model.fields: Bronze keeps the place of a message in columns that begin with kafka_: give {', '.join(names)} "
            "another name and set 'column:'"
        )
    if contract.source.kafka.tombstones == "delete":
        simple = contract.changes.op and len(contract.primary_key) == 1 and not contract.order.sequence
        if not simple or contract.source.envelope or contract.is_dimension:
            yield (
                "source.kafka.tombstones: such a message has its key and nothing else; 'delete' needs 'changes.op' and a primary "
                "key of one column, and neither 'order.sequence' nor an envelope nor a dimension"
            )


def _mistakes_of_formats(contract: SourceContract) -> Iterator[str]:
    """The conflicts between formats of columns and the fields that read these columns."""
    texts = {field.in_file for field in contract.model.fields if field.type == "string"}
    for name in ("formats", "joined"):
        unread = sorted(getattr(contract.source, name).keys() - contract.columns_meant)
        if unread:
            yield f"source.{name}: nothing reads a column {', '.join(unread)}; name one that a field or a clock reads"
    missing = [column for column in contract.columns_read if column not in contract.source.columns]
    if contract.source.columns and missing:
        yield f"source.columns: lacks {', '.join(missing)}, which a field or a clock reads"
    for column, form in contract.source.formats.items():
        if column in texts and written_values.is_of_numbers(form):
            yield f"source.formats.{column}: the field is text, which stays as it is written; give it a type of numbers"
