"""The contract of a source: its file format, clocks and keys, and how its silver table is kept.

``dataset``, ``primary_key``, ``model``, ``quality`` and ``materialization`` have the form that LakeLogic gives them; the other
keys are specific to this project. The section ``source`` is in ``inputs``, ``changes``, ``order`` and ``dimension`` in
``record_changes``, rules for rows in ``source_rules``, schedules in ``publication``.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from itertools import chain
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, PrivateAttr, field_validator, model_validator

from lakehouse.contracts import inputs, record_changes
from lakehouse.contracts.alerts import SourceAlerts
from lakehouse.contracts.base import SYSTEM_COLUMNS, Documented, Name, SparkType, Strict
from lakehouse.contracts.inputs import Source
from lakehouse.contracts.publication import Freshness, RollingBackfill  # noqa: TC001 (pydantic reads them)
from lakehouse.contracts.record_changes import ENVELOPE_COLUMNS, Changes, Dimension, Kind, Order
from lakehouse.contracts.source_rules import (
    POLICIES_WITH_CHANGES,
    TIER_CHECK,
    Lateness,
    Marker,
    Materialization,
    PerKeyWatermark,
    PunctuatedWatermark,
    Quality,
    ReprocessPolicyName,
    SyntheticKey,
    WatermarkStrategy,
)

RepeatedHour = Literal["reject", "first", "second"]


class FieldSpec(Strict):
    """One typed column. ``column`` is its name in the file where that differs."""

    name: Name
    type: SparkType
    required: bool = False
    column: str | None = None
    description: str | None = None

    @property
    def in_file(self) -> str:
        """The column's name in the source's files."""
        return self.column or self.name


class Model(Strict):
    """The typed columns, in the order of the table."""

    fields: list[FieldSpec] = Field(min_length=1)


class Clocks(Strict):
    """The columns with the time of an event and the time of its arrival."""

    event: str | None = Field(None, description="Column (as in the file) of the event time or event date.")
    arrival: str | None = Field(None, description="Column of the arrival time; default: the time of ingestion.")
    timezone: str = Field("UTC", description="The zone whose midnight ends an event day.")
    naive_times: Literal["reject", "in_timezone"] = Field("reject", description="What a time without a zone means.")
    repeated_hour: RepeatedHour | None = Field(
        None,
        description="Which time a local time without a zone means that occurs twice, as clocks are set back; default: reject.",
    )
    start_date: date | None = Field(None, description="The first event day; default: source.start_date.")
    max_ahead: timedelta = Field(timedelta(days=1), ge=timedelta(0), description="How far event time may lie after arrival time.")
    watermark: WatermarkStrategy | None = Field(
        None,
        description="How the event-time watermark follows from what has arrived: before it, everything is believed complete.",
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Clocks:
        if self.repeated_hour and self.naive_times == "reject":
            msg = (
                "repeated_hour: is about times without a zone, which are rejected; set 'naive_times: in_timezone' or leave it out"
            )
            raise ValueError(msg)
        return self

    @property
    def notes(self) -> list[str]:
        """Notes on the clocks for a person: which local times occur twice, and how they are interpreted."""
        zone, start = ZoneInfo(self.timezone), datetime(datetime.now(timezone.utc).year, 1, 1, tzinfo=timezone.utc)
        back = next((hour for n in range(366 * 24) if (hour := (start + timedelta(hours=n)).astimezone(zone)).fold), None)
        if self.naive_times == "reject" or back is None:
            return []
        means = {
            "reject": "are malformed, unless clocks.repeated_hour is first or second",
            "first": "are the first of the two",
            "second": "are the second of the two",
        }
        read = means[self.repeated_hour or "reject"]
        return [f"clocks: times without a zone that occur twice in {self.timezone}, such as {back:%Y-%m-%d %H:%M}, {read}"]

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            msg = f"unknown zone {value!r}; use a name such as Europe/Berlin"
            raise ValueError(msg) from None
        return value


class SourceContract(Documented):
    """One source: one file, no code."""

    dataset: Name
    kind: Kind = Field("event", description="Whether a record is an event, or a change of a dimension's key at its event time.")
    primary_key: list[str] = Field(default_factory=list)
    synthetic_key: SyntheticKey | None = None
    model: Model
    quality: Quality = Field(default_factory=Quality)
    materialization: Materialization = Field(default_factory=Materialization)
    source: Source = Field(default_factory=Source)
    clocks: Clocks = Field(default_factory=Clocks)
    changes: Changes = Field(default_factory=Changes)
    order: Order = Field(default_factory=Order)
    dimension: Dimension = Field(default_factory=Dimension)
    lateness: Lateness = Field(default_factory=Lateness)
    freshness: Freshness | None = None
    rolling_backfill: RollingBackfill | None = None
    alerts: SourceAlerts = Field(default_factory=SourceAlerts)
    stewards: list[str] = Field(default_factory=list, description="Who decides about waiting rows; alerted with the owner.")
    _newest: bool = PrivateAttr(default=False)

    @property
    def newest(self) -> SourceContract:
        """A copy of the contract for the table of newest rows per key, which an ``append`` source has in addition to silver."""
        copy = self.model_copy()
        copy._newest = True  # noqa: SLF001 (of the same class)
        return copy

    @property
    def silver_tables(self) -> list[SourceContract]:
        """The contract for each silver table of the source, the main table first."""
        return [self, self.newest] if self.materialization.reprocess_policy == "append" else [self]

    @property
    def silver_table(self) -> str:
        """The name of this contract's silver table."""
        return f"{self.dataset}_newest" if self._newest else self.dataset

    @property
    def reprocess_policy(self) -> ReprocessPolicyName:
        """The policy that chooses the rows of :attr:`silver_table`."""
        return "merge" if self._newest else self.materialization.reprocess_policy

    @field_validator("primary_key", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> SourceContract:
        names = [field.name for field in self.model.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"model.fields: named twice: {', '.join(twice)}"
            raise ValueError(msg)
        # A field may have the name of a clock column only if it is that clock: see the last check.
        reserved = set(names) & (set(SYSTEM_COLUMNS) - {"event_ts", "event_date", "arrival_ts", "source_system"})
        reserved |= {name for name in names if name.startswith("quarantine_")}
        if reserved:
            names_taken = ", ".join(sorted(reserved))
            msg = f"model.fields: these names are the table's own: {names_taken}; give the field another name and set 'column:'"
            raise ValueError(msg)
        self._check_key(names)
        self._check_order()
        self._check_policy()
        self._check_sections()
        by = self.lateness.by
        if by and by.column not in {*names, "change_op"}:
            msg = f"lateness.by.column: {by.column!r} is neither among model.fields nor change_op"
            raise ValueError(msg)
        fields = {field.name for field in self.typed_fields}
        if self.marker and self.marker.column not in {*fields, "change_op"}:
            msg = f"clocks.watermark.marker.column: {self.marker.column!r} is neither among model.fields nor change_op"
            raise ValueError(msg)
        if isinstance(self.clocks.watermark, PerKeyWatermark) and self.clocks.watermark.key not in fields:
            msg = f"clocks.watermark.key: {self.clocks.watermark.key!r} is not among model.fields"
            raise ValueError(msg)
        if self.event_column is None:
            msg = "clocks.event: name the column of the event time (or have a field event_ts or event_date)"
            raise ValueError(msg)
        clocks = {"event_ts": self.event_column, "event_date": self.event_column, "arrival_ts": self.clocks.arrival}
        shadowed = sorted(field.name for field in self.model.fields if field.in_file != clocks.get(field.name, field.in_file))
        if shadowed:
            msg = (
                f"model.fields: the table fills {', '.join(shadowed)} from another column; name this one under 'clocks:', "
                "leave the field out, or give it another name and set 'column:'"
            )
            raise ValueError(msg)
        self._check_severities()
        unknown = sorted(self.quality.nulls.keys() - {field.name for field in self.typed_fields})
        if unknown:
            known = ", ".join(field.name for field in self.typed_fields)
            msg = f"quality.nulls: no field is called {', '.join(unknown)}; there are {known}"
            raise ValueError(msg)
        system = next((field for field in self.model.fields if field.name == "source_system"), None)
        if system and system.type != "string":
            msg = "model.fields: source_system is a string"
            raise ValueError(msg)
        return self

    def _check_key(self, names: list[str]) -> None:
        if bool(self.primary_key) == bool(self.synthetic_key):
            msg = "primary_key: name the fields that identify an event, or give a synthetic_key: one of the two"
            raise ValueError(msg)
        unknown = [key for key in self.primary_key if key not in names]
        if unknown:
            msg = f"primary_key: not among model.fields: {', '.join(unknown)}"
            raise ValueError(msg)
        if self.changes.corrects_event_id and len(self.primary_key) != 1:
            msg = "changes.corrects_event_id: needs a primary key of one column"
            raise ValueError(msg)
        unknown = [name for name in self.synthetic_key.fields if name not in names] if self.synthetic_key else []
        if unknown:
            msg = f"synthetic_key.fields: not among model.fields: {', '.join(unknown)}"
            raise ValueError(msg)

    def _check_order(self) -> None:
        types = {field.in_file: field.type for field in self.model.fields}
        for item in self.order.sequence:
            kind, form = types.get(item.column, ""), self.source.formats.get(item.column)
            if item.type != "time" and form is not None and not inputs.is_of_numbers(form):
                msg = f"order.sequence: {item.column} holds times (source.formats); write '{{column: {item.column}, type: time}}'"
                raise ValueError(msg)
            if item.type == "integer" and kind.startswith(("timestamp", "date", "boolean", "double")):
                as_time = f"write '{{column: {item.column}, type: time}}', or name the column 'clocks.arrival'"
                as_text = f"write '{{column: {item.column}, type: text}}' if its texts sort as they follow each other"
                remedy = as_time if kind.startswith(("timestamp", "date")) else as_text
                raise ValueError(f"order.sequence: {item.column} is a {kind}, and a sequence is an integer; {remedy}")

    def _check_severities(self) -> None:
        tiers = self.lateness.judged_tiers
        for name in self.quality.severity:
            if name.startswith(f"{TIER_CHECK}_") and name not in tiers:
                known = f"there are {', '.join(tiers)}" if tiers else "no tier has a tolerated share"
                msg = f"quality.severity: no tier has the check {name!r}; {known}"
                raise ValueError(msg)

    def _check_sections(self) -> None:
        of_sections = (
            record_changes.dimension_mistakes,
            record_changes.envelope_mistakes,
            record_changes.partial_correction_mistakes,
            inputs.mistakes,
        )
        mistake = next(chain.from_iterable(mistakes(self) for mistakes in of_sections), None)
        if mistake:
            raise ValueError(mistake)

    def _check_policy(self) -> None:
        policy = self.materialization.reprocess_policy
        changing = next((f"changes.{name}" for name in ("op", "corrects_event_id") if getattr(self.changes, name)), None)
        changing = "source.envelope" if self.source.envelope else changing
        if changing and policy not in POLICIES_WITH_CHANGES:
            msg = f"{changing}: needs 'reprocess_policy: merge'; under {policy} a record only adds itself"
            raise ValueError(msg)

    @property
    def by_sequence(self) -> bool:
        """Whether the source orders the changes of a key itself."""
        return bool(self.order.sequence or self.source.envelope)

    @property
    def has_partial_corrections(self) -> bool:
        """Whether the empty fields of a correction keep the values of the record that it corrects."""
        return self.changes.corrections == "partial"

    @property
    def is_dimension(self) -> bool:
        """Whether the source also keeps intervals per key."""
        return self.kind == "dimension"

    @property
    def event_column(self) -> str | None:
        """The file's column with the event time: the one in ``clocks``, else a field named event_ts or event_date."""
        if self.clocks.event:
            return self.clocks.event
        by_name = {field.name: field.in_file for field in self.model.fields}
        return by_name.get("event_ts") or by_name.get("event_date")

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns of the file that are read as text, in which blanks around a value count."""
        changes, key = self.changes, self.primary_key[:1]
        texts: list[str | None] = [field.in_file for field in self.model.fields if field.type == "string"]
        texts += [changes.corrected_by, changes.correction_reason, changes.corrected_field]
        texts += [item.column for item in self.order.sequence if item.type == "text"]
        texts += [changes.corrects_event_id for field in self.model.fields if field.name in key and field.type == "string"]
        return frozenset(each for column in texts if column for each in (column, *self.source.joined.get(column, ())))

    @property
    def day_columns(self) -> frozenset[str]:
        """The columns of the file that are fields of type date and of no other type."""
        others = {field.in_file for field in self.model.fields if field.type != "date"}
        return frozenset(field.in_file for field in self.model.fields if field.in_file not in others)

    @property
    def event_is_day(self) -> bool:
        """Whether the event column is a field of type date: its values have no time, even if a file writes them as midnight."""
        return self.event_column in self.day_columns

    @property
    def event_may_be_day(self) -> bool:
        """Whether the event column may have days without a time; a field of type timestamp refuses them."""
        return "timestamp" not in {field.type for field in self.model.fields if field.in_file == self.event_column}

    @property
    def event_type_column(self) -> str:
        """The Bronze column with the event type by which lateness is assessed: ``lateness.by``, else the operation."""
        return self.lateness.by.column if self.lateness.by else "change_op"

    @property
    def marker(self) -> Marker | None:
        """The marker of records that advance the event-time watermark, if the contract's watermark follows markers."""
        watermark = self.clocks.watermark
        return watermark.marker if isinstance(watermark, PunctuatedWatermark) else None

    @property
    def marker_field(self) -> FieldSpec | None:
        """The field by which marker records are known; such records count in no number.

        None without a marker, and for a marker in ``change_op``: it is an operation like any other.
        """
        return next((spec for spec in self.model.fields if self.marker and spec.name == self.marker.column), None)

    @property
    def first_event_day(self) -> date:
        """The first day of the event-day partitions."""
        return self.clocks.start_date or self.source.start_date

    @property
    def columns_read(self) -> list[str]:
        """Every column of a file that this contract needs, in a stable order."""
        joined = self.source.joined
        return list(dict.fromkeys(each for column in self._columns_wanted for each in joined.get(column, [column])))

    @property
    def columns_meant(self) -> set[str]:
        """The columns named by fields, clocks and changes, including columns joined from others."""
        return set(self._columns_wanted)

    @property
    def _columns_wanted(self) -> list[str]:
        """The columns that the contract needs, repeated as often as they are read."""
        wanted: list[str | None] = [field.in_file for field in self.model.fields]
        wanted += [
            self.event_column,
            self.clocks.arrival,
            self.changes.op,
            self.changes.is_correction,
            self.changes.corrects_event_id,
            self.changes.corrected_by,
            self.changes.correction_reason,
            self.changes.corrected_field,
            *(item.column for item in self.order.sequence),
            *(ENVELOPE_COLUMNS[self.source.envelope] if self.source.envelope else ()),
            self.dimension.valid_to,
        ]
        return [column for column in wanted if column]

    @property
    def number_columns(self) -> frozenset[str]:
        """The file columns that are read as decimal or double numbers and nothing else."""
        uses = [(field.in_file, field.type) for field in self.model.fields]
        numbers = {column for column, kind in uses if kind == "double" or kind.startswith("decimal")}
        others = {column for column, kind in uses if column in numbers and not (kind == "double" or kind.startswith("decimal"))}
        by_name = Counter(self._columns_wanted)
        return frozenset(column for column in numbers - others if by_name[column] == sum(column == name for name, _ in uses))

    @property
    def typed_fields(self) -> list[FieldSpec]:
        """The fields that become separate columns: all except the clocks of the table."""
        return [field for field in self.model.fields if field.name not in SYSTEM_COLUMNS]
