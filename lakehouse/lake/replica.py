"""Tables in an object store, which delta-rs uses through a replica of their log on this machine.

In a store, delta-rs lists a log and reads each of its entries twice to open a table, and lists and reads again what it has just
committed. Here it works on a folder of this machine that holds the log and no rows: to open a table, or to look for commits, is
one listing. A commit is made there first, and then *published*: one request for each new file, and at last one for the entry of
the log, on the condition that the version is free. Of two writers one wins, as with delta-rs itself; the other one follows it if
both only append, and fails otherwise. What was not published is taken back.

Where an operation reads rows of the table, few files are brought to this machine first (:func:`bring`). All other operations are
delta-rs's own, in the store.

Each listing shows the ETag of the newest entry that is known: a table that was restored from a copy, or created again, is opened
anew.

The files of the store and of this machine are in ``table_folder``. When a table is looked at is decided in ``table_cache``, and
which rows are read in ``table_io``.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from obstore.exceptions import BaseError

from lakehouse.lake.delta_rs_internals import StatedMerge, few_or_stream, raw_of, raw_table, table_of
from lakehouse.lake.table_folder import (
    CHECKPOINT,
    ENTRY,
    FAR,
    LAST_CHECKPOINT,
    KeptLog,
    Proof,
    TableFolder,
    UnknownFormError,
    checkpoint_name,
    commute,
    entry_name,
    files_of_feed,
    in_log,
    is_proved,
    log_as_it_is,
    log_of,
    new_files,
    new_work_folder,
    remove_work_folder,
    signed,
    stated,
    versions_of,
)
from lakehouse.object_store import has_conditional_writes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

#: Rows of so many bytes are written to this machine before they are published, and brought here for an operation.
_FEW_BYTES = 2**25
#: Of the data files of a table, so many bytes stay on this machine.
_HELD_BYTES = 2**27
_AT_ONCE, _ATTEMPTS, _NOTED_SECONDS = 16, 15, 3600.0
#: What a table says of itself from its log alone.
_OF_LOG = {
    *("version", "schema", "metadata", "protocol_versions", "table_config", "transaction_version", "get_add_actions"),
    *("get_active_partitions", "get_add_file_sizes", "dataset_partitions", "get_num_index_cols", "get_stats_columns"),
}
#: Operations that change the log alone.
_ON_LOG = {"set_table_properties", "add_columns"}
#: The message of delta-rs for a missing file; it has no exception class for that.
_GONE = re.compile("not found|no such file", re.IGNORECASE)


#: The tables that delta-rs opens itself, and until when this is taken for granted: a store may answer again.
_opened_by_delta_rs: dict[str, float] = {}
_AGAIN_SECONDS = 300.0


def is_possible(address: str, options: Mapping[str, str]) -> bool:
    """Whether a table may be opened through a replica."""
    return has_conditional_writes(address, options) and time.monotonic() > _opened_by_delta_rs.get(address, 0)


def open_table(address: str, options: Mapping[str, str]) -> DeltaTable | None:
    """The table at its newest version; None if it does not exist.

    :raises UnknownFormError: if delta-rs has to open it itself.
    :raises DeltaError: if its log cannot be read.
    """
    try:
        return _opened(TableFolder(address, options))
    except (BaseError, FileNotFoundError, UnknownFormError) as problem:
        # delta-rs knows more kinds of credentials and of logs, and says what is wrong.
        _opened_by_delta_rs[address] = max(time.monotonic() + _AGAIN_SECONDS, _opened_by_delta_rs.get(address, 0))
        raise UnknownFormError(f"{problem}") from None


def create(address: str, options: Mapping[str, str], **how: Any) -> DeltaTable | None:
    """Create a table without rows; None if there is one.

    :param how: as for ``DeltaTable.create``.
    :raises UnknownFormError: if delta-rs has to create it itself.
    """
    work = new_work_folder()
    try:
        folder = TableFolder(address, options)
        if folder.log(0):  # a log that was shortened has no first entry
            remove_work_folder(work, os.getpid())
            return None
        DeltaTable.create(work.as_uri(), mode="error", **how)
        entry = log_of(work) / entry_name(0)
        text = entry.read_text(encoding="utf-8").replace(json.dumps(f"{work.as_uri()}/"), json.dumps(address))
        entry.write_text(text, encoding="utf-8")
        tag = folder.put_new(in_log(entry_name(0)), text.encode())
    except (BaseError, OSError) as problem:
        remove_work_folder(work, os.getpid())
        raise UnknownFormError(f"{problem}") from None
    if tag is None:
        remove_work_folder(work, os.getpid())
        return None
    kept = KeptLog(folder).begun_again()
    kept.add(entry_name(0), text.encode())
    kept.note([(0, tag)])
    return _table(_Replica(folder, kept, work, [(0, tag)]))


def bring(table: DeltaTable, sizes: Mapping[str, int]) -> None:
    """Bring files of a table to this machine if they are few: the next operation reads no other files of the table.

    :param sizes: the bytes of the files, by their path in the log. Without effect for a table that has no replica.
    """
    raw = raw_of(table)
    if isinstance(raw, _Replica) and sum(sizes.values()) <= _FEW_BYTES:
        raw.bring(sizes)


def copied(table: DeltaTable) -> DeltaTable:
    """The same version of a table with a replica, as an object of its own; without a request."""
    raw: _Replica = raw_of(table)
    return _table(raw.copied())


def _table(raw: _Replica) -> DeltaTable:
    return table_of(raw, raw.folder.options)


def _opened(folder: TableFolder) -> DeltaTable | None:
    log = log_as_it_is(folder)
    if log is None:
        return None
    work = new_work_folder()
    try:
        for name, content in log.files.items():
            (log_of(work) / name).write_bytes(content)
        raw = _Replica(folder, log.kept, work, [log.newest])
    except BaseException:
        remove_work_folder(work, os.getpid())
        raise
    log.kept.note(raw.proofs)
    return _table(raw)


class _Replica:
    """What ``DeltaTable`` uses instead of its own connection to the store.

    :param work: the folder of this machine on which delta-rs works; it goes with this object.
    :param proofs: the newest entry of the last listing, and those that were published since.
    """

    is_replica = True

    def __init__(self, folder: TableFolder, kept: KeptLog, work: Path, proofs: Sequence[Proof]) -> None:
        self.folder, self.proofs = folder, [*proofs]
        self._kept, self._work, self._noted = kept, work, time.monotonic()
        self._local = raw_table(work.as_uri())
        self._listed: dict[str, str] | None = None
        #: The version of which all files that the next operation reads are here.
        self._brought = -1
        self._finalizer = weakref.finalize(self, remove_work_folder, work, os.getpid())
        self._check_form(UnknownFormError)

    def _check_form(self, error: type[Exception]) -> None:
        if self._local.protocol_versions()[0] > 1:
            _opened_by_delta_rs[self.folder.address] = math.inf
            msg = f"{self.folder.address} has features for which it has to be opened again"
            raise error(msg)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _OF_LOG:
            return getattr(self._local, name)
        return partial(self._changed_here if name in _ON_LOG else self._done_by_delta_rs, name)

    def table_uri(self) -> str:
        """The address of the table in its store."""
        return self.folder.address

    def _done_by_delta_rs(self, name: str, /, *args: Any, **named: Any) -> Any:
        native = self._native()
        result = getattr(native, name)(*args, **named)
        self._follow(native.version())
        return result

    def _native(self) -> Any:
        return raw_table(self.folder.address, self._local.version(), self.folder.options)

    def load_version(self, version: int) -> None:
        """Go to another version of the table, for reads alone."""
        self._local = raw_table(self.folder.address, version, self.folder.options)

    def copied(self) -> _Replica:
        """The same version with a folder of its own.

        :raises OSError: if somebody has removed the folder of this one.
        """
        work = new_work_folder()
        try:
            shutil.copytree(log_of(self._work), log_of(work), dirs_exist_ok=True)
            return _Replica(self.folder, self._kept, work, self.proofs)
        except BaseException:
            remove_work_folder(work, os.getpid())
            raise

    # Looks for commits

    def look(self) -> Callable[[], dict[str, str]]:
        """What lists the log, for :meth:`get_latest_version`; it may be called in another thread."""
        return partial(stated, partial(self.folder.log, self.proofs[0][0]))

    def get_latest_version(self, names: dict[str, str] | None = None) -> int:
        """The newest version in the log; ``names`` is a :meth:`look` after which nothing was committed with this object."""
        self._listed = self._list(names=names)
        return versions_of(ENTRY, self._listed)[-1]

    def update_incremental(self) -> None:
        """Bring the table to its newest version."""
        listed = self._listed
        is_newer = listed is not None and versions_of(ENTRY, listed)[-1] > self._local.version()
        self._pull(listed if listed is not None and is_newer else self._list(), None)

    def _follow(self, version: int) -> None:
        if version > self._local.version():
            self._pull(self._list(), version)

    def _list(self, error: type[DeltaError] = DeltaError, names: dict[str, str] | None = None) -> dict[str, str]:
        """The files of the log from the last listing's newest entry on.

        :raises DeltaError: if the table is not the one that was opened, or somebody has removed its folder of this machine.
        """
        names = self.look()() if names is None else names
        if not is_proved(self.proofs, names) or not log_of(self._work).exists():
            msg = f"{self.folder.address}: another table, or an earlier state of it, has taken its place"
            raise error(msg)
        self.proofs = self.proofs[-1:]
        if time.monotonic() - self._noted > _NOTED_SECONDS:
            self._note(self.proofs)
        return names

    def _pull(self, names: Mapping[str, str], last: int | None) -> None:
        self._listed = None
        version = self._local.version()
        new = [one for one in versions_of(ENTRY, names) if version < one <= (one if last is None else last)]
        if not new:
            return
        self._take_over(new)
        self._local.update_incremental()
        self._check_form(DeltaError)
        self._note([(new[-1], names[entry_name(new[-1])])])

    def _take_over(self, versions: Collection[int]) -> dict[int, bytes]:
        """Bring entries of the log to this machine."""
        names = [entry_name(version) for version in versions]
        contents = stated(lambda: self.folder.read(map(in_log, names)))
        for name, content in zip(names, contents):
            (log_of(self._work) / name).write_bytes(content)
            self._kept.add(name, content)
        return dict(zip(versions, contents))

    def _note(self, proofs: Sequence[Proof]) -> None:
        self.proofs, self._noted = [*proofs], time.monotonic()
        self._kept.note(self.proofs)

    def entry(self, version: int) -> bytes:
        """The entry of a version.

        :raises FileNotFoundError: if the log has none.
        """
        name = entry_name(version)
        with suppress(FileNotFoundError):
            return (log_of(self._work) / name).read_bytes()
        kept = self._kept.file(name)
        return self._take_over([version])[version] if kept is None else kept

    # Operations

    def bring(self, sizes: Mapping[str, int]) -> None:
        """See :func:`bring`."""
        self._fetch(sizes)
        self._brought = self._local.version()

    def _fetch(self, paths: Iterable[str]) -> None:
        self._drop_rows()
        missing = [path for path in map(unquote, paths) if not (self._work / path).exists()]
        for path, content in zip(missing, self.folder.read_small(missing)):
            (self._work / path).parent.mkdir(parents=True, exist_ok=True)
            (self._work / path).write_bytes(content)

    def write(self, *, data: Any, mode: str, commit_properties: Any = None, **how: Any) -> None:
        """Write rows in one commit: here if they are few, and the operation reads no others; else by delta-rs in the store."""
        how |= {"mode": mode, "commit_properties": commit_properties}
        few, data = few_or_stream(data, _FEW_BYTES)
        if few is None or not (mode == "append" or self._is_brought()):
            self._done_by_delta_rs("write", data=data, **how)
            return
        may_follow = mode == "append" and getattr(commit_properties, "max_commit_retries", None) != 0

        def write(raw: Any) -> None:
            raw.write(data=few.to_reader(), **how)

        self._done_near(write, may_follow=may_follow)

    def delete(self, *args: Any) -> Any:
        """Delete rows."""
        if not self._is_brought():
            return self._done_by_delta_rs("delete", *args)
        return self._done_near(lambda raw: raw.delete(*args), may_follow=False)

    def create_merge_builder(self, *, source: Any, **how: Any) -> StatedMerge:
        """Begin a merge."""
        return StatedMerge(self._local, pa.table(source), how)

    def merge_execute(self, merging: StatedMerge) -> Any:
        """Execute a merge."""
        if not self._is_brought():
            native = self._native()
            result = merging.on(native)
            self._follow(native.version())
            return result
        return self._done_near(merging.on, may_follow=False)

    def create_write_transaction(self, *args: Any, **named: Any) -> None:
        """Commit files that are in the store."""
        self._changed_here("create_write_transaction", *args, **named)

    def load_cdf(self, **how: Any) -> Any:
        """The change feed of some versions, from files that are brought here if they are few."""
        first, last = how["starting_version"], how.get("ending_version")
        versions = range(first, min(self._local.version() if last is None else last, self._local.version()) + 1)
        try:
            sizes: dict[str, int] = {}
            for version in versions:
                sizes |= files_of_feed(self.entry(version))
            if sum(sizes.values()) <= _FEW_BYTES:
                self._fetch(sizes)
                return self._local.load_cdf(**how)
        except (OSError, DeltaError):  # delta-rs says what is wrong
            pass
        return self._native().load_cdf(**how)

    def _is_brought(self) -> bool:
        brought, self._brought = self._brought, -1
        return brought == self._local.version()

    def _done_near(self, do: Callable[[Any], Any], *, may_follow: bool) -> Any:
        """Do what reads files that were brought here; if others are missing, in the store."""
        before = self._local.version()
        try:
            result = do(self._local)
        except BaseException as problem:
            self._take_back(before)  # delta-rs may have failed behind its commit
            if not isinstance(problem, (OSError, DeltaError, ValueError)) or not _GONE.search(f"{problem}"):
                raise
            native = self._native()
            result = do(native)
            self._follow(native.version())
            return result
        self._publish(before, may_follow=may_follow)
        return result

    def _changed_here(self, name: str, /, *args: Any, **named: Any) -> Any:
        before = self._local.version()
        try:
            result = getattr(self._local, name)(*args, **named)
        except BaseException:
            self._take_back(before)
            raise
        self._publish(before, may_follow=False)
        return result

    # Publication

    def _publish(self, before: int, *, may_follow: bool) -> None:
        """Publish what was committed here since a version, or take it back.

        :raises CommitFailedError: if another writer has committed.
        :raises OSError: if the store does not answer. As with any lost answer, the commit may have been published.
        """
        try:
            if self._local.version() == before:
                self._local.update_incremental()
            version = self._local.version()
            if version == before:
                return
            if version != before + 1:
                msg = f"{self.folder.address}: {version - before} commits at once"
                raise CommitFailedError(msg)  # noqa: TRY301 (it is taken back below)
            self._listed = None
            path = log_of(self._work) / entry_name(version)
            path.write_bytes(entry := signed(path.read_bytes()))
            self._upload(new_files(entry))
            published, tag = self._entry_published(before, entry, may_follow=may_follow)
        except BaseException as problem:
            self._take_back(before)
            if isinstance(problem, BaseError):
                msg = f"{self.folder.address}: {problem}"
                raise OSError(msg) from None
            raise
        if published != version:
            self._local = raw_table(self._work.as_uri())
        self._kept.add(entry_name(published), entry)
        self._note([*self.proofs, (published, tag)])
        self._publish_checkpoint(published)
        self._drop_rows()

    def _upload(self, paths: Iterable[str]) -> None:
        """Write the data files of an entry that are on this machine to the store; others are there already."""
        here = [path for path in map(unquote, paths) if (self._work / path).exists()]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda path: self.folder.put(path, (self._work / path).read_bytes()), here))

    def _entry_published(self, before: int, entry: bytes, *, may_follow: bool) -> tuple[int, str]:
        """Publish an entry at the next version, or behind appends of others; returns its version and its ETag."""
        version = before + 1
        for _ in range(_ATTEMPTS):
            tag = self.folder.put_new(in_log(entry_name(version)), entry)
            if tag is not None:
                return version, tag
            names = self._list(CommitFailedError)
            newer = [one for one in versions_of(ENTRY, names) if one >= version]
            if version in newer and self.folder.read([in_log(entry_name(version))]) == [entry]:
                return version, names[entry_name(version)]  # the answer to the request that had written it was lost
            for name in (entry_name(version), checkpoint_name(version), LAST_CHECKPOINT):
                (log_of(self._work) / name).unlink(missing_ok=True)
            others = self._take_over(newer)
            if not newer or not may_follow or not all(commute(entry, other) for other in others.values()):
                break
            version = newer[-1] + 1
            (log_of(self._work) / entry_name(version)).write_bytes(entry)
        msg = f"{self.folder.address}: another writer has committed version {version} since version {before} was read"
        raise CommitFailedError(msg)

    def _publish_checkpoint(self, version: int) -> None:
        """Publish the checkpoint that delta-rs has made after a commit. Without it, readers read more entries.

        It has the whole state of the table, so a listing has to show before that the table is still the one that was opened.
        """
        log = log_of(self._work)
        name, last = checkpoint_name(version), log / LAST_CHECKPOINT
        if (log / name).exists():
            with suppress(OSError, DeltaError, BaseError):
                self._list()
                self._kept.add(name, content := (log / name).read_bytes())
                self.folder.put(in_log(name), content)
                self.folder.put(in_log(LAST_CHECKPOINT), last.read_bytes())
                if DeltaTable.metadata(_table(self)).configuration.get("delta.enableExpiredLogCleanup", "true") != "false":
                    self._native().cleanup_metadata()  # delta-rs does it after a checkpoint, too
            for path in log.iterdir():  # what is before the last checkpoint but one
                if path.name[:20].isdigit() and int(path.name[:20]) < version - FAR:
                    path.unlink()
        last.unlink(missing_ok=True)

    def _take_back(self, before: int) -> None:
        """Forget what was committed here after a version, and was not published."""
        with suppress(OSError, DeltaError):  # else the next look opens the table again
            for path in log_of(self._work).iterdir():
                match = ENTRY.fullmatch(path.name) or CHECKPOINT.fullmatch(path.name)
                if path.name == LAST_CHECKPOINT or (match is not None and int(match[1]) > before):
                    path.unlink()
            self._local = raw_table(self._work.as_uri())

    def _drop_rows(self) -> None:
        """Remove the data files that are on this machine if they are many."""
        files = [path for path in self._work.rglob("*") if path.is_file() and log_of(self._work) not in path.parents]
        if sum(path.stat().st_size for path in files) > _HELD_BYTES:
            for path in files:
                path.unlink()
