"""The first Java process to end writes the archive of its classes, later ones use it, and no fault of it prevents a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import platformdirs
import pyspark
import pytest

from lakehouse.spark import session
from lakehouse.spark.jars import java

IVY = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))


@pytest.fixture(name="classes")
def _classes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: tmp_path)
    return tmp_path / "classes"


def options(*, ends_soon: bool = True) -> list[str]:
    return session.archive_options(java(), [IVY], ends_soon=ends_soon)


def names(folder: Path) -> list[str]:
    return sorted(file.suffix for file in folder.iterdir())


@pytest.mark.merge
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_a_process_writes_the_archive_and_the_next_one_uses_it(classes: Path) -> None:
    def run(*more: str) -> str:
        command = [java(), *more, "-jar", str(IVY), "-version"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    plain = run()
    first = options()
    assert first[0].startswith("-XX:ArchiveClassesAtExit=")
    assert run(*first) == plain, "it says nothing of its own"
    second = options()
    assert second[0].startswith("-XX:SharedArchiveFile=")
    assert names(classes) == [".jsa"]
    assert run(*second) == plain
    assert "org.apache.ivy.Main source: shared objects file (top)" in run(*second, "-Xlog:class+load")

    (classes / Path(second[0].partition("=")[2]).name).chmod(0o644)
    (classes / Path(second[0].partition("=")[2]).name).write_bytes(b"no archive")
    assert run(*options()) == plain, "Java ignores a broken one"


def test_one_process_writes_it_and_the_others_wait_for_an_hour(classes: Path) -> None:
    assert options(ends_soon=False) == [], "a process that lives for days is not the one"
    assert options()[0].startswith("-XX:ArchiveClassesAtExit=")
    assert options() == []
    (claim,) = classes.glob("*.claim")
    an_hour_ago = time.time() - 3_601
    os.utime(claim, (an_hour_ago, an_hour_ago))
    assert options()[0].startswith("-XX:ArchiveClassesAtExit="), "the process that claimed it was killed"
    assert options() == []


def test_an_archive_that_is_being_written_is_not_used(classes: Path) -> None:
    writes = Path(options()[0].partition("=")[2])
    writes.write_bytes(bytes(4) + b"classes")
    assert options() == []
    writes.write_bytes(b"\xa8\xba\x0b\xf0classes")
    assert options()[0].startswith("-XX:SharedArchiveFile=")


def test_archives_that_nothing_has_used_for_a_month_are_deleted(classes: Path) -> None:
    classes.mkdir()
    long_ago = time.time() - 31 * 86_400
    for name in ("0123.jsa", "4567.abcd.new", "recent.jsa"):
        (classes / name).touch()
        if name != "recent.jsa":
            os.utime(classes / name, (long_ago, long_ago))
    Path(options()[0].partition("=")[2]).write_bytes(b"\xa8\xba\x0b\xf0")
    archive = Path(options()[0].partition("=")[2])
    assert {file.name for file in classes.iterdir()} == {"recent.jsa", archive.name}


def test_a_folder_that_cannot_be_used_means_a_slower_start_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "with space"):
        monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, place=place, **__: place)
        assert options() == []
