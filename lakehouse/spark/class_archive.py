"""An archive of the Java classes that Spark loads: a later start maps it into memory instead of reading hundreds of JARs.

Java writes the archive at the end of one process and uses it in later processes (class-data sharing, JEP 350). An archive is
bound to the Java and the JARs that it was written with: each combination has a separate archive, and Java ignores an archive that
does not fit. The archive is optional; if its folder is not writable, starts are only slower.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Sequence

#: After this time, another process tries to write an archive that is still missing.
_CLAIM = timedelta(hours=1)
#: Archives that no start has used for this long are deleted.
_UNUSED = timedelta(days=30)
_SILENT = "-Xlog:cds*=off"


def java_options(java: str, jars: Sequence[Path], *, ends_soon: bool) -> list[str]:
    """The Java options for using the archive, or for writing it at the end of the process if it does not exist.

    :param java: the path of the Java executable.
    :param jars: the JARs on the class path in addition to Spark's own.
    :param ends_soon: whether the process ends soon enough to write the archive.
    """
    folder = platformdirs.user_cache_path("lakehouse", appauthor=False) / "classes"
    archive = folder / f"{_key(java, jars)}.jsa"
    if any(character.isspace() or character in "\"'" for character in str(archive)):
        return []  # Spark splits its option at spaces
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if archive.is_file() or _adopted(archive):
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", _SILENT]
        if ends_soon and _claimed(archive.with_suffix(".claim")):
            return [f"-XX:ArchiveClassesAtExit={archive.with_suffix(f'.{uuid.uuid4().hex}.new')}", _SILENT]
    except OSError:
        return []
    return []


def _key(java: str, jars: Sequence[Path]) -> str:
    """The file name of an archive: a hash of the Java and the JARs to which it is bound."""
    spark = find_spec("pyspark")
    parts = [Path(java).resolve(), *jars, Path(spark.origin).parent / "jars" if spark and spark.origin else ""]
    stamped = [f"{part} {part.stat().st_mtime_ns}" for part in parts if isinstance(part, Path)]
    return hashlib.sha256("\n".join(stamped).encode()).hexdigest()[:16]


def _adopted(archive: Path) -> bool:
    """Rename a complete archive to its final name. Several processes may have written one each, and may still be writing."""
    for file in archive.parent.glob(f"{archive.stem}.*.new"):
        with file.open("rb") as content:
            is_complete = any(content.read(4))  # Java writes the first bytes last
        if is_complete:
            file.replace(archive)
            _tidy(archive)
            return True
    return False


def _claimed(claim: Path) -> bool:
    """Whether this process has claimed the writing of the archive."""
    with suppress(FileNotFoundError):
        if time.time() - claim.stat().st_mtime < _CLAIM.total_seconds():
            return False
        claim.unlink()
    with suppress(FileExistsError):
        claim.touch(exist_ok=False)
        return True
    return False


def _tidy(archive: Path) -> None:
    """Delete unused archives, and the remains of writing this one."""
    oldest = time.time() - _UNUSED.total_seconds()
    for file in archive.parent.iterdir():
        with suppress(FileNotFoundError):
            if file.stat().st_mtime < oldest or (file.stem.startswith(archive.stem) and file.suffix == ".claim"):
                file.unlink()
