"""Ingests the files of arrival days: each is ingested, recorded as delivered before, or held.

All files of a run are appended to Bronze by one commit. The order of commits makes stopping safe (R11): Bronze, then the key log,
then the disposition tables, then the unread rows, then the ledger, then the watermark's keys. Steps after Bronze that a stopped
run left out are computed from Bronze when the run is repeated. Which files are pending is decided in ``pending_files``.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files
from lakehouse.bronze import table as bronze_table
from lakehouse.bronze.landing import Fingerprint, LandingFile
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import account_tables, claims, readings, row_frames
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.lateness import watermark_per_key
from lakehouse.ledger import contract_archive, ingestions, key_log
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.bronze.landing import Listing
    from lakehouse.bronze.pending_files import Readiness, RunDelivery
    from lakehouse.bronze.table import Deliveries
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def judge(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    files: Sequence[DeliveredFile],
    redelivered: Mapping[DeliveredFile, date],
) -> dict[str, dict[str, Any]]:
    """Judge the rows of files, enter them into the key log and the disposition tables, and count them.

    :param session: called only for row rules in SQL.
    :param redelivered: files of known content that count again, with the arrival days of their rows.
    :returns: by ingestion id, the fields of :class:`~lakehouse.ledger.ingestions.Ingestion` that are computed from the rows.
    """
    if not files and not redelivered:
        return {}
    ids, arrivals = [file.ingestion_id for file in files], {file.arrival_date for file in files}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    newest: dict[str, dict[str, datetime]] = defaultdict(dict)

    def claims_of() -> Iterator[pa.Table]:
        counts.clear()
        newest.clear()
        where = {"arrival_date": arrivals, "ingestion_id": set(ids)}
        rows_judged = row_frames.judged(lake, contract, session, where)
        for rows in pieces.counted("rows judged", rows_judged):
            _count(rows, counts, newest)
            yield key_log.claims(rows)

    if files:
        key_log.append(lake, contract.dataset, ids, arrivals, claims_of)
    malformed = sum(of_ingestion["malformed"] for of_ingestion in counts.values())
    account_tables.after_ingestions(lake, contract, files, malformed, redelivered)
    if malformed:
        _record_unread(lake, contract, [file for file in files if counts[file.ingestion_id]["malformed"]])
    # From the log: a stopped run may have judged the rows already, under another contract.
    every = [*ids, *(file.ingestion_id for file in redelivered)]
    touched = claims.touched_days(lake, contract, every, {*arrivals, *redelivered.values()})
    touches = {name: {"touched_days": list(days), "touched_rows": list(days.values())} for name, days in touched.items()}
    return {name: {**counts[name], **newest[name], **touches[name]} for name in every}


def _record_unread(lake: Lake, contract: SourceContract, files: Sequence[DeliveredFile]) -> None:
    """Record the malformed rows of files by event day: numbers wait for them."""
    where = {"arrival_date": {file.arrival_date for file in files}, "ingestion_id": {file.ingestion_id for file in files}}
    rows = readings.pieces(lake, contract.dataset, list(ingestions.UNREAD_COLUMNS), where)
    ingestions.record_unread(lake, ingestions.count_unread(contract.dataset, rows, lake.now()))


def schema_problem(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession]) -> str | None:
    """Why Bronze cannot take rows of the contract as it is now; columns that are new in it are added."""
    source = contract.dataset
    try:
        spark_commits.add_missing_columns(session, locations.bronze(lake, source), bronze_columns(contract))
        spark_commits.add_missing_columns(session, locations.readings(lake, source), readings.columns(contract))
    except spark_commits.SchemaChangeError as problem:
        return str(problem)
    return None


def _count(rows: pa.Table, counts: dict[str, Counter[str]], newest: dict[str, dict[str, datetime]]) -> None:
    """Count all, malformed and skewed rows, and take the newest times of the well-formed ones, per ingestion."""
    is_sound = pc.is_null(rows["malformed_reason"])
    arrived = pc.if_else(is_sound, rows["arrival_ts"], pa.scalar(None, rows["arrival_ts"].type))
    marked = pc.if_else(rows["is_marker"], rows["happened_at"], pa.scalar(None, rows["happened_at"].type))
    times = {"newest_arrival": arrived, "newest_event": rows["happened_at"], "newest_marker": marked}
    table = pa.table({**{name: rows[name] for name in ("ingestion_id", "malformed_reason", "is_skewed")}, **times})
    wanted = [([], "count_all"), ("malformed_reason", "count"), ("is_skewed", "sum"), *((name, "max") for name in times)]
    for row in table.group_by("ingestion_id").aggregate(wanted).to_pylist():
        name = row["ingestion_id"]
        counts[name].update(rows=row["count_all"], malformed=row["malformed_reason_count"], skewed=row["is_skewed_sum"])
        greatest = {time: row[f"{time}_max"] for time in times if row[f"{time}_max"] is not None}
        newest[name] |= {time: max(at, newest[name].get(time, at)) for time, at in greatest.items()}


#: The fields of a ledger entry that a file which counts again has as well.
_TOUCHED = ("touched_days", "touched_rows")


@dataclass(frozen=True)
class DayReport:
    """The outcome of one arrival day's files in this run; ``waiting`` describes those that were left in landing."""

    ingested: list[Ingestion] = field(default_factory=list)
    redelivered: list[Ingestion] = field(default_factory=list)
    held: list[Ingestion] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    @property
    def delivered(self) -> list[Ingestion]:
        """The files that count as of the day: new ones, and those that were delivered again."""
        return [*self.ingested, *(entry for entry in self.redelivered if entry.counts_again)]


_LOG = logging.getLogger(__name__)


class Ingest:
    """Brings arrival days of one source into Bronze.

    :param session: returns the Spark session; it is called only for large files, rules in SQL and new columns.
    :param expect: is called with the number of bytes of files before they are ingested.
    :param backfill: the backfill plan that the run belongs to: its files bring history (see ``lateness.historical_rows``).
        ``notices`` has the differences between new and older rows because the contract was changed.
    """

    def __init__(
        self,
        lake: Lake,
        contract: SourceContract,
        session: Callable[[], SparkSession],
        run_id: str,
        expect: Callable[[int], None] = lambda _: None,
        backfill: str | None = None,
    ) -> None:
        self._lake = lake.cached()
        self._contract = contract
        self._source = contract.dataset
        self._session, self._expect = session, expect
        self._run_id, self._backfill = run_id, backfill
        self.notices: list[str] = []

    @cached_property
    def _contract_problem(self) -> str | None:
        """The reason why Bronze accepts no row of the contract, or None; computed when there is a new file."""
        return contract_archive.problem_of_source(self._lake, self._contract) or schema_problem(
            self._lake, self._contract, self._session
        )

    def day(self, day: date, only: Mapping[str, str] | None = None) -> DayReport:
        """Ingest the files of one arrival day; see :meth:`days`."""
        return self.days([day], only)[day]

    def days(self, days: Collection[date], only: Mapping[str, str] | None = None) -> dict[date, DayReport]:
        """Ingest the files of arrival days that are in landing, ready and not in Bronze yet.

        A file that is replaced or removed while it is read is left, and the others are ingested without it.

        :param only: the files that may be ingested, each with its state in landing; by default all files of the days.
        """
        self._restore_lost_rows()
        self._release_gone_files()
        return self._without(frozenset(), days, only)

    def _without(self, changed: frozenset[str], days: Collection[date], only: Mapping[str, str] | None) -> dict[date, DayReport]:
        """Ingest the files of arrival days, except those that changed while they were read."""
        try:
            return self._attempt(changed, days, only)
        except bronze_table.ChangedFilesError as problem:
            if problem.names <= changed:
                raise
            return self._without(changed | problem.names, days, only)

    def _attempt(self, changed: Collection[str], days: Collection[date], only: Mapping[str, str] | None) -> dict[date, DayReport]:
        entries = ingestions.all_of(self._lake, self._source)
        listing = bronze_landing.listing_of_days(self._lake, self._contract, days)
        unseen = replace(listing, files=pending_files.unseen_files(listing.files, entries))
        reports = {day: DayReport() for day in sorted(days)}
        redelivered: list[Ingestion] = []
        known = ingestions.ingested(entries)
        new: list[Ingestion] = []
        files: dict[str, LandingFile] = {}
        for day, report in reports.items():
            ready = self._ready(day, only, changed, unseen, entries, report)
            runs = pending_files.runs_of_day(self._lake, self._contract, day)
            for file, fingerprint, problem in self._readable(day, ready, report):
                entry = self._entry(file, fingerprint, self._delivery_of(file, ready, runs))
                if problem is None and entry.ingestion_id in known:
                    message = f"the same content came as {known[entry.ingestion_id].source_file}"
                    redelivered.append(replace(entry, status="redelivered", message=message))
                elif problem := problem or fingerprint.problem or self._contract_problem:
                    report.held.append(replace(entry, status="held", message=f"{file.name}: {problem}"))
                else:
                    new.append(entry)
                    known[entry.ingestion_id], files[entry.ingestion_id] = entry, file
            redelivered.extend(self._named_again(day, ready, entries))
            redelivered.extend(self._run_again(day, runs, entries, [*new, *redelivered]))
        gone = {name for name, entry in ingestions.newest(entries).items() if entry.status == "gone"}
        held = [entry for report in reports.values() for entry in report.held]
        ingestions.record(self._lake, *(entry for entry in held if entry.source_file not in gone))
        ingestions.record_later(self._lake, *(entry for entry in held if entry.source_file in gone))
        for entry in self._ingested(new, files, redelivered, known):
            report = reports[entry.arrival_date]
            (report.ingested if entry.status == "ingested" else report.redelivered).append(entry)
        watermark_per_key.advance(self._lake, self._contract)
        return reports

    def _release_gone_files(self) -> None:
        """Record the held files of any day that are no longer in landing: numbers do not wait for them any more."""
        for entry in pending_files.gone_files(self._lake, self._contract):
            _LOG.warning("%s was held, and is no longer in landing: no number waits for it any more", entry.source_file)
            ended = replace(entry, status="gone", message="it is no longer in landing", run_id=self._run_id)
            ingestions.record_later(self._lake, replace(ended, recorded_at=self._lake.now()))

    def _restore_lost_rows(self) -> None:
        """Read rows that Bronze has lost again from the files in landing, and derive lost claims from Bronze.

        :raises LostRowsError: naming the files that are no longer in landing, or have other content.
        """
        lake, contract = self._lake, self._contract
        if not contract.source.kafka and (lost := ingestions.lost_deliveries(lake, self._source)):
            listing = bronze_landing.listing_of_days(lake, contract, {entry.arrival_date for entry in lost})
            files = {file.name: file for file in listing.files}
            again: list[tuple[DeliveredFile, LandingFile]] = []
            for entry in lost:
                file = files.get(entry.source_file)
                if file and bronze_landing.fingerprint(lake, contract, file).ingestion_id == entry.ingestion_id:
                    again.append((_delivered(entry, entry.recorded_at), file))
            _LOG.warning("bronze/%s lacks %d ingested files: %d are read again from landing", self._source, len(lost), len(again))
            if again:
                bronze_table.append(self._session, lake, contract, again, self._run_id)
            if gone := ingestions.lost_deliveries(lake, self._source):
                raise ingestions.lost_rows_error(
                    f"bronze/{self._source}", gone, "put them back into landing as they were, and run this again"
                )
        if lost := ingestions.lost_claims(lake, self._source):
            _LOG.warning("the key log of %s lacks %d ingested files: it is derived again from bronze", self._source, len(lost))
            judge(lake, contract, self._session, [_delivered(entry, entry.recorded_at) for entry in lost], {})
        account_tables.restore(lake, contract)

    def _ready(
        self,
        day: date,
        only: Mapping[str, str] | None,
        changed: Collection[str],
        listing: Listing,
        entries: Collection[Ingestion],
        report: DayReport,
    ) -> Readiness:
        """The day's files that may be ingested; the report records why others may not.

        :param listing: the listing with the files that were not ingested before.
        """
        unseen = [file for file in listing.files if file.arrival_date == day and file.name not in changed]
        report.waiting.extend(
            f"{file.name} is left: it was replaced or removed while it was read"
            for file in listing.files
            if file.arrival_date == day and file.name in changed
        )
        files = [file for file in unseen if only is None or only.get(file.name) == file.state]
        report.waiting.extend(f"{file.name} is left until it is stable" for file in unseen if file not in files)
        markers = listing.completion_markers.get(day, [])
        ready = pending_files.check_readiness(self._lake, self._contract, day, files, markers, entries)
        report.waiting.extend(ready.waiting)
        return ready

    def _readable(self, day: date, ready: Readiness, report: DayReport) -> Iterator[tuple[LandingFile, Fingerprint, str | None]]:
        """The files with their fingerprints and their differences from the manifest; files of a day that differs wait."""
        fingerprints = {file.name: whole for file in ready.files if (whole := self._fingerprint(file, report))}
        ready = replace(ready, files=[file for file in ready.files if file.name in fingerprints])
        violations = pending_files.manifest_violations(self._lake, self._contract, ready, fingerprints)
        for file in ready.files:
            fingerprint = fingerprints[file.name]
            if fingerprint.bytes != file.size:
                report.waiting.append(
                    f"{file.name} is being written: it has {fingerprint.bytes} bytes, and had {file.size} just before"
                )
            elif violations and file.name not in violations:
                report.waiting.append(f"{file.name} waits, because another file of {day} differs from its manifest")
            else:
                yield file, fingerprint, violations.get(file.name)

    def _fingerprint(self, file: LandingFile, report: DayReport) -> Fingerprint | None:
        """The fingerprint of a file; None if it cannot be read now, which does not stop other files."""
        try:
            return bronze_landing.fingerprint(self._lake, self._contract, file)
        except OSError as problem:
            report.waiting.append(f"{file.name} is left: it cannot be read ({problem.strerror or problem})")
            return None

    def _ingested(
        self,
        new: Sequence[Ingestion],
        files: Mapping[str, LandingFile],
        redelivered: Sequence[Ingestion],
        known: Mapping[str, Ingestion],
    ) -> list[Ingestion]:
        """Append new files to Bronze, judge their rows, and record all files in one commit.

        One commit, because files of a delivery count together, whether their content is new or not.

        :param files: the new files by ingestion id.
        :param known: the first entry of each content.
        """
        now = self._lake.now()
        delivered = [_delivered(entry, now) for entry in new]
        if new:
            self.notices += contract_archive.notices_of_source(self._lake, self._contract)
            contract_archive.accept(self._lake, self._contract)
            self._expect(sum(entry.bytes for entry in new))
            content: Deliveries = [(file, files[file.ingestion_id]) for file in delivered]
            bronze_table.append(self._session, self._lake, self._contract, content, self._run_id)
        again = self._counting_again(redelivered, known)
        judged = judge(
            self._lake,
            self._contract,
            self._session,
            delivered,
            {_delivered(entry, now): known[entry.ingestion_id].arrival_date for entry in again},
        )
        recorded = [replace(entry, **judged[entry.ingestion_id]) for entry in new]
        for entry in redelivered:
            touched = {name: judged[entry.ingestion_id][name] for name in _TOUCHED} if entry in again else {}
            recorded.append(replace(entry, **touched))
        ingestions.record(self._lake, *recorded)
        return recorded

    def _named_again(self, day: date, ready: Readiness, entries: Collection[Ingestion]) -> Iterator[Ingestion]:
        """Files that came with an earlier delivery and are named, but not sent, by a manifest of this one."""
        if not policy_of(self._contract).chooses_deliveries:
            return
        sent = {file.name for file in ready.files}
        recorded = {entry.source_file: entry for entry in entries if entry.is_in_bronze}
        for name, listed in ready.expected.items():
            if sent and name not in sent and recorded[name].delivered_with != listed.manifest:
                yield self._once_more(recorded[name], day, listed.manifest)

    def _run_again(
        self, day: date, runs: Sequence[RunDelivery], before: Sequence[Ingestion], now: Sequence[Ingestion]
    ) -> Iterator[Ingestion]:
        """Files that came with an earlier delivery, and that a person has named again in a later run of the day."""
        if not runs:  # of a long history of files there are many entries
            return
        entries = [*before, *now]
        recorded = {entry.source_file: entry for entry in entries if entry.is_in_bronze}
        had = {(entry.source_file, entry.delivery) for entry in entries}
        for run in runs:
            for name in run.files:
                if name in recorded and (name, run.name) not in had:
                    yield self._once_more(recorded[name], day, run.name)

    def _once_more(self, entry: Ingestion, day: date, delivery: str) -> Ingestion:
        """The entry of a file that came before and also belongs to another delivery."""
        file = LandingFile("", entry.source_file, day, entry.bytes, entry.modified)
        named = self._entry(file, Fingerprint(entry.content_hash, entry.bytes), delivery)
        return replace(named, status="redelivered", message=f"{delivery} names it, and it came before")

    def _delivery_of(self, file: LandingFile, ready: Readiness, runs: Sequence[RunDelivery]) -> str | None:
        """The name of the delivery of a new file; None for the delivery of its arrival day."""
        how = self._contract.materialization.delivery
        if how == "file":
            return file.name
        if listed := ready.expected.get(file.name):
            return None if how == "arrival_day" else listed.manifest
        return next((run.name for run in runs if file.name in run.files), None)

    def _counting_again(self, redelivered: Sequence[Ingestion], known: Mapping[str, Ingestion]) -> list[Ingestion]:
        """The files of known content that belong to a delivery which did not contain the content yet.

        Empty where the contract states that a sender repeats files by mistake.
        """
        if not redelivered or self._contract.materialization.repeated_content == "ignored":
            return []
        entries = [*known.values(), *ingestions.inputs(ingestions.all_of(self._lake, self._source)).values()]
        had = {(entry.ingestion_id, entry.delivered_with) for entry in entries}
        by_delivery = {(entry.ingestion_id, entry.delivered_with): entry for entry in redelivered}
        return [entry for place, entry in by_delivery.items() if place not in had]

    def _entry(self, file: LandingFile, fingerprint: Fingerprint, delivery: str | None) -> Ingestion:
        return Ingestion(
            source=self._source,
            ingestion_id=fingerprint.ingestion_id,
            content_hash=fingerprint.content_hash,
            arrival_date=file.arrival_date,
            source_file=file.name,
            bytes=file.size,
            modified=file.modified,
            status="ingested",
            run_id=self._run_id,
            recorded_at=self._lake.now(),
            delivery=delivery,
            header=fingerprint.header,
            backfill=self._backfill,
        )


def _delivered(entry: Ingestion, now: datetime) -> DeliveredFile:
    return DeliveredFile(entry.source_file, entry.ingestion_id, entry.arrival_date, now, entry.delivery or "")
