"""One statement of an object store serves delta-rs, Spark and Arrow."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from lakehouse import object_store
from lakehouse.delta import layout, partition_writer, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import Lake
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.object_store import S3
from lakehouse.settings import Settings
from lakehouse_tests.support.s3_server import s3_server

OPTIONS = {
    "AWS_ENDPOINT_URL": "http://store:9000",
    "aws_region": "eu-1",
    "access_key_id": "me",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT_URL", "ENDPOINT", "REGION", "DEFAULT_REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


def test_names_are_taken_as_delta_rs_takes_them() -> None:
    assert S3.of(OPTIONS) == S3("http://store:9000", "eu-1", "me", "secret", None)


def test_the_environment_says_what_the_options_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    store = S3.of({"AWS_ACCESS_KEY_ID": "me"})
    assert (store.region, store.access_key, store.endpoint) == ("us-2", "me", None)


def test_spark_is_told_what_is_known_and_nothing_else() -> None:
    assert S3(None, None, None, None, None).spark_options() == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"
    }
    options = S3.of(OPTIONS).spark_options()
    assert {name.removeprefix("spark.hadoop.fs.s3a."): value for name, value in options.items() if "s3a." in name} == {
        "endpoint": "http://store:9000",
        "endpoint.region": "eu-1",
        "path.style.access": "true",
        "access.key": "me",
        "secret.key": "secret",
    }


@pytest.mark.parametrize(
    ("root", "landing", "used"),
    [
        ("/lake", None, False),
        ("s3://bucket/lake", None, True),
        ("/lake", "s3a://bucket/files", True),
        ("gs://bucket", None, False),
    ],
)
def test_a_store_is_used_for_tables_or_for_landing(root: str, landing: str | None, used: bool) -> None:
    assert object_store.is_used(Settings(root=root, landing=landing)) is used


def test_a_file_is_written_with_the_folders_above_it_and_replaced(tmp_path) -> None:
    lake, path = Lake(Settings(root=f"{tmp_path}")), tmp_path / "models" / "fraud" / "report.md"
    for text in ("# A longer text", "# Größe"):
        object_store.write_text(lake.storage_options, f"{path}", text)
    assert path.read_text("utf-8") == "# Größe"
    object_store.remove_folder(lake.storage_options, f"{tmp_path / 'models'}")
    assert not path.exists()


def test_a_new_file_is_written_once(tmp_path) -> None:
    lake, path = Lake(Settings(root=f"{tmp_path}")), tmp_path / "log" / "1.json"
    path.parent.mkdir()
    assert [object_store.write_new(lake.storage_options, f"{path}", text) for text in (b"first", b"second")] == [True, False]
    assert path.read_bytes() == b"first"
    with pytest.raises(LakehouseError, match="in such a store no file can be written on the condition"):
        object_store.write_new(lake.storage_options, "gs://bucket/log/1.json", b"first")


@pytest.mark.merge
def test_in_a_store_a_new_file_is_written_once_and_a_table_is_converted(tmp_path) -> None:
    with s3_server(tmp_path) as store:
        settings = Settings(root="s3://lake/tables", storage_options=store.options)
        before, lake = (Lake(settings.model_copy(update={"file_bytes": size})).cached() for size in (0, 2**18))
        names = [object_store.write_new(lake.storage_options, f"{lake.root}/log/1.json", text) for text in (b"first", b"second")]
        assert names == [True, False]
        with store.files().open_input_stream("lake/tables/log/1.json") as stream:
            assert stream.read() == b"first"

        table, schema = before.table("bronze", "sales"), pa.schema([("arrival_date", pa.date32()), ("amount", pa.int64())])
        partition_writer.create(table, schema, *layout.of_bronze(before)[:1], properties=layout.of_bronze(before).properties)
        rows = pa.Table.from_pylist([{"arrival_date": date(2024, 1, day), "amount": day} for day in range(1, 8)], schema)
        row_writer.append(table, rows)
        stale = table.snapshot()
        assert layout.convert(lake, lake.table("bronze", "sales"), "arrival_date")
        with pytest.raises(CommitFailedError):
            write_deltalake(stale, rows, mode="append")
        row_writer.append(lake.table("bronze", "sales"), rows.slice(6))
        converted = lake.table("bronze", "sales").snapshot()
        assert converted is not None
        assert converted.metadata().partition_columns == []
        assert len(listed_files(converted)) == 2
        read = lake.table("bronze", "sales").read(["amount"])
        assert read is not None
        assert sorted(read["amount"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7, 7]
