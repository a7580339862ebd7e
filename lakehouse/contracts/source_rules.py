"""The rules of a source's contract for rows: validity, lateness, keys, and how silver keeps rows."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from lakehouse.contracts.base import Name, Strict
from lakehouse.contracts.checks import NullShares, RowCount, Severity, Share  # noqa: TC001 (pydantic reads them)
from lakehouse.contracts.publication import Tuning, WatermarkTuning
from lakehouse.contracts.sql_expressions import RowExpression  # noqa: TC001 (pydantic reads it)

Beyond = Literal["restate", "quarantine", "drop"]
#: The checks of a dimension's intervals.
INTERVAL_CHECKS = ("intervals_disjoint", "intervals_without_gap", "one_current_interval", "intervals_equal_changes")
#: The checks of every source besides its row rules; the contract may set their severity.
CHECKS = (
    *("contract_schema", "rows_accounted", "no_file_held", "every_row_disposed", "lateness_tolerated", "no_review_overdue"),
    "delivery_has_records",
    *("unique_key", "required_fields", "one_correction", "whole_correction", "equals_bronze", "reviews_in_time"),
    *INTERVAL_CHECKS,
)
#: The prefix of a tier's check name.
TIER_CHECK = "tier"
#: The key ``cutoff`` of ``lateness``, and its name in earlier releases.
_CUTOFF = AliasChoices("cutoff", "watermark")
_PROPOSAL = AliasChoices("proposal", "tuning")


class RowRule(Strict):
    """A Spark SQL condition that every row should meet; a row for which it is NULL meets it."""

    name: Name | None = None
    sql: RowExpression
    category: str | None = Field(None, description="What kind of mistake it finds, such as validity; shown with its check.")
    severity: Literal["warn", "quarantine", "reject"] = Field(
        "quarantine", description="What becomes of a row that fails: it is only counted, waits for a steward, or is rejected."
    )
    description: str | None = None


class MalformedRows(Strict):
    """The tolerated share of malformed rows of a source."""

    tolerated: Share = Field(
        Decimal(0),
        description="The tolerated share of the rows of a day that cannot be read; with more, its numbers do not become final.",
    )
    severity: Severity = Field("warn", description="What more of them are to the check malformed_tolerated of an arrival day.")


class Quality(Strict):
    """Rules on the content of rows, one by one and together, and the severity of the source's checks."""

    row_rules: list[RowRule] = Field(default_factory=list)
    row_count: RowCount | None = Field(None, description="How many rows an arrival day may bring.")
    nulls: NullShares = Field(
        default_factory=dict, description="By field: the tolerated share without a value, per arrival day and per event day."
    )
    malformed: MalformedRows = Field(
        default_factory=MalformedRows, description="How many rows may be malformed before numbers wait for them."
    )
    severity: dict[str, Severity] = Field(
        default_factory=dict, description="By check: 'error' or 'warn', to replace its default severity."
    )

    @model_validator(mode="after")
    def _told_apart(self) -> Quality:
        names = list(self.named_rules)
        if len(names) < len(self.row_rules):
            msg = "row_rules: two rules have the same name; give each its own"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _known_checks(self) -> Quality:
        known = [*CHECKS, *(f"rule_{name}" for name in self.named_rules)]
        own = {"row_count": "row_count", "malformed_tolerated": "malformed", "nulls": "nulls", "arrivals_are_fresh": "freshness"}
        for name in self.severity:
            if name in own:
                msg = f"severity: set that of {name} under '{own[name]}:' itself"
                raise ValueError(msg)
            if name not in known and not name.startswith(f"{TIER_CHECK}_"):
                msg = f"severity: no check is called {name!r}; there are {', '.join(known)}"
                raise ValueError(msg)
        return self

    @property
    def named_rules(self) -> dict[str, RowRule]:
        """The row rules by name; a rule without a name is called by its position, from 1."""
        return {rule.name or f"rule_{number}": rule for number, rule in enumerate(self.row_rules, start=1)}


class TunableWatermark(Strict):
    """A watermark that follows the newest events at the greatest expected lateness, which tuning may adjust to the data."""

    max_lateness: timedelta = Field(ge=timedelta(0))
    tuning: WatermarkTuning = Field(default_factory=WatermarkTuning)

    @model_validator(mode="after")
    def _tunes_itself_within_bounds(self) -> TunableWatermark:
        terms = self.tuning
        if terms.auto and not terms.at_least <= self.max_lateness <= terms.at_most:
            msg = (
                "max_lateness: lies outside of tuning.at_least and tuning.at_most; with 'auto: true' it has to begin within them"
            )
            raise ValueError(msg)
        return self


class BoundedWatermark(TunableWatermark):
    """The greatest event time that has arrived, minus the greatest expected lateness."""

    strategy: Literal["bounded"]
    idle_timeout: timedelta | None = Field(
        None,
        gt=timedelta(0),
        description="When nothing has arrived for this long, the watermark follows the clock, behind it by this time and "
        "max_lateness; default: it stands until something arrives.",
    )


class PerKeyWatermark(TunableWatermark):
    """The minimum, over the active keys, of each key's greatest event time, minus the greatest expected lateness."""

    strategy: Literal["per_key"]
    key: Name = Field(description="The field with the sender of an event, such as a station or a device.")
    idle_timeout: timedelta = Field(
        gt=timedelta(0),
        description="A key of which nothing has arrived for this long, while others spoke, is left out until it speaks again.",
    )


class Marker(Strict):
    """A record that declares everything before its event time to be complete: one with this value in a column."""

    column: Name
    value: str


class PunctuatedWatermark(Strict):
    """The greatest event time of a marker; other records do not advance it."""

    strategy: Literal["punctuated"]
    marker: Marker


class ProcessingTimeWatermark(Strict):
    """The present time minus a delay, whatever has arrived."""

    strategy: Literal["processing_time"]
    delay: timedelta = Field(ge=timedelta(0))


#: The strategies by which a source's event-time watermark follows from arrivals.
WatermarkStrategy = Annotated[
    BoundedWatermark | PerKeyWatermark | PunctuatedWatermark | ProcessingTimeWatermark, Field(discriminator="strategy")
]


class Tier(Strict):
    """A watermark after which a use of the data can start."""

    within: timedelta = Field(ge=timedelta(0))
    serves: str
    tolerated: float | None = Field(
        None, ge=0, le=1, description="The share of rows that may come later; with more, a check fails and the owner is alerted."
    )


class WatermarkChange(Strict):
    """A new cutoff for rows that arrive from a day on; the assessment of older rows does not change, even in a replay."""

    since: date
    watermark: timedelta = Field(ge=timedelta(0), validation_alias=_CUTOFF)


class TypeLateness(Strict):
    """The bounds for one event type; missing ones are taken from the source."""

    expected: timedelta | None = Field(None, ge=timedelta(0))
    watermark: timedelta | None = Field(None, ge=timedelta(0), validation_alias=_CUTOFF)
    changes: list[WatermarkChange] = Field(default_factory=list, description="Other cutoffs since, by arrival day.")
    beyond: Beyond | None = None
    tuning: Tuning | None = Field(
        None,
        validation_alias=_PROPOSAL,
        description="The target and limits of the cutoff proposed for this event type.",
    )

    @field_validator("changes")
    @classmethod
    def _in_order(cls, value: list[WatermarkChange]) -> list[WatermarkChange]:
        return _each_later(value)


class LatenessByType(Strict):
    """The field with a row's event type, and the bounds of event types that have their own."""

    column: str
    values: dict[str, TypeLateness] = Field(min_length=1)


class Lateness(Strict):
    """The expected lateness of events, and the treatment of later ones."""

    expected: timedelta = Field(
        timedelta(days=1), ge=timedelta(0), description="An event that arrives later than this counts as late."
    )
    tiers: list[Tier] = Field(default_factory=list, description="Watermarks, each with what it serves.")
    watermark: timedelta | None = Field(
        None, ge=timedelta(0), validation_alias=_CUTOFF, description="The bound that 'beyond' refers to."
    )
    changes: list[WatermarkChange] = Field(default_factory=list, description="Other cutoffs since, by arrival day.")
    tuning: Tuning = Field(
        default_factory=Tuning,
        validation_alias=_PROPOSAL,
        description="The target and the limits of the cutoff that is proposed.",
    )
    beyond: Beyond = Field("restate", description="What becomes of a row that arrives beyond the cutoff.")
    alert_above: float | None = Field(None, ge=0, le=1, description="The tolerated share of rows beyond the cutoff.")
    review_within: timedelta = Field(
        timedelta(days=14), gt=timedelta(0), description="How long after its arrival a quarantined row may wait for a steward."
    )
    by: LatenessByType | None = None

    @field_validator("changes")
    @classmethod
    def _in_order(cls, value: list[WatermarkChange]) -> list[WatermarkChange]:
        return _each_later(value)

    @model_validator(mode="after")
    def _consistent(self) -> Lateness:
        if self.beyond != "restate" and self.watermark is None:
            msg = f"cutoff: is missing; 'beyond: {self.beyond}' needs the bound that it refers to, such as P7D"
            raise ValueError(msg)
        if [tier.within for tier in self.tiers] != sorted({tier.within for tier in self.tiers}):
            msg = "tiers: name them from the shortest to the longest, each once"
            raise ValueError(msg)
        for word in self.by.values if self.by else ():
            bounds = self.of_type(word)
            if bounds.beyond != "restate" and bounds.watermark is None:
                msg = f"by.values: {word}: 'beyond: {bounds.beyond}' needs a cutoff"
                raise ValueError(msg)
        return self

    @property
    def judged_tiers(self) -> dict[str, Tier]:
        """The tiers with a tolerated share, each by the name of its check: ``tier_daily_close`` for ``daily close``."""
        named: dict[str, Tier] = {}
        for number, tier in enumerate(self.tiers, start=1):
            letters = unicodedata.normalize("NFKD", tier.serves).encode("ascii", "ignore").decode().lower()
            name = "_".join([TIER_CHECK, *re.findall(r"[a-z0-9]+", letters)])
            if tier.tolerated is not None:
                named[name if name not in {TIER_CHECK, *named} else f"{name}_{number}"] = tier
        return named

    def of_type(self, event_type: str | None) -> Lateness:
        """The bounds of ``event_type``; the source's bounds if it has none."""
        bounds = self.by.values.get(event_type or "") if self.by else None
        if bounds is None:
            return self
        names = ("expected", "watermark", "beyond", "tuning")
        given = {name: value for name in names if (value := getattr(bounds, name)) is not None}
        changes = bounds.changes if bounds.changes or bounds.watermark is not None else self.changes
        return self.model_copy(update={"by": None, "changes": changes, **given})

    def on(self, arrival_day: date) -> timedelta | None:
        """The cutoff for rows that arrive on ``arrival_day``."""
        return next((one.watermark for one in reversed(self.changes) if one.since <= arrival_day), self.watermark)

    @property
    def has_watermark(self) -> bool:
        """Whether rows of any event type and arrival day have a cutoff."""
        own = self.by.values.values() if self.by else ()
        return any(bounds.watermark is not None or bounds.changes for bounds in (self, *own))

    def as_of(self, event_type: str | None, arrival_day: date) -> Lateness:
        """The bounds of ``event_type`` for rows that arrive on ``arrival_day``."""
        own = self.of_type(event_type)
        return own.model_copy(update={"watermark": own.on(arrival_day), "changes": []}) if own.changes else own


def _each_later(changes: list[WatermarkChange]) -> list[WatermarkChange]:
    days = [one.since for one in changes]
    if days != sorted(set(days)):
        msg = "name the changes from the oldest to the newest, each on a day of its own"
        raise ValueError(msg)
    return changes


class SyntheticKey(Strict):
    """A key for a source without one: a hash of ``fields``, and of a window of event time if equal events may recur.

    Limits: two events that agree in these fields (within one window) count as one, and a correction of one of these fields is a
    new event.
    """

    fields: list[str] = Field(min_length=1)
    window: timedelta | None = Field(
        None,
        gt=timedelta(0),
        description="Rows with equal fields whose event time lies in one window are one.",
    )


#: The names of the reprocess policies; their rules are classes in ``dispositions.reprocess_policy``.
ReprocessPolicyName = Literal["merge", "overwrite_partition_safe", "overwrite_all", "append"]
#: The policies under which a record may correct or delete another; under other policies a record only adds itself.
POLICIES_WITH_CHANGES: frozenset[ReprocessPolicyName] = frozenset({"merge"})


#: Keys of ``materialization`` that only LakeLogic uses: in this project silver is a Delta table below the root.
FOR_LAKELOGIC = ("strategy", "target_path", "format")


class Materialization(Strict):
    """The upkeep of the silver table; docs/contracts.md describes the guarantees of each policy.

    The keys :data:`FOR_LAKELOGIC` have no effect here; they are accepted so that LakeLogic files load unchanged.
    """

    strategy: Literal["merge", "append", "overwrite"] = "merge"
    partition_by: list[str] = Field(default_factory=lambda: ["event_date"], description="Silver is addressed by event day.")
    reprocess_policy: ReprocessPolicyName = "merge"
    max_shrink: float = Field(
        0.5,
        ge=0,
        le=1,
        description="The share of a day's (or the table's) rows that a delivery may lack; one that lacks more is held.",
    )
    repeated_content: Literal["counts", "ignored"] = Field(
        "counts", description="Whether known content that is sent again on a later arrival day counts as a new delivery."
    )
    delivery: Literal["arrival_day", "file", "manifest"] | None = Field(
        None,
        description="What counts together and is replaced by a later delivery: the files of an arrival day, each file, the files "
        "of a manifest; by default those of a manifest or of one `lakehouse run`, else those of the arrival day.",
    )
    target_path: str | None = None
    format: Literal["delta", "csv", "json", "parquet"] = "delta"

    @field_validator("partition_by")
    @classmethod
    def _by_event_day(cls, value: list[str]) -> list[str]:
        if value != ["event_date"]:
            msg = "silver is partitioned by [event_date] only; leave the key out"
            raise ValueError(msg)
        return value

    @property
    def for_lakelogic(self) -> list[str]:
        """The keys in the file that only LakeLogic uses."""
        return [name for name in FOR_LAKELOGIC if name in self.model_fields_set]
