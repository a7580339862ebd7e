"""Table maintenance: compaction of small files, checkpoints, and deletion of files and log entries that are no longer needed.

``retention`` determines what is still to be read, and what may be deleted. No step depends on the previous one, and none changes
the rows of a table, except for redacted values in the audit (``silver.audit``): if a run is stopped, the next run does the rest.
No published number is lost: older revisions are rows, and can be recomputed from Bronze (rule R10).

delta-rs lists the unused files, by their age and the table's tombstones, and this module deletes them: VACUUM of delta-rs would
commit twice per night, even without files to delete, and would delete the checksums of remaining files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse import locations, object_store
from lakehouse.delta import layout, leases
from lakehouse.delta.data_files import COMPRESSED, Storage
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_parts
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.ledger import key_log
from lakehouse.operations import retention
from lakehouse.operations.retention import Crowd
from lakehouse.silver import audit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta

    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.locations import LakeTable
    from lakehouse.operations.retention import ReaderNeeds

_TARGET_BYTES = 128 * 2**20
_SMALL_FILES = 8
_CHECKPOINT_AFTER_COMMITS = 20
_ATTEMPTS = 3
#: The layers with tables that Spark writes.
_OF_SPARK = ("bronze", "silver")
#: Checkpoints and logs are maintained here, after checks that guard them, and not as a side effect of a commit.
_NOTHING_ELSE = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_WHY = CommitProperties(custom_metadata={"userMetadata": json.dumps({"maintenance": "compaction"})})
_REMEMBERED, _LOG_KEPT = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_DEFAULTS = {_REMEMBERED: "interval 7 days", _LOG_KEPT: "interval 30 days"}


class MaintenanceError(LakehouseError):
    """Maintenance that must not be done as requested. The message states the reason and the remedy."""


@dataclass(frozen=True)
class Upkeep:
    """The work done on a table, or the work that a dry run would do.

    ``files_before`` and ``files_after`` count the files of the table, ``files_deleted`` unused ones. ``converted`` tells whether
    its days share files from now on. ``kept`` has sentences about files and log entries left unchanged, ``problem`` the reason of
    a failure.
    """

    table: str
    files_before: int
    files_after: int
    partitions_compacted: int = 0
    checkpointed: bool = False
    log_files_deleted: int = 0
    files_deleted: int = 0
    bytes_freed: int = 0
    kept: tuple[str, ...] = ()
    problem: str | None = None
    converted: bool = False


def maintain(
    lake: Lake,
    catalog: Catalog,
    only: Sequence[str] = (),
    *,
    convert: bool = False,
    retention_hours: int | None = None,
    dry_run: bool = False,
) -> Iterator[Upkeep]:
    """Maintain the existing tables one after another; a failure on one table does not affect the others.

    :param only: names such as ``silver/sales``; all tables by default.
    :param convert: let the days of tables of earlier releases share files, see :func:`lakehouse.delta.layout.convert`.
    :param retention_hours: the hours for which unused files stay; by default from the settings.
    :param dry_run: only report the work that would be done; numbers of files are then estimates.
    :raises MaintenanceError: if no contract describes a table, the retention is below the minimum of the settings, or these keep
        new tables from sharing files.
    """
    if convert and not lake.settings.file_bytes:
        msg = "LAKEHOUSE_FILE_BYTES is 0: each day has a partition of its own; set the size of the files that days shall share"
        raise MaintenanceError(msg)
    hours = lake.settings.retention_hours if retention_hours is None else retention_hours
    if hours < lake.settings.retention_hours:
        msg = (
            f"{hours} hours are less than the {lake.settings.retention_hours} for which readers and writers may use files; "
            "set LAKEHOUSE_RETENTION_HOURS to less if all of them finish sooner"
        )
        raise MaintenanceError(msg)
    by_name = {f"{table}": table for table in locations.every_table(catalog)}
    if unknown := [name for name in only if name not in by_name]:
        msg = f"no contract describes {', '.join(unknown)}; known are {', '.join(by_name)}"
        raise MaintenanceError(msg)
    works = (_Work(lake, catalog, by_name[name], hours, convert=convert, dry_run=dry_run) for name in only or by_name)
    return _maintained(lake, works)


def _maintained(lake: Lake, works: Iterable[_Work]) -> Iterator[Upkeep]:
    for work in works:
        lake_table = work.lake_table
        before = 0
        try:
            table = lake_table.of(lake).snapshot()
            if table is None:
                continue
            before = len(listed_files(table))
            yield work.done(table)
        except (DeltaError, OSError, ValueError, pa.ArrowException, LakehouseError) as problem:
            yield Upkeep(f"{lake_table}", before, before, problem=f"{problem}")


class _Work:
    """The work on a table. Its clock is the system clock, which also dates the files."""

    def __init__(self, lake: Lake, catalog: Catalog, lake_table: LakeTable, hours: int, *, convert: bool, dry_run: bool) -> None:
        self._lake, self._catalog, self.lake_table, self._hours = lake, catalog, lake_table, hours
        self._convert, self._dry_run = convert, dry_run
        self._stored = lake_table.of(lake)
        self._now = datetime.now(timezone.utc)
        self._kept: list[str] = []

    def done(self, table: DeltaTable) -> Upkeep:
        before = len(listed_files(table))
        if self.lake_table.silver_of is not None and not self._dry_run:
            retention.bring_audit_up_to_date(self._lake, self._catalog, self.lake_table.silver_of, table)
        if self._is_audit and not self._dry_run:
            audit.erase_all(self._lake)
            table = self._opened()
        converted = self._converted(table)
        if self._convert and not self._dry_run:
            table = self._opened()  # another process may have converted it
        crowds = {} if converted else self._compact(table)
        table = self._opened()
        checkpointed = self._checkpoint(table, at_least=0 if converted else _CHECKPOINT_AFTER_COMMITS)
        log_files = self._clean_log(table)
        deleted = self._vacuum(table)
        file_bytes = self._lake.settings.file_bytes
        if converted and self._dry_run and before:
            crowds = {None: Crowd(before, sum(map(sum, _file_sizes(table).values())))}
        target = file_bytes if converted or table_parts.share_files(table) else _TARGET_BYTES
        saved = sum(crowd.files - crowd.files_after(target) for crowd in crowds.values())
        return Upkeep(
            table=f"{self.lake_table}",
            files_before=before,
            files_after=before - saved if self._dry_run else len(listed_files(table)),
            converted=converted,
            partitions_compacted=0 if converted else len(crowds),
            checkpointed=checkpointed,
            log_files_deleted=log_files,
            files_deleted=len(deleted),
            bytes_freed=sum(deleted.values()),
            kept=tuple(dict.fromkeys(self._kept)),
        )

    def _converted(self, table: DeltaTable) -> bool:
        """Let the days of a table of an earlier release share files; returns whether they do from now on, or would."""
        column = self.lake_table.days
        if not self._convert or column is None or not layout.is_of_earlier_form(self._lake, table, column):
            return False
        if not object_store.can_write_new(self._stored.address):
            self._kept.append("its days keep a partition each: in such a store no log entry can be written for sure")
            return False
        if self._is_half_recorded(table):
            return False
        if self._dry_run or any(layout.convert(self._lake, self._stored, column) for _ in range(_ATTEMPTS)):
            return True
        if table_parts.share_files(self._opened()):
            return True  # another process has converted it
        self._kept.append("another process was writing to it: its days share files the next time")
        return False

    def _is_half_recorded(self, table: DeltaTable) -> bool:
        contract = self.lake_table.silver_of
        if contract is None or not retention.is_half_recorded(self._lake, contract.dataset, table):
            return False
        self._kept.append(f"a run of silver/{contract.dataset} is active, or was stopped: compacted when it has ended")
        return True

    def _compact(self, table: DeltaTable) -> dict[Any, Crowd]:
        """Compact the small files of crowded partitions, in a commit that changes no row.

        :returns: the compacted partitions.
        """
        if table_parts.share_files(table):
            return self._laid_out(table)
        crowds = retention.crowded(_file_sizes(table), _TARGET_BYTES, _SMALL_FILES)
        if crowds and self._is_half_recorded(table):
            return {}
        if old := self._storage.with_int96(table, crowds):
            crowds = {partition: crowd for partition, crowd in crowds.items() if partition not in old}
            self._kept.append(
                f"{len(old)} crowded partitions have times as INT96, which delta-rs would change: use Spark's OPTIMIZE"
            )
        if not crowds or self._dry_run:
            return crowds
        with leases.held(self._stored, leases.COMPACTION) as is_ours:
            if not is_ours:
                self._kept.append("another process is compacting it")
                return {}
            try:
                self._compacted(list(crowds))
            except CommitFailedError:
                self._kept.append("another process was writing to it: compacted the next time")
                return {}
        return crowds

    def _laid_out(self, table: DeltaTable) -> dict[Any, Crowd]:
        """Bring the files of a table whose days share files into shape; returns those that were replaced, under one key."""
        wanted = layout.out_of_shape(self._lake, table)
        if not wanted:
            return {}
        if not self._dry_run and not layout.keep(
            self._lake, self._stored, alone=self.lake_table.layer in _OF_SPARK, at_once=True
        ):
            self._kept.append("another process was writing to it: laid out the next time")
            return {}
        return {None: Crowd(len(wanted.old), sum(file.size for file in wanted.old))}

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=5),
        reraise=True,
    )
    def _compacted(self, partitions: Sequence[Any]) -> None:
        table = self._opened()
        filters = [(column, "in", [f"{partition}" for partition in partitions]) for column in table.metadata().partition_columns]
        more: dict[str, Any] = {"commit_properties": _WHY, "post_commithook_properties": _NOTHING_ELSE}
        if self.lake_table.sorted_by is None:
            table.optimize.compact(filters or None, _TARGET_BYTES, writer_properties=COMPRESSED, **more)
        else:
            table.optimize.z_order([self.lake_table.sorted_by], None, _TARGET_BYTES, writer_properties=key_log.LAYOUT, **more)
        self._stored.committed()

    def _checkpoint(self, table: DeltaTable, at_least: int) -> bool:
        """Write a checkpoint if opening the table would read more commits than these."""
        newest = max((entry.version for entry in self._storage.log if entry.is_checkpoint), default=-1)
        wanted = int(table.version()) - newest > at_least
        if wanted and not self._dry_run:
            table.create_checkpoint()
        return wanted

    def _clean_log(self, table: DeltaTable) -> int:
        """Delete commits that are older than the log's retention and contained in a checkpoint.

        :returns: the number of deleted commits.
        """
        kept = _interval(table, _LOG_KEPT)
        old = [entry for entry in self._storage.log if self._now - entry.written > kept]
        through = max((entry.version for entry in old if entry.is_checkpoint), default=-1)
        going = [entry for entry in old if entry.version < through]
        why_not = retention.why_log_stays(self._now, kept, self._needs(table).log) if going else None
        if why_not is not None:
            self._kept.append(why_not)
            return 0
        if going and not self._dry_run:
            retention.copy_log(self._lake, self.lake_table)
            table.cleanup_metadata()
        return len(going)

    def _vacuum(self, table: DeltaTable) -> dict[str, int]:
        """Delete files that are neither in the table nor in a version that may still be read.

        :returns: the deleted files, with their sizes in bytes.
        """
        needs = self._needs(table).files
        files_stay = retention.retention(self._now, self._hours, needs, _interval(table, _REMEMBERED))
        storage = Storage(self._stored.address, self._stored.options)
        unused = storage.with_checksums(_unused(table, 0))
        going = [] if files_stay.hours is None else storage.with_checksums(_unused(table, files_stay.hours))
        erased = audit.hours_since(table) if self._is_audit else None
        if erased is not None and erased < self._hours:  # files of active writers are not among those that left the table
            left: list[str] = table.vacuum(erased, dry_run=True, enforce_retention_duration=False)
            going = [*dict.fromkeys([*going, *storage.with_checksums(left)])]
        if staying := len(unused) - len(going):
            reason = files_stay.reason or f"for active readers and writers ({files_stay.hours} h)"
            self._kept.append(f"{staying} unused {'file stays' if staying == 1 else 'files stay'}: {reason}")
        if not self._dry_run:
            storage.delete(going)
        return {path: storage.sizes[path] for path in going}

    @property
    def _is_audit(self) -> bool:
        return self._stored == locations.audit_log(self._lake)

    @cached_property
    def _storage(self) -> Storage:
        return Storage(self._stored.address, self._stored.options)

    def _needs(self, table: DeltaTable) -> ReaderNeeds:
        return retention.needs(self._lake, self._catalog, self.lake_table, table)

    def _opened(self) -> DeltaTable:
        table = self._stored.snapshot()
        assert table is not None  # noqa: S101 (it existed when the work began)
        return table


def _file_sizes(table: DeltaTable) -> dict[Any, list[int]]:
    """The bytes of each file, by partition; a table without partitions counts as one partition."""
    files = listed_files(table)
    columns = table.metadata().partition_columns
    partitions = files[f"partition.{columns[0]}"].to_pylist() if columns else [None] * len(files)
    sizes: dict[Any, list[int]] = defaultdict(list)
    for partition, size in zip(partitions, files["size_bytes"].to_pylist()):
        sizes[partition].append(size)
    return sizes


def _unused(table: DeltaTable, hours: int) -> list[str]:
    """The files that have not been part of the table for at least ``hours`` hours."""
    files: list[str] = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
    return files


def _interval(table: DeltaTable, name: str) -> timedelta:
    return retention.interval(table.metadata().configuration.get(name, _DEFAULTS[name]))
