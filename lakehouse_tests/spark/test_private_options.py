"""Secrets among Spark's options are no arguments of a process, and Java reads them as they were."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lakehouse.lake import Lake
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.settings import Settings
from lakehouse.spark import connect
from lakehouse.spark.session import spark_options

SECRET = "s3cr=t: \\ é\u20ac end"
CONF = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.hadoop.fs.s3a.access.key": "AKIA", "spark.sql.shuffle.partitions": "3"}
PRINTS = """
import java.io.*; import java.nio.file.*; import java.util.*;
public class Prints { public static void main(String[] a) throws Exception {
  Properties p = new Properties(); try (Reader r = new InputStreamReader(new FileInputStream(a[0]), "UTF-8")) { p.load(r); }
  new PrintStream(System.out, true, "UTF-8").print(p.getProperty("spark.hadoop.fs.s3a.secret.key")); } }
"""


@pytest.fixture(autouse=True)
def _arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name mine pyspark-shell")


def test_they_are_in_a_file_that_only_this_user_can_read() -> None:
    options = spark_options(Lake(Settings(spark_conf=CONF)))
    assert SECRET not in options.values()
    assert "AKIA" not in options.values()
    assert options["spark.sql.shuffle.partitions"] == "3"
    flag, name, *others = os.environ["PYSPARK_SUBMIT_ARGS"].split()
    assert (flag, others) == ("--properties-file", ["--name", "mine", "pyspark-shell"])
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    spark_options(Lake(Settings(spark_conf=CONF)))
    assert os.environ["PYSPARK_SUBMIT_ARGS"].count("--properties-file") == 1


@pytest.mark.parametrize(
    "name",
    [
        *("fs.azure.account.key.mine.dfs.core.windows.net", "fs.azure.sas.box.mine.blob.core.windows.net"),
        *("fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key", "fs.gs.auth.service.account.private.key"),
        *("fs.any.store.of.tomorrow", "fs.s3a.secret.key"),
    ],
)
def test_each_option_of_a_store_is_private(name: str) -> None:
    for prefix in ("spark.hadoop.", "spark.executorEnv." if "any" not in name else "spark.hadoop."):
        options = {f"{prefix}{name}": SECRET, "spark.sql.shuffle.partitions": "3"}
        assert connect.split_private(options) == (
            {"spark.sql.shuffle.partitions": "3"},
            {f"{prefix}{name}": SECRET},
        )


def test_passwords_among_options_of_java_are_private() -> None:
    secret = {"spark.driver.extraJavaOptions": f"-Djavax.net.ssl.trustStorePassword={SECRET}"}
    public = {"spark.executor.extraJavaOptions": "-Duser.timezone=UTC"}
    assert connect.split_private({**secret, **public}) == (public, secret)


def test_java_reads_what_was_written(tmp_path: Path) -> None:
    file = connect.options_in_file(connect.split_private(CONF)[1])
    (tmp_path / "Prints.java").write_text(PRINTS)
    read = subprocess.run(["java", str(tmp_path / "Prints.java"), file], capture_output=True, check=False)
    if b"compiler" in read.stderr:
        pytest.skip("the machine's Java has no compiler")
    assert read.stdout.decode() == SECRET, read.stderr.decode()


def test_a_server_is_started_without_them_among_its_arguments() -> None:
    command = connect._command(CONF, 15002, "word")
    assert not any(SECRET in argument or "AKIA" in argument for argument in command)
    assert "--properties-file" in command


def test_options_that_decide_what_expressions_mean_are_set_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_ANSI_SQL_MODE", "false")
    lake = Lake(Settings(spark_profile="large"))
    assert spark_options(lake).items() >= Settings.PINNED.items()
    monkeypatch.setattr(connect, "remote_address", lambda _: "sc://127.0.0.1:15002")
    assert spark_options(lake).items() >= Settings.PINNED.items()
    of_resource = LakeSpark(spark_config={"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "9"})._options()
    assert of_resource.items() >= (Settings.PINNED | {"spark.sql.shuffle.partitions": "9"}).items()
