"""Events that are stored together are those that Dagster's own storage would hold, and either storage reads the other's."""

import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import psycopg2
import pytest
import sqlalchemy
import yaml
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.engine import Engine

from lakehouse.cli.console import unexpected
from lakehouse.orchestration import event_storage
from lakehouse.orchestration.dagster_internals import SqliteEventLogStorage
from lakehouse.orchestration.event_storage import SqliteEvents, ephemeral_instance, log_all
from lakehouse_tests.support.postgres_server import needs_postgres, postgres_server

KEY = dg.AssetKey("numbers")
CHECK = dg.AssetCheckKey(KEY, "is_positive")
DAYS = [f"2024-01-{day:02}" for day in range(1, 31)]
PARTITIONS = dg.DailyPartitionsDefinition("2024-01-01")
OURS = {"custom": {"module": event_storage.__name__, "class": "SqliteStorage", "config": {"base_dir": {"env": "DAGSTER_HOME"}}}}


STATES_OF_CHECKS = """
SELECT c.asset_key, c.check_name, c.partition, c.execution_status, c.evaluation_event_storage_id,
       c.materialization_event_storage_id, c.evaluation_event_timestamp = e.timestamp, c.evaluation_event = e.event,
       c.run_id = e.run_id
FROM asset_check_executions c JOIN event_logs e ON e.id = c.evaluation_event_storage_id ORDER BY c.id
"""


class ChangedMindError(Exception):
    """Raised by a run that fails on purpose."""


@contextmanager
def instance_of(
    home: Path, monkeypatch: pytest.MonkeyPatch, storage: dict[str, Any] | None, *, learns: bool = False
) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(event_storage, "_may_learn", lambda: learns)
    home.mkdir(exist_ok=True)
    home.joinpath("dagster.yaml").write_text(
        yaml.safe_dump({"telemetry": {"enabled": False}} | ({"storage": storage} if storage else {}))
    )
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as instance:
        yield instance


def materialize(instance: dg.DagsterInstance, days: list[str], fail_at: str | None = None) -> dg.ExecuteInProcessResult:
    """A run that logs materializations of some days in reverse order, an observation, and an evaluation for each day."""

    @dg.asset(key=KEY, partitions_def=PARTITIONS, output_required=False)
    def numbers(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        made = [dg.AssetMaterialization(KEY, partition=day, metadata={"day": day}) for day in reversed(days)]

        def log(one: Any) -> None:
            if one.partition == fail_at:
                raise ChangedMindError
            context.log_event(one)

        log_all(context.instance, [*made, dg.AssetObservation(KEY, partition=days[0])], log)
        evaluations = [
            dg.AssetCheckEvaluation(asset_key=KEY, check_name=CHECK.name, passed=day != days[0], partition=day) for day in days
        ]
        log_all(context.instance, evaluations, context.op_execution_context.log_event)  # type: ignore[arg-type]
        yield from ()

    job = dg.Definitions(assets=[numbers]).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, raise_on_error=False)


def recorded(instance: dg.DagsterInstance) -> dict[str, Any]:
    """All that Dagster shows of the asset, without times and ids of runs."""
    storage = instance.event_log_storage
    made = instance.fetch_materializations(KEY, limit=100).records
    (asset,) = instance.get_asset_records([KEY])
    newest = storage.get_latest_storage_id_by_partition(KEY, dg.DagsterEventType.ASSET_MATERIALIZATION)
    run_id = made[0].run_id
    executions = storage.get_asset_check_execution_history(CHECK, limit=100)
    with storage.index_connection() as connection:
        states = connection.execute(sqlalchemy.text(STATES_OF_CHECKS)).fetchall()
    return {
        "states of checks": [tuple(row) for row in states],
        "materializations": [(record.storage_id, record.partition_key, record.asset_materialization) for record in made],
        "newest by partition": dict(newest),
        "newest": (
            asset.asset_entry.last_materialization_storage_id,
            asset.asset_entry.last_materialization.dagster_event.partition,
        ),
        "observations": [record.partition_key for record in instance.fetch_observations(KEY, limit=100).records],
        "executions": [
            (one.status, one.event.dagster_event.partition, one.event.dagster_event.event_specific_data.passed)
            for one in executions
        ],
        "of the run": [event.dagster_event_type for event in storage.get_logs_for_run(run_id)],
        "partitions of the run": storage.get_asset_partitions_for_run(run_id),
    }


@pytest.mark.merge
def test_events_stored_together_are_those_of_dagsters_own_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for name, storage, learns in (("theirs", None, False), ("ours", OURS, False), ("learned", None, True)):
        with instance_of(tmp_path / name, monkeypatch, storage, learns=learns) as instance:
            assert isinstance(instance.event_log_storage, SqliteEvents) is (storage is not None)
            assert materialize(instance, DAYS).success
            assert isinstance(instance.event_log_storage, SqliteEvents) is (storage is not None or learns)
            assert materialize(instance, DAYS[3:5]).success
            seen.append(recorded(instance))
    assert seen[0] == seen[1] == seen[2]
    assert seen[1]["newest"][1] == DAYS[3]
    assert len(seen[1]["materializations"]) == 32


@pytest.mark.merge
def test_either_storage_reads_what_the_other_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        assert materialize(instance, DAYS[:3]).success
        before = recorded(instance)
    with instance_of(tmp_path, monkeypatch, None) as instance:
        assert type(instance.event_log_storage) is SqliteEventLogStorage
        assert recorded(instance) == before
        assert materialize(instance, DAYS[3:6]).success
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        assert instance.get_materialized_partitions(KEY) == set(DAYS[:6])


def description(file: Path) -> list[object]:
    """What a database has in it besides events, and how others may use it."""
    connection = sqlite3.connect(file)
    try:
        tables = sorted(connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
        return [
            tables,
            connection.execute("SELECT * FROM alembic_version").fetchall(),
            connection.execute("PRAGMA journal_mode").fetchone(),
            oct(file.stat().st_mode),
        ]
    finally:
        connection.close()


@pytest.mark.proof
def test_the_file_of_a_later_run_is_like_that_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, copied, create = [], [], event_storage._created

    def counted(file: Path, content: bytes) -> bool:
        copied.append(file)
        return create(file, content)

    monkeypatch.setattr(event_storage, "_created", counted)
    for name, storage in (("theirs", None), ("ours", OURS), ("ours", OURS)):
        with instance_of(tmp_path / name, monkeypatch, storage) as instance:
            for _ in range(2):
                run_id = materialize(instance, DAYS[:2]).run_id
                files.append(Path(instance.event_log_storage.path_for_shard(run_id)))
                assert len(instance.event_log_storage.get_logs_for_run(run_id)) > 2
    empty = files[-1].parents[1] / f"empty_run_{dg.__version__}"
    assert copied == [empty, *files[-4:]], "also for the first run of a later process"
    descriptions = [description(file) for file in files]
    assert all(one == descriptions[0] for one in descriptions)
    assert {file.suffix for file in files[-1].parent.iterdir()} <= {".db", ".db-wal", ".db-shm"}


@pytest.mark.parametrize("content", [b"", b"no database", "cut off", "with an event"])
def test_what_is_no_empty_run_is_no_template(tmp_path: Path, content: bytes | str) -> None:
    def events_of(run: str) -> int:
        """The number of events in the file of a new run, opened by a new process."""
        with event_storage.SqliteEvents(f"{tmp_path / 'history' / 'runs'}")._connect(run) as connection:
            return connection.execute(sqlalchemy.text("SELECT count(*) FROM event_logs")).scalar_one()

    assert events_of("first") == 0
    empty = tmp_path / "history" / f"empty_run_{dg.__version__}"
    sound = empty.read_bytes()
    if content == "cut off":
        content = sound[: len(sound) // 2]
    if content == "with an event":
        with closing(sqlite3.connect(empty)) as connection, connection:
            connection.execute("INSERT INTO event_logs (run_id, event) VALUES ('first', '{}')")
    else:
        empty.write_bytes(content)
    assert events_of("second") == 0
    assert description(empty) == description(tmp_path / "history" / "runs" / "second.db")


@pytest.mark.parametrize("database", ["runs.db", "runs/index.db"])
def test_a_damaged_database_is_reported_as_dagsters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        history = Path(instance.root_directory, "history")
    history.joinpath(database).write_bytes(b"no database, but longer than its header" * 100)

    def looked_at() -> None:
        with instance_of(tmp_path, monkeypatch, OURS) as opened:
            opened.get_runs()
            opened.event_log_storage.get_asset_records()

    with pytest.raises(sqlalchemy.exc.DatabaseError) as caught:
        looked_at()
    assert "move the folders 'history' and 'schedules' away" in unexpected(caught.value)


def test_a_file_that_another_process_has_just_created_stays(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    file.write_bytes(b"theirs")
    assert not event_storage._created(file, b"ours")
    assert file.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.merge
def test_the_number_of_connections_does_not_grow_with_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        for days in (DAYS[:2], DAYS):
            connections = []
            listener = lambda *_, counted=connections: counted.append(1)  # noqa: E731
            sqlalchemy_event.listen(Engine, "connect", listener)
            try:
                assert materialize(instance, days).success
            finally:
                sqlalchemy_event.remove(Engine, "connect", listener)
            opened.append(len(connections))
    assert opened[1] <= opened[0]


@needs_postgres
@pytest.mark.merge
def test_a_server_gets_the_same_events_through_a_connection_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, opened = [], []
    for learns in (False, True):
        connections: list[int] = []
        listener = lambda *_, counted=connections: counted.append(1)  # noqa: E731
        with (
            postgres_server() as address,
            instance_of(tmp_path / f"{learns}", monkeypatch, {"postgres": {"postgres_url": address}}, learns=learns) as instance,
        ):
            sqlalchemy_event.listen(Engine, "connect", listener)
            try:
                assert materialize(instance, DAYS).success
            finally:
                sqlalchemy_event.remove(Engine, "connect", listener)
            assert not materialize(instance, DAYS[3:5], fail_at=DAYS[3]).success
            with closing(psycopg2.connect(address.replace("+psycopg2", ""))) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            assert materialize(instance, DAYS[3:5]).success, "a connection that broke while nobody used it is replaced"
            seen.append(recorded(instance))
        opened.append(len(connections))
    assert seen[0] == seen[1]
    assert opened[1] * 3 < opened[0]


def test_events_in_memory_are_those_of_dagsters_own_storage_and_open_no_connection_each() -> None:
    seen, opened = [], []
    for made in (dg.DagsterInstance.ephemeral, ephemeral_instance):
        connections: list[int] = []
        listener = lambda *_, counted=connections: counted.append(1)  # noqa: E731
        with made() as instance:
            sqlalchemy_event.listen(Engine, "connect", listener)
            try:
                assert materialize(instance, DAYS[:9]).success
            finally:
                sqlalchemy_event.remove(Engine, "connect", listener)
            assert materialize(instance, DAYS[3:5]).success
            seen.append(recorded(instance))
        opened.append(len(connections))
    assert seen[0] == seen[1]
    assert opened[1] * 2 < opened[0]


def test_garbage_of_an_instance_in_memory_may_be_collected_by_any_thread(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()
    gc.disable()  # what is dropped meanwhile waits for the other thread
    try:
        with ephemeral_instance() as instance:
            collector = Thread(target=gc.collect)
            collector.start()
            collector.join()
            assert materialize(instance, DAYS[:2]).success
    finally:
        gc.enable()
    assert not [record for record in caplog.records if record.name.startswith("sqlalchemy")]


def test_of_events_in_memory_with_an_error_among_them_none_is_stored() -> None:
    with ephemeral_instance() as instance:
        assert not materialize(instance, DAYS[:4], fail_at=DAYS[2]).success
        assert not instance.get_materialized_partitions(KEY)
        assert materialize(instance, DAYS[:4]).success
        assert instance.get_materialized_partitions(KEY) == set(DAYS[:4])


@pytest.mark.merge
def test_an_error_among_events_stores_none_of_them_and_the_next_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        failed = materialize(instance, DAYS, fail_at=DAYS[2])
        assert not failed.success
        assert not instance.get_materialized_partitions(KEY)
        assert instance.get_run_by_id(failed.run_id).status is dg.DagsterRunStatus.FAILURE
        assert materialize(instance, DAYS).success
        assert instance.get_materialized_partitions(KEY) == set(DAYS)


def test_ranges_of_partitions_are_stored_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dg.asset(key=KEY, partitions_def=PARTITIONS, backfill_policy=dg.BackfillPolicy.single_run())
    def numbers() -> None:
        pass

    stored: list[int] = []
    store = SqliteEvents.store_event_batch
    monkeypatch.setattr(SqliteEvents, "store_event_batch", lambda self, events: (stored.append(len(events)), store(self, events)))
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)
    with instance_of(tmp_path, monkeypatch, OURS) as instance:
        tags = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[-1]}
        job = dg.Definitions(assets=[numbers]).resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance, tags=tags).success
        assert instance.get_materialized_partitions(KEY) == set(DAYS)
    assert len(DAYS) in stored
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)
    assert "DAGSTER_EVENT_BATCH_SIZE" not in os.environ


@pytest.mark.merge
def test_two_runs_at_once_lose_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with instance_of(tmp_path, monkeypatch, OURS):
        with get_context("spawn").Pool(2) as processes:
            assert processes.map(materialize_in_own_instance, (DAYS[:15], DAYS[15:])) == [True, True]
            processes.close()
            processes.join()  # a process that is stopped while Dagster's threads end can hang
        with dg.DagsterInstance.get() as instance:
            assert instance.get_materialized_partitions(KEY) == set(DAYS)


def materialize_in_own_instance(days: list[str]) -> bool:
    event_storage.BATCH_SIZE = 4  # so that the processes take turns
    with dg.DagsterInstance.get() as instance:
        return materialize(instance, days).success
