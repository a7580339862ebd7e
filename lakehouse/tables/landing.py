"""The landing folder: which files there are for an arrival day, and what can be said of one before it is read.

Works on a local folder or an object store through Arrow's file systems; nothing is ever written or deleted here.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lakehouse.domain.records import FileProblem, check_readable, read_records

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_CHUNK = 1 << 20


@dataclass(frozen=True)
class LandingFile:
    """A file of an arrival day; ``path`` is whole, ``name`` is below the landing folder."""

    path: str
    name: str
    arrival_date: date
    size: int
    modified: datetime | None


@dataclass(frozen=True)
class Fingerprint:
    """The hash of a file's bytes, and what keeps the file as a whole from being read, if anything does."""

    content_hash: str
    problem: str | None = None

    @property
    def ingestion_id(self) -> str:
        """What identifies the content in the tables: 64 bits of its hash."""
        return self.content_hash[:16]


def landing_files(settings: Settings, contract: SourceContract) -> tuple[list[LandingFile], list[str]]:
    """All files of a source, by arrival day and name, and a complaint for each whose day is not a partition."""
    system, root = _file_system(settings.landing_of(contract.dataset))
    pattern = _pattern(contract.source.landing)
    files: list[LandingFile] = []
    complaints: list[str] = []
    for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        name = info.path.removeprefix(root).lstrip("/")
        match = pattern.fullmatch(name)
        if info.type != fs.FileType.File or not match or Path(name).name.startswith(("_", ".")):
            continue
        try:
            day = date.fromisoformat(match["day"])
        except ValueError:
            complaints.append(f"{name}: {match['day']} is no day of the calendar; rename the file")
            continue
        if day < contract.source.start_date:
            complaints.append(
                f"{name}: arrival day {day} lies before the first one, {contract.source.start_date}; set source.start_date "
                f"in the contract of {contract.dataset} to {day} or earlier, or take the file away"
            )
            continue
        files.append(LandingFile(info.path, name, day, info.size, _microseconds(info.mtime)))
    return sorted(files, key=lambda file: (file.arrival_date, file.name)), sorted(complaints)


def open_file(settings: Settings, contract: SourceContract, path: str) -> BinaryIO:
    """The bytes of a landing file."""
    system, _ = _file_system(settings.landing_of(contract.dataset))
    return cast("BinaryIO", system.open_input_stream(path, compression=None))


def fingerprint(settings: Settings, contract: SourceContract, file: LandingFile) -> Fingerprint:
    """Hash the file, and look for what concerns it as a whole: a broken gzip, a missing column."""
    digest = hashlib.sha256()
    with open_file(settings, contract, file.path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    try:
        _check_whole(settings, contract, file)
    except FileProblem as problem:
        return Fingerprint(digest.hexdigest(), str(problem))
    return Fingerprint(digest.hexdigest())


def _check_whole(settings: Settings, contract: SourceContract, file: LandingFile) -> None:
    """:raises FileProblem: when the file as a whole cannot be read."""
    if contract.source.format == "parquet":
        _check_parquet(settings, contract, file)
        return
    with open_file(settings, contract, file.path) as stream:
        next(read_records(stream, contract.source, contract.columns_read), None)
    with open_file(settings, contract, file.path) as stream:
        check_readable(stream)


def _check_parquet(settings: Settings, contract: SourceContract, file: LandingFile) -> None:
    system, _ = _file_system(settings.landing_of(contract.dataset))
    try:
        with system.open_input_file(file.path) as handle:
            names = pq.ParquetFile(handle).schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        msg = f"not a Parquet file ({error}); have the file sent again"
        raise FileProblem(msg) from None
    missing = [column for column in contract.columns_read if column not in names]
    if missing:
        msg = f"column {', '.join(missing)} is missing; have the file sent again, or take the column out of the contract"
        raise FileProblem(msg)


def _file_system(root: str) -> tuple[fs.FileSystem, str]:
    if "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        return system, path
    return fs.LocalFileSystem(), root


def _microseconds(modified: datetime | None) -> datetime | None:
    """The time as the ledger can hold it; object stores may give none."""
    return modified.astimezone(timezone.utc) if modified else None


def _pattern(landing: str) -> re.Pattern[str]:
    """The contract's glob as an expression with the arrival day as the group ``day``."""
    before, after = (
        translate(part).removeprefix("(?s:").removesuffix(")\\Z").removesuffix(")\\z") for part in landing.split("{arrival_date}")
    )
    return re.compile(f"(?s:{before}(?P<day>\\d{{4}}-\\d{{2}}-\\d{{2}}){after})")
