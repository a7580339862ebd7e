"""``ops/ingestions``: one row per delivery of a file, whether ingested, already known, or held, and how a held one ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger import ids
from lakehouse.ledger.ids import delivery_name
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.lake import Lake


#: A file of landing in one state: its name, size in bytes and time of modification.
FileIdentity = tuple[str, int, "datetime | None"]


@dataclass(frozen=True)
class Ingestion:
    """One delivered file. ``touched_days`` are the event days whose silver content it may change.

    ``delivery`` names the manifest that lists it, None for none. ``newest_arrival`` and ``newest_event`` are the greatest times
    of its well-formed rows, where an event counts at the latest when it arrived; ``newest_marker`` is the greatest time of its
    markers, as the contract's watermark defines them; ``skewed`` counts the rows whose event lies ahead of their arrival.
    ``header`` is the header line of a CSV file, without which its raw records cannot be read again. These fields are empty in
    entries of earlier releases. ``backfill`` is the plan that brought the file, None for none.

    A held file is ``gone`` once it is no longer in landing, and ``given_up`` by a person's decision.
    """

    source: str
    ingestion_id: str
    content_hash: str
    arrival_date: date
    source_file: str
    bytes: int
    modified: datetime | None
    rows: int = field(default=0, kw_only=True)
    malformed: int = field(default=0, kw_only=True)
    touched_days: list[date] = field(default_factory=list, kw_only=True)
    touched_rows: list[int] = field(default_factory=list, kw_only=True)
    status: Literal["ingested", "redelivered", "held", "gone", "given_up"]
    message: str | None = field(default=None, kw_only=True)
    run_id: str
    recorded_at: datetime
    newest_arrival: datetime | None = field(default=None, kw_only=True)
    newest_event: datetime | None = field(default=None, kw_only=True)
    newest_marker: datetime | None = field(default=None, kw_only=True)
    skewed: int = field(default=0, kw_only=True)
    delivery: str | None = field(default=None, kw_only=True)
    header: str | None = field(default=None, kw_only=True)
    backfill: str | None = field(default=None, kw_only=True)

    @property
    def input_id(self) -> str:
        """The id under which silver and the numbers list the file among their inputs."""
        if self.status == "ingested":
            return self.ingestion_id
        return ids.of_redelivery(f"{self.source}|{self.ingestion_id}|{self.delivered_with}")

    @property
    def is_in_bronze(self) -> bool:
        """Whether Bronze has the rows of the file."""
        return self.status in {"ingested", "redelivered"}

    @property
    def counts_again(self) -> bool:
        """Whether this is a file of known content that counts again in its delivery."""
        return self.status == "redelivered" and bool(self.touched_days)

    @property
    def delivered_with(self) -> str:
        """The name of the delivery to which the file belongs."""
        return delivery_name(self.delivery, self.arrival_date)

    @property
    def identity(self) -> FileIdentity:
        """The name, size and time of the delivered file, to be compared with the file in landing."""
        return self.source_file, self.bytes, self.modified

    @property
    def rows_by_day(self) -> dict[date, int]:
        """The number of its rows on each touched day; 0 for a day that only had an older row of a key."""
        return dict(zip(self.touched_days, self.touched_rows))


def log(lake: Lake) -> LogTable[Ingestion]:
    """The table."""
    return LogTable(Ingestion, lake, locations.ingestions(lake), partition_by="source")


def record(lake: Lake, *entries: Ingestion) -> None:
    """Append deliveries of one source in one commit, except those recorded before with the same file, status and message."""
    if entries:
        where = {"source": [entries[0].source], "source_file": [entry.source_file for entry in entries]}
        log(lake).append_missing(entries, _app_id, where)


def record_later(lake: Lake, *entries: Ingestion) -> None:
    """Append how held files ended, or that they are held again: the same may happen to a file several times."""
    if entries:
        where = {"source": [entries[0].source], "source_file": [entry.source_file for entry in entries]}
        log(lake).append_missing(entries, lambda entry: f"{_app_id(entry)}:{entry.recorded_at.isoformat()}", where)


def _app_id(entry: Ingestion) -> str:
    text = f"{entry.status}:{entry.source}:{entry.content_hash}:{entry.source_file}:{entry.modified}:{entry.message or ''}"
    return f"{text}:{entry.delivery}" if entry.counts_again else text


def all_of(lake: Lake, source: str) -> Sequence[Ingestion]:
    """Every recorded delivery of a source, by arrival day and file."""
    table, of_source = log(lake), {"source": [source]}

    def in_order() -> list[Ingestion]:
        return sorted(table.read(of_source), key=lambda entry: (entry.arrival_date, entry.source_file, entry.recorded_at))

    return table.derived("in order", in_order, of_source)


def ingested(entries: Iterable[Ingestion]) -> dict[str, Ingestion]:
    """The ingestions that are in Bronze, by id."""
    return {entry.ingestion_id: entry for entry in entries if entry.status == "ingested"}


def completed(lake: Lake, source: str) -> Collection[str]:
    """The ids of the completed ingestions. An ingestion that was stopped is left out: numbers do not list it among their
    inputs.
    """
    return ingested(all_of(lake, source)).keys()


def row_count(lake: Lake, source: str) -> int:
    """The number of rows of a source in Bronze."""
    return sum(entry.rows for entry in ingested(all_of(lake, source)).values())


def only_in(lake: Lake, other: Lake, source: str) -> list[str]:
    """The ingestions in ``lake`` whose content the lake ``other`` does not have."""
    here, there = (ingested(all_of(each, source)).keys() for each in (lake, other))
    return sorted(here - there)


def inputs(entries: Iterable[Ingestion]) -> dict[str, Ingestion]:
    """The inputs of silver by input id: the ingestions, and the files that count again in a later delivery.

    A file of known content adds no row to Bronze. It counts again in a delivery that did not contain the content yet, unless the
    contract excludes it: only such an entry has touched days.
    """
    return {entry.input_id: entry for entry in entries if entry.status == "ingested" or entry.counts_again}


def newest(entries: Collection[Ingestion]) -> dict[str, Ingestion]:
    """The newest entry of each file name."""
    in_order = sorted(entries, key=lambda entry: (entry.recorded_at, entry.status != "held"))  # a replay's clock stands still
    return {entry.source_file: entry for entry in in_order}


def still_held(entries: Collection[Ingestion]) -> list[Ingestion]:
    """The files that were held, have not been ingested since, are still in landing, and that nobody has given up."""
    done = {entry.content_hash for entry in entries if entry.status == "ingested"}
    return [entry for entry in newest(entries).values() if entry.status == "held" and entry.content_hash not in done]


class UnheldFileError(LakehouseError):
    """A file that is not held; the message names those that are."""


def give_up(lake: Lake, source: str, name: str, by: str, reason: str) -> Ingestion:
    """Record a person's decision that nothing of a held file is read, and no number waits for it.

    A file of this name counts again as soon as its size or time differs.

    :raises UnheldFileError: if no file of this name is held.
    """
    held = {entry.source_file: entry for entry in still_held(all_of(lake, source))}
    if name not in held:
        msg = f"no file {name} of {source} is held; held are {', '.join(sorted(held)) or 'none'}"
        raise UnheldFileError(msg)
    entry = replace(
        held[name], status="given_up", message=f"given up by {by}: {reason}", run_id=f"cli:{by}", recorded_at=lake.now()
    )
    record_later(lake, entry)
    return entry
