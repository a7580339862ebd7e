"""Stores many of Dagster's events in one transaction of SQLite, or through a connection to Postgres that is kept.

Dagster's storage opens two or three connections for each event and commits each separately, which takes 8 to 19 ms per event:
minutes for a first load over 700 event days. ``dagster.yaml`` names :class:`SqliteStorage`; files and tables are those of
Dagster's storage, so either can read the other's data. Commands without DAGSTER_HOME use :class:`MemoryEvents`. The storage of
another instance learns it in the process that logs many events, see :func:`log_all`. ``run_events`` has the events of a run.

A command that runs for two seconds also notices what Dagster does to open its storage: it loads all migrations of each database
to see whether the database has a version, and compiles each statement again for each connection. Here, a database that has a
version is opened as it is, and the statements stay compiled.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import dagster as dg
import sqlalchemy
from sqlalchemy.pool import NullPool

from lakehouse.orchestration import launcher
from lakehouse.orchestration.dagster_internals import (
    SQLITE_BUSY_TIMEOUT_SECONDS,
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionsTable,
    DagsterEventType,
    DagsterSqliteStorage,
    InMemoryEventLogStorage,
    SqlEventLogStorage,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
    create_db_conn_string,
    event_logs_directory,
    runs_directory,
    schedule_directory,
)
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakehouse.orchestration.dagster_internals import ConcurrencyClaimStatus

_Event = TypeVar("_Event")
#: With this variable, Dagster passes events in batches of at most this size.
_BATCH_SIZE_VARIABLE = "DAGSTER_EVENT_BATCH_SIZE"
#: The number of events in a transaction: other writers of the same file wait for it, a few tenths of a second.
BATCH_SIZE = 500
_SECONDS_BETWEEN_LOOKS = 1.0
#: How many connections to a database server a process has at once at most, beside the one that it keeps.
_CONNECTIONS = 10


@lru_cache(maxsize=16)
def _engine(address: str) -> sqlalchemy.Engine:
    """The engine of a database, which opens a connection for each use as Dagster's engines do, but keeps compiled statements."""
    return sqlalchemy.create_engine(address, poolclass=NullPool, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})


def _has_version(file: Path, *tables: str) -> bool:
    """Whether a database has a version of Dagster's migrations, and ``tables``; not if it is locked or damaged.

    Dagster then opens it itself: it waits for the lock, or reports the damage.
    """
    if not file.is_file():
        return False
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as connection:
        known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {"alembic_version", *tables} <= known and bool(connection.execute("SELECT 1 FROM alembic_version").fetchone())
    return False


def _is_empty_run(file: Path) -> bool:
    """Whether a file is a sound file of a run without any event."""
    if not _has_version(file, "event_logs"):
        return False
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file)) as connection:
        sound = connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        return sound and not connection.execute("SELECT 1 FROM event_logs LIMIT 1").fetchone()
    return False


#: Made once: to make a statement takes longer than to execute it.
_INSERT_EVENT, _INSERT_CHECK = SqlEventLogStorageTable.insert(), AssetCheckExecutionsTable.insert()
_STATE_OF_CHECK = (
    *("execution_status", "evaluation_event", "evaluation_event_timestamp"),
    *("evaluation_event_storage_id", "materialization_event_storage_id"),
)
_OF_CHECK: dict[str, Any] = {
    name: sqlalchemy.bindparam(f"of_{name}") for name in ("asset_key", "check_name", "run_id", "partition")
}
_UPDATE_CHECK = (
    AssetCheckExecutionsTable.update()
    .where(*(AssetCheckExecutionsTable.c[name].is_not_distinct_from(value) for name, value in _OF_CHECK.items()))
    .values({name: sqlalchemy.bindparam(name) for name in _STATE_OF_CHECK})
)


class _ManyEvents(SqlEventLogStorage):
    """What a transaction of many events does for fewer: the newest event of each kind of an asset is recorded once, at its end,
    and evaluations of checks, of which each day has several, are stored by statements that are made once.
    """

    _open: threading.local
    #: Whether events of assets are also in a file for all runs.
    _has_index = False

    def store_event(self, event: Any) -> None:
        """Store an event; an evaluation of a check also where Dagster keeps the state of each check of a run."""
        is_evaluation = event.dagster_event_type is DagsterEventType.ASSET_CHECK_EVALUATION and bool(event.run_id)
        is_watched = bool(getattr(self, "_handlers", {}).get(event.run_id))
        if getattr(self._open, "newest", None) is None or not is_evaluation or is_watched:
            super().store_event(event)
            return
        row, evaluation = self._event_to_row(event), event.dagster_event.event_specific_data
        with self.run_connection(event.run_id) as connection:
            number = _number(connection.execute(_INSERT_EVENT, row))
        target, state = evaluation.target_materialization_data, AssetCheckExecutionRecordStatus
        of_check = {
            "asset_key": evaluation.asset_key.to_string(),
            "check_name": evaluation.check_name,
            "run_id": event.run_id,
            "partition": evaluation.partition,
        }
        with self.index_connection() as connection:
            if self._has_index:
                number = _number(connection.execute(_INSERT_EVENT, row))
            values = {
                "execution_status": (state.SUCCEEDED if evaluation.passed else state.FAILED).value,
                "evaluation_event": row["event"],
                "evaluation_event_timestamp": row["timestamp"],
                "evaluation_event_storage_id": number,
                "materialization_event_storage_id": None if target is None else target.storage_id,
            }
            where = {f"of_{name}": value for name, value in of_check.items()}
            updated = connection.execute(_UPDATE_CHECK, values | where).rowcount
            if not updated:  # it was not planned
                connection.execute(_INSERT_CHECK, of_check | values)
        if updated > 1:
            msg = f"{evaluation.asset_check_key} was planned {updated} times in a run"
            raise dg.DagsterInvariantViolationError(msg)

    def _store_asset_event(self, conn: Any, event: Any, event_id: int) -> None:
        newest = getattr(self._open, "newest", None)
        if newest is None:
            super()._store_asset_event(conn, event, event_id)
        else:
            newest[event.dagster_event.asset_key, event.dagster_event_type] = (event, event_id)

    def _store_newest(self) -> None:
        newest, self._open.newest = sorted(self._open.newest.values(), key=itemgetter(1)), None
        if newest:
            with self.index_connection() as connection:
                for event, event_id in newest:
                    super()._store_asset_event(connection, event, event_id)


def _number(inserted: Any) -> int:
    (number,) = inserted.inserted_primary_key
    return cast("int", number)


class MemoryEvents(_ManyEvents, InMemoryEventLogStorage):
    """Dagster's storage of events in memory, for commands without DAGSTER_HOME, with :meth:`one_transaction`.

    Dagster opens a connection for each event and several for each check, which is most of the time of a first load of many days.
    """

    _open: threading.local
    _tables: set[str]

    @classmethod
    def made_of(cls, storage: InMemoryEventLogStorage) -> None:
        """Make a storage of Dagster's own class one of this class."""
        made = cast("MemoryEvents", storage)
        made._db_lock = threading.RLock()  # type: ignore[assignment]  # noqa: SLF001
        made._open = threading.local()  # noqa: SLF001
        made._tables = set()  # noqa: SLF001
        storage.__class__ = cls

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Store the events of the context at its end, in one transaction; none of them in case of an error."""
        if getattr(self._open, "connection", None) is not None:
            yield
            return
        with super()._connect() as connection:
            self._open.connection, self._open.newest = connection, {}
            try:
                yield
                self._store_newest()
            finally:
                self._open.connection = self._open.newest = None

    def has_table(self, table_name: str) -> bool:
        """Whether a table exists; cached, see :meth:`SqliteEvents.has_table`."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        connection = getattr(self._open, "connection", None)
        if connection is not None:
            yield connection
            return
        with super()._connect() as connection:
            yield connection


def ephemeral_instance() -> dg.DagsterInstance:
    """An instance that ends with the process, with :class:`MemoryEvents`."""
    instance = dg.DagsterInstance.ephemeral()
    # Not a second storage in its place: the first one's connection would be closed by whichever thread collects garbage, which
    # SQLite refuses.
    MemoryEvents.made_of(instance._event_storage)  # type: ignore[arg-type]  # noqa: SLF001
    return instance


class SqliteEvents(_ManyEvents, SqliteEventLogStorage):
    """Dagster's SQLite storage of events with :meth:`one_transaction`."""

    _has_index = True
    #: Whether it was one of Dagster's class: others may use it who know nothing of this project's ways with dead runs.
    _is_made = False

    def __init__(self, base_dir: str) -> None:
        self._prepare(base_dir)  # first: Dagster connects while it creates the storage
        super().__init__(base_dir)
        # A transaction holds the lock while further connections are opened.
        self._db_lock = threading.RLock()  # type: ignore[assignment]
        os.environ.setdefault(_BATCH_SIZE_VARIABLE, f"{BATCH_SIZE}")

    def _prepare(self, base_dir: str) -> None:
        self._open = threading.local()
        self._tables: set[str] = set()
        self._empty_file = Path(base_dir).parent / f"empty_run_{dg.__version__}"
        self._empty: bytes | None = None
        self._waits: set[tuple[str, str]] = set()

    @classmethod
    def made_of(cls, storage: SqliteEventLogStorage) -> None:
        """Make a storage of Dagster's own class one of this class, for the rest of the process."""
        with storage._db_lock:  # noqa: SLF001
            cls._prepare(cast("SqliteEvents", storage), storage._base_dir)  # noqa: SLF001
            cast("SqliteEvents", storage)._is_made = True  # noqa: SLF001
            storage._db_lock = threading.RLock()  # type: ignore[assignment]  # noqa: SLF001
            storage.__class__ = cls

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Store the events of the context at its end, in one transaction for each file; none of them in case of an error."""
        if self._connections is not None:
            yield
            return
        with self._db_lock, ExitStack() as stack:
            self._open.connections, self._open.stack, self._open.newest = {}, stack, {}
            try:
                yield
                self._store_newest()
            finally:
                self._open.connections = self._open.newest = None

    def store_event_batch(self, events: Sequence[Any]) -> None:
        """Store events together; Dagster stores them individually if this fails."""
        with self.one_transaction():
            super().store_event_batch(events)

    def has_table(self, table_name: str) -> bool:
        """Whether a table exists; cached, because Dagster checks this with a separate connection for each check evaluation."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)  # tables are never dropped
        return table_name in self._tables

    def _initdb(self, engine: Any, for_index_shard: bool = False) -> None:  # noqa: FBT001, FBT002 (Dagster's)
        """Create a run's file as a copy of an empty one: Dagster would read its migrations and create the tables for each."""
        file = Path(engine.url.database)
        if for_index_shard:
            super()._initdb(engine, for_index_shard)
        elif file.exists():
            if not _has_version(file):
                super()._initdb(engine)
        elif not _created(file, self._empty_run()):
            super()._initdb(engine)

    def _empty_run(self) -> bytes:
        """The file of a run without events. Made once for each version of Dagster, apart from the files of runs, and kept."""
        if self._empty is None and _is_empty_run(self._empty_file):
            self._empty = self._empty_file.read_bytes()
        if self._empty is None:
            with tempfile.TemporaryDirectory(dir=self._empty_file.parent) as folder:
                draft = Path(folder, "run.db")
                engine = sqlalchemy.create_engine(f"sqlite:///{draft}", poolclass=NullPool)
                super()._initdb(engine)
                engine.dispose()
                self._empty = draft.read_bytes()
            self._empty_file.unlink(missing_ok=True)  # a damaged one
            _created(self._empty_file, self._empty)
        return self._empty

    def claim_concurrency_slot(
        self, concurrency_key: str, run_id: str, step_key: str, priority: int | None = None
    ) -> ConcurrencyClaimStatus:
        """Claim a slot in a pool; while another run has it, the answer is delayed by a second.

        Dagster repeats the claim without a pause. Slots of runs whose process is gone are freed first, see ``launcher``.
        """
        status = super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)
        if status.is_claimed:
            self._waits.discard((run_id, concurrency_key))
            return status
        pool = self.get_concurrency_info(concurrency_key)
        alive = launcher.give_up_dead_runs(self._instance, pool, run_id, anyhow=not self._is_made)
        if alive and (run_id, concurrency_key) not in self._waits:
            self._waits.add((run_id, concurrency_key))
            launcher.say_for_whom(concurrency_key, alive)
        if alive:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        blocked: ConcurrencyClaimStatus = status.with_sleep_interval(0.0)
        return blocked

    @property
    def _connections(self) -> dict[str, Any] | None:
        """The connections of this thread's transaction, by file."""
        return getattr(self._open, "connections", None)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Any]:
        connections = self._connections
        if connections is None:
            with self._opened(shard) as connection:
                yield connection
            return
        if shard not in connections:
            connections[shard] = self._open.stack.enter_context(self._opened(shard))
        yield connections[shard]

    @contextmanager
    def _opened(self, shard: str) -> Iterator[Any]:
        """A transaction of its own."""
        with self._db_lock:
            engine = _engine(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection


def _created(file: Path, content: bytes) -> bool:
    """Create a file atomically; False if another process has done so, or the file system has no links."""
    whole = file.with_name(f"{file.name}.{uuid.uuid4().hex}.new")
    try:
        with whole.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.link(whole, file)
    except OSError:
        return False
    finally:
        whole.unlink(missing_ok=True)
    return True


class _OpenedAsTheyAre:
    """For Dagster's storages of runs and of schedules: see the module."""

    _conn_string: str

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A transaction."""
        with _engine(self._conn_string).begin() as connection:
            yield connection


class SqliteRuns(_OpenedAsTheyAre, SqliteRunStorage):
    """Dagster's SQLite storage of runs."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: Any = None) -> SqliteRuns:
        """Open the storage in a folder, or create it."""
        if _has_version(Path(base_dir, "runs.db"), "instance_info"):
            return cls(create_db_conn_string(base_dir, "runs"), inst_data)
        return super().from_local(base_dir, inst_data)


class SqliteSchedules(_OpenedAsTheyAre, SqliteScheduleStorage):
    """Dagster's SQLite storage of schedules, sensors and their ticks."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: Any = None) -> SqliteSchedules:
        """Open the storage in a folder, or create it."""
        if not _has_version(Path(base_dir, "schedules.db")):
            super().from_local(base_dir)
        return cls(create_db_conn_string(base_dir, "schedules"), inst_data)


class SqliteStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with :class:`SqliteEvents`, for ``storage`` in ``dagster.yaml``."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self.base_dir, self._inst_data = base_dir, inst_data
        self._run_storage = SqliteRuns.from_local(runs_directory(base_dir))
        self._event_log_storage = SqliteEvents(event_logs_directory(base_dir))
        self._schedule_storage = SqliteSchedules.from_local(schedule_directory(base_dir))
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]  # its constructor opens its own storages

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> SqliteStorage:
        """Called by Dagster with the configuration in ``dagster.yaml``."""
        return cls(config_value["base_dir"], inst_data)


def store_together(instance: dg.DagsterInstance) -> None:
    """Let the storage of an instance store many events quickly in this process, if it is of a kind that can.

    Dagster's SQLite storage becomes one of :class:`SqliteEvents`. Dagster connects to a Postgres server for each statement; here
    the process keeps a connection, which is tested before each use. Each event is committed on its own, as Dagster does it: who
    follows events by number would miss those of a transaction that ends after one with higher numbers.
    """
    storage: Any = instance.event_log_storage
    if isinstance(storage, SqliteEvents | MemoryEvents) or not _may_learn():
        return
    with _LEARNING:
        if type(storage) is SqliteEventLogStorage:
            SqliteEvents.made_of(storage)
        for server in filter(_connects_anew, (storage, instance.run_storage)):
            server._engine = sqlalchemy.create_engine(  # noqa: SLF001
                server._engine.url,  # noqa: SLF001
                isolation_level="AUTOCOMMIT",
                pool_size=1,
                max_overflow=_CONNECTIONS,
                pool_pre_ping=True,
            )


_LEARNING = threading.Lock()


def _connects_anew(storage: Any) -> bool:
    """Whether a storage is in a Postgres server, with a connection for each statement. If each needs a token, it stays so."""
    engine = getattr(storage, "_engine", None)
    is_server = isinstance(engine, sqlalchemy.Engine) and engine.dialect.name == "postgresql"
    return is_server and isinstance(engine.pool, NullPool) and getattr(storage, "_token_provider", None) is None  # type: ignore[union-attr]


@cache
def _may_learn() -> bool:
    return Settings().batched_events


def log_all(instance: dg.DagsterInstance, events: Iterable[_Event], log: Callable[[_Event], object]) -> None:
    """Log events, up to :data:`BATCH_SIZE` in one transaction if the instance's storage can do it.

    :param log: the method of a run's context that logs one event.
    """
    store_together(instance)
    storage, remaining = instance.event_log_storage, iter(events)
    while part := list(islice(remaining, BATCH_SIZE)):
        with storage.one_transaction() if isinstance(storage, SqliteEvents | MemoryEvents) else nullcontext():
            for event in part:
                log(event)
