"""The JARs that PySpark does not include, Delta's and those for S3: taken from a folder, or downloaded once from Maven.

The download uses PySpark's Ivy in a separate process: it takes two seconds, resolves nothing else (the default resolution
downloads a second Hadoop), and fails with a reason before Spark has started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.lake import Lake

JAVA_VERSIONS = (17, 21)
#: The Hadoop version of PySpark 4.2, and the AWS SDK for which its connector is built.
_HADOOP, _AWS = "3.5.0", "2.35.4"
_S3_MODULES = f"""<ivy-module version="2.0">
  <info organisation="lakehouse" module="s3"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{_HADOOP}" conf="default->master"/>
    <dependency org="software.amazon.awssdk" name="s3" rev="{_AWS}" conf="default->default"/>
    <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="{_AWS}" conf="default->default"/>
    <dependency org="software.amazon.awssdk" name="sts" rev="{_AWS}" conf="default->default"/>
    <dependency org="software.amazon.s3.analyticsaccelerator" name="analyticsaccelerator-s3" rev="1.3.1" conf="default->master"/>
    <exclude org="io.netty"/>
    <exclude org="org.slf4j"/>
  </dependencies>
</ivy-module>"""


class SetupProblem(LakehouseError):  # noqa: N818 (shown to people)
    """A requirement of Spark is missing. The message is one line with the remedy."""


def delta_modules() -> list[tuple[str, str]]:
    """The Maven names and versions of the JARs, for the installed PySpark and this project's Delta."""
    spark_line = ".".join(version("pyspark").split(".")[:2])
    return [(f"delta-spark_{spark_line}_2.13", "4.4.0"), ("delta-storage", "4.4.0")]


def _folder(lake: Lake) -> Path:
    return lake.settings.jars or Path(platformdirs.user_cache_dir("lakehouse")) / "jars"


def delta_jars(lake: Lake) -> list[Path]:
    """The paths of the JARs; missing ones are downloaded first.

    :raises SetupProblem: if Java is missing or the repository cannot be reached.
    """
    folder = _folder(lake)
    paths = [folder / f"{name}-{release}.jar" for name, release in delta_modules()]
    for (name, release), path in zip(delta_modules(), paths):
        if not path.is_file():
            _fetch(lake, name, release, path)
    return paths


def s3_jars(lake: Lake) -> list[Path]:
    """The JARs for reading and writing S3: Hadoop's connector and the parts of the AWS SDK that it uses.

    The SDK is also published as a bundle, but the bundle is fifty times as large.

    :raises SetupProblem: if Java is missing or the repository cannot be reached.
    """
    folder = _folder(lake) / f"s3-{_HADOOP}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            modules = Path(scratch, "ivy.xml")
            modules.write_text(_S3_MODULES)
            fetched = Path(scratch, "fetched")
            printed = _ivy(lake, scratch, "-ivy", f"{modules}", "-retrieve", f"{fetched}/[artifact]-[revision].[ext]")
            if not any(fetched.glob("hadoop-aws-*.jar")):
                raise _unfetched("the JARs for S3", printed, folder)
            with suppress(OSError):  # another process was faster
                fetched.replace(folder)
    return sorted(folder.glob("*.jar"))


def java() -> str:
    """The path of the Java executable.

    :raises SetupProblem: if there is no Java, or its version is not supported by Spark 4.
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home and Path(home, "bin", "java").is_file() else shutil.which("java")
    if not path:
        msg = "Java was not found: install a JDK 17 or 21 and put it on the PATH (or set JAVA_HOME)"
        raise SetupProblem(msg)
    process = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    release = process.stderr.partition('version "')[2].partition('"')[0]
    major = release.split(".")[0]
    if not major.isdigit() or int(major) not in JAVA_VERSIONS:
        msg = (
            f"Java {release or 'of unknown version'} at {path} will not do: Spark 4.2 runs on Java 17 or 21; "
            "set JAVA_HOME to one of these"
        )
        raise SetupProblem(msg)
    return path


def require_java(lake: Lake) -> None:
    """Check that the Java for a session is available, so that a command can fail before it has written anything.

    :raises SetupProblem: if Java is missing and the settings name no Spark Connect server, which has its own Java.
    """
    if lake.settings.spark_remote is None:
        java()


def _fetch(lake: Lake, name: str, release: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        retrieve = [
            "-notransitive",
            "-dependency",
            "io.delta",
            name,
            release,
            "-retrieve",
            f"{scratch}/[artifact]-[revision].[ext]",
        ]
        printed = _ivy(lake, scratch, *retrieve)
        fetched = Path(scratch, path.name)
        if not fetched.is_file():
            raise _unfetched(path.name, printed, path.parent)
        fetched.replace(path)


def _ivy(lake: Lake, scratch: str, *arguments: str) -> str:
    """Run PySpark's Ivy and return its output."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        msg = "PySpark is not installed: pip install 'pyspark>=4.2,<4.3'"
        raise SetupProblem(msg)
    ivy = next(Path(spark.origin).parent.glob("jars/ivy-*.jar"))
    command = [java(), "-jar", str(ivy), "-cache", f"{scratch}/cache", "-types", "jar"]
    command += ["-settings", str(lake.settings.ivy_settings)] if lake.settings.ivy_settings else []
    process = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    return process.stdout + process.stderr


def _unfetched(what: str, printed: str, folder: Path) -> SetupProblem:
    lines = [line.strip() for line in printed.splitlines()]
    reason = next((line for line in lines if "Exception" in line or "not found" in line), "no reason given")
    return SetupProblem(
        f"{what} could not be fetched from the Maven repository ({reason}): check the network or name a "
        f"mirror with LAKEHOUSE_IVY_SETTINGS, or put the file into {folder} yourself"
    )
