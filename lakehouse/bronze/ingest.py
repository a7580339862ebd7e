"""Ingests the files of an arrival day: each is ingested, recorded as delivered before, or held.

The order of commits makes stopping safe (R11): Bronze, then the key log, then the disposition tables, then the ledger. What a
stopped run left out after Bronze is computed from Bronze when the run is repeated. Which files are pending is decided in
``pending_files``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files
from lakehouse.bronze import table as bronze_table
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import account_tables, claims, row_rules
from lakehouse.ledger import ingestions, key_log
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.row_ids import Delivery
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.bronze.landing import Fingerprint, LandingFile
    from lakehouse.bronze.pending_files import Readiness
    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class DayReport:
    """What became of the files of one arrival day in this run; ``waiting`` describes those that were left in landing."""

    ingested: list[Ingestion] = field(default_factory=list)
    redelivered: list[Ingestion] = field(default_factory=list)
    held: list[Ingestion] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


class Ingest:
    """Brings arrival days of one source into Bronze.

    :param session: gives the Spark session; it is called only when there is something to write.
    """

    def __init__(self, settings: Settings, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> None:
        self._settings = settings
        self._contract = contract
        self._source = contract.dataset
        self._session = session
        self._run_id = run_id
        self._options = settings.storage_options

    def day(self, day: date, only: Mapping[str, str] | None = None) -> DayReport:
        """Ingest the day's files in landing that are ready and not in Bronze yet.

        :param only: the files that may be ingested, each with its state in landing; by default all of the day.
        """
        entries = ingestions.all_of(self._settings, self._source)
        report = DayReport()
        ready = self._ready(day, only, entries, report)
        fingerprints, violations = {}, {}
        if ready.expected:  # all files are read before any is ingested
            fingerprints = {file.name: self._fingerprint(file) for file in ready.files}
            violations = pending_files.manifest_violations(self._settings, self._contract, ready, fingerprints)
        for file in ready.files:
            fingerprint = fingerprints.get(file.name) or self._fingerprint(file)
            same_content = None if violations else ingestions.ingested(entries).get(fingerprint.ingestion_id)
            if fingerprint.bytes != file.size:
                report.waiting.append(
                    f"{file.name} is being written: it has {fingerprint.bytes} bytes, and had {file.size} just before"
                )
                continue
            if violations and file.name not in violations:
                report.waiting.append(f"{file.name} waits, because another file of {day} differs from its manifest")
                continue
            if same_content:
                message = f"the same content came as {same_content.source_file}"
                entry = self._entry(file, fingerprint, "redelivered", message=message)
                report.redelivered.append(entry)
            elif problem := violations.get(file.name) or fingerprint.problem or self._schema_problem():
                entry = self._entry(file, fingerprint, "held", message=f"{file.name}: {problem}")
                report.held.append(entry)
            else:
                entry = self._ingest(file, fingerprint)
                report.ingested.append(entry)
            ingestions.record(self._settings, entry)
            entries.append(entry)
        return report

    def _fingerprint(self, file: LandingFile) -> Fingerprint:
        return bronze_landing.fingerprint(self._settings, self._contract, file)

    def _ready(self, day: date, only: Mapping[str, str] | None, entries: list[Ingestion], report: DayReport) -> Readiness:
        """The day's files that may be ingested; the report records why others may not."""
        listing = bronze_landing.listing(self._settings, self._contract)
        unseen = [file for file in pending_files.unseen_files(listing.files, entries) if file.arrival_date == day]
        files = [file for file in unseen if only is None or only.get(file.name) == file.state]
        report.waiting.extend(f"{file.name} is left until it is stable" for file in unseen if file not in files)
        markers = listing.completion_markers.get(day, [])
        ready = pending_files.check_readiness(self._settings, self._contract, day, files, markers, entries)
        report.waiting.extend(ready.waiting)
        return ready

    def _ingest(self, file: LandingFile, fingerprint: Fingerprint) -> Ingestion:
        delivery = Delivery(file.name, fingerprint.ingestion_id, file.arrival_date, self._settings.clock())
        if not self._in_bronze(fingerprint):
            frame = bronze_table.delivery_frame(self._session(), self._settings, self._contract, delivery, file)
            why = {"run_id": self._run_id, "source_file": file.name, "ingestion_id": fingerprint.ingestion_id}
            with sized_for(self._session(), self._settings, many=bronze_table.is_large(file)):
                bronze_table.append(frame, self._settings, self._source, fingerprint.content_hash, why)
        where: Where = {"arrival_date": [file.arrival_date], "ingestion_id": [fingerprint.ingestion_id]}
        rows = row_rules.judged(self._settings, self._contract, self._session, where)
        key_log.append(self._settings, self._source, fingerprint.ingestion_id, key_log.claims(rows))
        # Read back: a stopped run may have judged the rows already, under another contract.
        admitted = claims.admitted_by_contract(key_log.of_ingestion(self._settings, self._source, fingerprint.ingestion_id))
        rows_by_day = {day: count for day, count in claims.rows_by_event_day(admitted).items() if day is not None}
        malformed = pc.sum(pc.is_valid(rows["malformed_reason"])).as_py() or 0
        account_tables.after_ingestion(self._settings, self._contract, delivery, malformed)
        keys = pc.unique(admitted["record_key"])
        touched = sorted(claims.affected_event_days(self._settings, self._contract, set(rows_by_day), keys))
        return self._entry(
            file,
            fingerprint,
            "ingested",
            rows=len(rows),
            malformed=malformed,
            touched_days=touched,
            touched_rows=[rows_by_day.get(day, 0) for day in touched],
        )

    def _schema_problem(self) -> str | None:
        """Why Bronze cannot take rows of the contract as it is now; columns that are new in it are added."""
        columns = bronze_columns(self._contract)
        try:
            spark_commits.add_missing_columns(
                self._session, self._settings, locations.bronze(self._settings, self._source), columns
            )
        except spark_commits.SchemaChangeError as problem:
            return str(problem)
        return None

    def _in_bronze(self, fingerprint: Fingerprint) -> bool:
        """Whether a run that was killed had already committed the content to Bronze."""
        table = table_io.open_table(locations.bronze(self._settings, self._source), self._options)
        return (
            table is not None
            and table.transaction_version(bronze_table.app_id(self._source, fingerprint.content_hash)) is not None
        )

    def _entry(self, file: LandingFile, fingerprint: Fingerprint, status: str, **more: object) -> Ingestion:
        return Ingestion(
            source=self._source,
            ingestion_id=fingerprint.ingestion_id,
            content_hash=fingerprint.content_hash,
            arrival_date=file.arrival_date,
            source_file=file.name,
            bytes=file.size,
            modified=file.modified,
            status=status,  # type: ignore[arg-type]
            run_id=self._run_id,
            recorded_at=self._settings.clock(),
            **more,  # type: ignore[arg-type]
        )
