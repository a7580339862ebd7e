"""The plan of a backfill: the partitions to compute and their order, the files, the code, and the expected outcome.

This module contains the data and its rules, such as the waves: the division of a backfill's partitions into runs. ``planner``
creates plans from tables, ``log`` stores them, and ``orchestration.execution.backfill_runner`` runs them.
"""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003 (pydantic reads them)
from enum import Enum
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.bronze.file_completeness import ManifestEntry
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


Order = Literal["ascending", "descending"]
WriteMode = Literal["merge", "overwrite"]
#: The clock by which a range of days selects files.
Clock = Literal["event", "arrival"]
#: The factor over the earlier share of quarantined rows that makes a spike, and the fewest rows to rule out chance.
_SPIKE, _SPIKE_NEEDS_ROWS = 2.0, 20


class Layer(str, Enum):
    """The layers of a backfill, in this order."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"
    ROLLUPS = "rollups"


class BackfillStatus(str, Enum):
    """The status of a backfill."""

    PLANNED = "planned"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedFile(_Plain):
    """A file of the plan, as of the plan's creation."""

    file: str
    arrival_date: date
    bytes: int
    rows: int
    sha256: str
    known: bool = Field(description="Whether Bronze had its content when the plan was made, or an earlier planned file has it.")
    beyond: int = Field(0, description="Its rows that the contract's cutoff holds or drops.")

    behind: int = Field(0, description="Its rows that come too late to count in a metric with late events.")

    @property
    def ingestion_id(self) -> str:
        """The id of the file's content in the tables."""
        return ids.of_content(self.sha256)


class Wave(_Plain):
    """The partitions of a table that are computed together, with their present number of rows.

    ``outcomes`` counts the numbers by their outcome.
    """

    layer: Layer
    table: str
    partitions: tuple[date, ...]
    rows: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)
    parallel: bool = Field(False, description="Whether it and the other waves of its table may run in any order.")


class BackfillPlan(_Plain):
    """The request and the state of knowledge at the time of planning.

    ``first_day`` and ``last_day`` are event days for silver and gold; for the files of a source they are days by its ``clock``.
    ``contracts`` has the versions of the source's contract and of its metrics' contracts, by name.
    """

    plan_id: str
    target: str
    source: str
    metric: str | None = Field(None, description="The series that is computed again; None if the target is a source.")
    first_day: date
    last_day: date
    clock: Clock = Field(
        "arrival", description="Whether files are chosen by the event days of their rows, or by their arrival days."
    )
    reason: str
    runner_id: str
    max_parallel: int = Field(2, ge=1)
    order: Order = "ascending"
    write_mode: WriteMode = "merge"
    wave_size: int = Field(100, ge=1)
    where: str | None = Field(None, description="The condition on fields that limits the backfill to an entity.")
    rows_of_entity: int = Field(0, description="Its rows: of a source those that are judged again, of a metric those in silver.")
    admit_history: bool = Field(False, description="Whether the runner admits the rows that the cutoff holds.")
    retries: int = Field(2, ge=0, description="How many times a wave that fails is run again.")
    code_version: str
    contracts: dict[str, str]
    files: tuple[PlannedFile, ...] = ()
    waves: tuple[Wave, ...] = ()
    consumers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    created_at: datetime

    @property
    def new_files(self) -> list[PlannedFile]:
        """The files whose content Bronze did not have at the time of planning."""
        return [file for file in self.files if not file.known]

    @property
    def too_late(self) -> int:
        """The number of rows in the plan's new files that come too late to count in a metric with late events."""
        return sum(file.behind for file in self.files)

    @property
    def arrival_days(self) -> list[date]:
        """The arrival days with new files."""
        return sorted({file.arrival_date for file in self.new_files})


def differences(promised: Sequence[ManifestEntry], files: Collection[PlannedFile]) -> list[str]:
    """The differences between the files in landing and a manifest, each with file and measure; empty if they agree."""
    by_name = {file.file: file for file in files}
    sentences = []
    for entry in promised:
        file = by_name.get(entry.file)
        if file is None:
            sentences.append(f"{entry.file}: is not in landing; have it sent, or correct the manifest")
        else:
            measures: dict[str, int | str] = {"bytes": file.bytes, "rows": file.rows, "sha256": file.sha256}
            sentences += [f"{entry.file}: {violation}" for violation in entry.violations(measures)]
    in_manifest = {entry.file for entry in promised}
    unlisted = [file.file for file in files if file.file not in in_manifest]
    return sentences + [f"{name}: is not in the manifest; add it, or take the file away" for name in unlisted]


def moved_pins(planned_code: str, planned_contracts: Mapping[str, str], code: str, contracts: Mapping[str, str]) -> list[str]:
    """The changes of code and contracts since planning: a backfill runs only under the planned versions."""
    sentences = [f"the code was {planned_code} and is {code}"] if planned_code != code else []
    for name in sorted({*planned_contracts, *contracts}):
        before, now = planned_contracts.get(name, "absent"), contracts.get(name, "absent")
        if before != now:
            sentences.append(f"the contract of {name} was {before} and is {now}")
    return sentences


def spikes(rows: int, waiting: int, rows_before: int, waiting_before: int) -> bool:
    """Whether rows of this backfill wait for a steward far more often than earlier rows."""
    if rows < _SPIKE_NEEDS_ROWS or not waiting:
        return False
    before = waiting_before / rows_before if rows_before else 0.0
    return waiting / rows > _SPIKE * before


def cut_into_waves(partitions: Collection[date], order: Order, size: int) -> Iterator[list[date]]:
    """Divide partitions into waves of at most ``size``, in the order of the plan."""
    ordered = sorted(partitions, reverse=order == "descending")
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def are_independent_arrivals(contract: SourceContract, files: Collection[PlannedFile]) -> bool:
    """Whether Bronze may ingest arrival days in any order, with the same result as in the plan's order.

    The order matters in three cases: content delivered on two days is recorded on the first day ingested, a policy that chooses
    between deliveries compares them, and without an arrival time in the files, the time of ingestion decides which row of a key
    is newer.
    """
    if policy_of(contract).chooses_deliveries or contract.clocks.arrival is None:
        return False
    days_of_content = {(file.sha256, file.arrival_date) for file in files}
    return len(days_of_content) == len({content for content, _ in days_of_content})


def are_independent_numbers(metric: MetricContract) -> bool:
    """Whether days of a metric may be published in any order: no check compares a day with days published before it."""
    return not metric.checks.trailing_days
