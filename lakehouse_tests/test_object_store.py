"""One statement of an object store serves delta-rs, Spark and Arrow."""

from __future__ import annotations

import pytest

from lakehouse import object_store
from lakehouse.lake import Lake
from lakehouse.object_store import S3
from lakehouse.settings import Settings

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
    assert S3.of(Lake(Settings(storage_options=OPTIONS))) == S3("http://store:9000", "eu-1", "me", "secret", None)


def test_the_environment_says_what_the_options_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    store = S3.of(Lake(Settings(storage_options={"AWS_ACCESS_KEY_ID": "me"})))
    assert (store.region, store.access_key, store.endpoint) == ("us-2", "me", None)


def test_spark_is_told_what_is_known_and_nothing_else() -> None:
    assert S3(None, None, None, None, None).spark_options() == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"
    }
    options = S3.of(Lake(Settings(storage_options=OPTIONS))).spark_options()
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
    assert object_store.is_used(Lake(Settings(root=root, landing=landing))) is used


def test_a_file_is_written_with_the_folders_above_it_and_replaced(tmp_path) -> None:
    lake, path = Lake(Settings(root=f"{tmp_path}")), tmp_path / "models" / "fraud" / "report.md"
    for text in ("# A longer text", "# Größe"):
        object_store.write_text(lake, f"{path}", text)
    assert path.read_text("utf-8") == "# Größe"
    object_store.remove_folder(lake, f"{tmp_path / 'models'}")
    assert not path.exists()
