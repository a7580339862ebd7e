"""The two Delta JARs that PySpark does not include: taken from a folder, or downloaded once from a Maven repository.

They are downloaded by the Ivy that PySpark includes, in a separate process: that takes two seconds, resolves nothing else (the
default resolution downloads a second Hadoop), and fails with a reason before Spark has started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.settings import Settings

JAVA_VERSIONS = (17, 21)


class SetupProblem(LakehouseError):  # noqa: N818 (shown to people)
    """Something that Spark needs is missing. The message is one line with the remedy."""


def delta_modules() -> list[tuple[str, str]]:
    """The Maven names and versions of the JARs, for the installed PySpark and this project's Delta."""
    spark_line = ".".join(version("pyspark").split(".")[:2])
    return [(f"delta-spark_{spark_line}_2.13", "4.4.0"), ("delta-storage", "4.4.0")]


def delta_jars(settings: Settings) -> list[Path]:
    """The paths of the JARs; missing ones are downloaded first.

    :raises SetupProblem: when Java is missing or the repository cannot be reached.
    """
    folder = settings.jars or Path(platformdirs.user_cache_dir("lakehouse")) / "jars"
    paths = [folder / f"{name}-{release}.jar" for name, release in delta_modules()]
    for (name, release), path in zip(delta_modules(), paths):
        if not path.is_file():
            _fetch(name, release, path, settings.ivy_settings)
    return paths


def java() -> str:
    """The path of the Java executable.

    :raises SetupProblem: when there is none, or one that Spark 4 does not support.
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


def require_java(settings: Settings) -> None:
    """Check for the Java that a session will need, so that a command can end before it has written anything.

    :raises SetupProblem: when it is missing, and no Spark Connect server is named that has its own.
    """
    if settings.spark_remote is None:
        java()


def _fetch(name: str, release: str, path: Path, ivy_settings: Path | None) -> None:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        msg = "PySpark is not installed: pip install 'pyspark==4.2.0'"
        raise SetupProblem(msg)
    ivy = next(Path(spark.origin).parent.glob("jars/ivy-*.jar"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        command = [java(), "-jar", str(ivy), "-cache", f"{scratch}/cache", "-types", "jar", "-notransitive"]
        command += ["-settings", str(ivy_settings)] if ivy_settings else []
        command += ["-dependency", "io.delta", name, release, "-retrieve", f"{scratch}/[artifact]-[revision].[ext]"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = Path(scratch, path.name)
        if not fetched.is_file():
            lines = [line.strip() for line in (process.stdout + process.stderr).splitlines()]
            reason = next((line for line in lines if "Exception" in line or "not found" in line), "no reason given")
            msg = (
                f"{path.name} could not be fetched from the Maven repository ({reason}): check the network or name a "
                f"mirror with LAKEHOUSE_IVY_SETTINGS, or put the file into {path.parent} yourself"
            )
            raise SetupProblem(msg)
        fetched.replace(path)
