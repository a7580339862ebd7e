"""The landing folder: its files by arrival day, and the fingerprint of a file before it is ingested.

Works on a local folder or an object store through Arrow's file systems; nothing is ever written or deleted here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from fnmatch import translate
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lakehouse import object_store
from lakehouse.bronze.file_formats import (
    FileProblem,
    check_array,
    check_readable,
    header_line,
    json_lines,
    numbered_lines,
    read_records,
    repeated_names,
    unzipped,
)
from lakehouse.bronze.json_columns import check_names
from lakehouse.ledger import ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import FileIdentity

_CHUNK = 1 << 20
#: Up to this many folders are listed one by one: an object store lists a thousand files per request.
_FEW_DAYS = 16
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class LandingFile:
    """A file of an arrival day; ``path`` is its full path, ``name`` its path below the landing folder."""

    path: str
    name: str
    arrival_date: date
    size: int
    modified: datetime | None

    @property
    def identity(self) -> FileIdentity:
        """The identity of the file in its present state (see ``Ingestion.identity``)."""
        return self.name, self.size, self.modified

    @property
    def state(self) -> str:
        """A text that changes when the file is written to, as far as the listing shows."""
        return _state(self.size, self.modified)


@dataclass(frozen=True)
class Listing:
    """The content of landing at one moment.

    ``files`` are the files with records, by arrival day and name; ``completion_markers`` are, per arrival day, the files that
    mark it as complete, or its manifests; ``complaints`` name each file whose day is not a partition. ``unmatched`` are the files
    that match no pattern of the source, each with its state, without those whose names, or folders, begin with ``.`` or ``_``.
    """

    files: list[LandingFile]
    completion_markers: dict[date, list[LandingFile]]
    complaints: list[str]
    unmatched: dict[str, str] = field(default_factory=dict)

    def unmatched_complaints(self, lake: Lake, contract: SourceContract, sources: Collection[SourceContract]) -> dict[str, str]:
        """A complaint for each file that matches no pattern.

        :param sources: the sources of the deployment, which share a landing folder if the settings name one.
        """
        shared = [one for one in sources if lake.settings.landing and one.dataset != contract.dataset and not one.source.kafka]
        patterns = [_pattern(pattern) for one in shared for pattern in _patterns(one)]
        names = [name for name in self.unmatched if not any(pattern.fullmatch(name) for pattern in patterns)]
        wanted = contract.source.landing
        return {name: f"{name}: its name does not match {wanted}; rename it, or correct source.landing" for name in names}


@dataclass(frozen=True)
class Fingerprint:
    """The hash of a file's bytes, their number, and the reason why the file as a whole cannot be read, if there is one.

    ``header`` is the header line of a CSV file.
    """

    content_hash: str
    bytes: int
    problem: str | None = None
    header: str | None = None

    @property
    def ingestion_id(self) -> str:
        """The id of the content in the tables."""
        return ids.of_content(self.content_hash)


def _state(size: int | None, modified: datetime | None) -> str:
    return f"{size} bytes of {modified.isoformat() if modified else 'an unknown time'}"


def landing_files(lake: Lake, contract: SourceContract) -> tuple[list[LandingFile], list[str]]:
    """All files of a source, by arrival day and name, and a complaint for each whose day is not a partition."""
    listed = listing(lake, contract)
    return listed.files, listed.complaints


def listing_of_days(lake: Lake, contract: SourceContract, days: Collection[date]) -> Listing:
    """The source's files of at least these arrival days; no other folders are listed if each day has its own."""
    system, root = _file_system(lake, contract)
    folders = _folders(contract, days) if len(days) <= _FEW_DAYS and not contract.source.kafka else None
    if folders is None:
        return listing(lake, contract)
    infos: list[fs.FileInfo] = []
    for folder in folders:
        with suppress(NotADirectoryError):  # a file has the name of an arrival day
            infos += _list(system, f"{root}/{folder}")
    return listing(lake, contract, infos)


def list_landing(lake: Lake, contract: SourceContract) -> Sequence[fs.FileInfo]:
    """Everything below the landing folder, as it is now."""
    return _list(*_file_system(lake, contract))


def list_every_landing(lake: Lake, contract: SourceContract) -> Sequence[fs.FileInfo]:
    """Everything below the folder that has the landing folders of all sources, as it is now, by one listing."""
    system, root = _file_system(lake, contract)
    return _list(system, root if lake.settings.landing else root.removesuffix(f"/{contract.dataset}"))


def below(lake: Lake, contract: SourceContract, infos: Iterable[fs.FileInfo]) -> list[fs.FileInfo]:
    """Those that are in a source's landing folder."""
    _, root = _file_system(lake, contract)
    return [info for info in infos if info.path.startswith(f"{root}/")]


def state_of(infos: Iterable[fs.FileInfo]) -> str:
    """A digest that changes when any file is added, removed or written to."""
    states = sorted(f"{info.path}\0{info.size}\0{info.mtime_ns}" for info in infos)
    return hashlib.sha256("\n".join(states).encode(errors="surrogatepass")).hexdigest()


def listing(lake: Lake, contract: SourceContract, infos: Iterable[fs.FileInfo] | None = None) -> Listing:
    """The source's files among those in landing; a source of Kafka has none.

    :param infos: the result of :func:`list_landing`; by default it is called.
    """
    if contract.source.kafka:
        return Listing([], {}, [])
    _, root = _file_system(lake, contract)
    complete = contract.source.complete_when
    marker_pattern = _pattern(complete.pattern) if complete else None
    pattern = _pattern(contract.source.landing)
    files: list[LandingFile] = []
    completion_markers: dict[date, list[LandingFile]] = defaultdict(list)
    complaints: list[str] = []
    unmatched: dict[str, str] = {}
    for info in list_landing(lake, contract) if infos is None else infos:
        name = info.path.removeprefix(root).lstrip("/")
        marks = marker_pattern.fullmatch(name) if marker_pattern else None
        match = marks or (pattern.fullmatch(name) if _is_meant(name.rpartition("/")[2]) else None)
        if not info.is_file:
            complaints += _unreadable(contract, info, name or root, matches=bool(match))
            continue
        if not match:
            if all(map(_is_meant, name.split("/"))):
                unmatched[name] = _state(info.size, _microseconds(info.mtime))
            continue
        day = _arrival_day(contract, match["day"])
        if isinstance(day, str):
            complaints.append(f"{name}: {day}")
            continue
        file = LandingFile(info.path, name, day, info.size, _microseconds(info.mtime))
        (completion_markers[day] if marks else files).append(file)
    for markers in completion_markers.values():
        markers.sort(key=lambda file: file.name)
    files.sort(key=lambda file: (file.arrival_date, file.name))
    return Listing(files, dict(sorted(completion_markers.items())), sorted(complaints), unmatched)


def _is_meant(name: str) -> bool:
    """Whether the name of a file or folder does not say that others pass it over."""
    return not name.startswith(("_", "."))


def _unreadable(contract: SourceContract, info: fs.FileInfo, name: str, *, matches: bool) -> list[str]:
    """The complaint about a folder that cannot be read, or a file whose name no table can hold, if it may be of the source."""
    if info.type is not fs.FileType.Unknown:
        return []
    if not info.path.endswith("/"):
        text = f"{name}: its name is no UTF-8, or it cannot be read; rename the file, or let this user read it"
        return [text] if matches else []
    may_contain = info.path == f"{name}/" or any(_may_contain(pattern, name) for pattern in _patterns(contract))
    return [f"{name}: the folder cannot be read, nor the files in it; let this user read it"] if may_contain else []


def _arrival_day(contract: SourceContract, text: str) -> date | str:
    """The arrival day in a file's name, or why it is none."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return f"{text} is no day of the calendar; rename the file"
    if day < contract.source.start_date:
        return (
            f"arrival day {day} lies before the first one, {contract.source.start_date}; set source.start_date in the contract "
            f"of {contract.dataset} to {day} or earlier, or take the file away"
        )
    return day


def open_file(lake: Lake, contract: SourceContract, path: str, *, seekable: bool = False) -> BinaryIO:
    """The bytes of a landing file; a stream for Parquet is always seekable, because the footer is read first."""
    system, _ = _file_system(lake, contract)
    if seekable or contract.source.format == "parquet":
        return cast("BinaryIO", system.open_input_file(path))
    return cast("BinaryIO", system.open_input_stream(path, compression=None))


def fingerprint(lake: Lake, contract: SourceContract, file: LandingFile) -> Fingerprint:
    """Hash the file, and check it as a whole: for a broken gzip stream, for missing columns."""
    content_hash, size = _hashed(lake, contract, file.path)
    try:
        _check_whole(lake, contract, file)
    except FileProblem as problem:
        return Fingerprint(content_hash, size, str(problem))
    return Fingerprint(content_hash, size, header=_header(lake, contract, file.path))


def _hashed(lake: Lake, contract: SourceContract, path: str) -> tuple[str, int]:
    """The hash of a file's bytes, and their number."""
    digest, size = hashlib.sha256(), 0
    with open_file(lake, contract, path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def has_content(lake: Lake, contract: SourceContract, file: LandingFile, ingestion_id: str) -> bool:
    """Whether a file is still there in the state in which it was listed, and with the content of an ingestion."""
    try:
        require_unchanged(lake, contract, file)
        return ids.of_content(_hashed(lake, contract, file.path)[0]) == ingestion_id
    except (FileProblem, OSError):
        return False


def read_whole(lake: Lake, contract: SourceContract, file: LandingFile, ingestion_id: str) -> bytes:
    """All bytes of a small file.

    :raises FileProblem: if they are not the content of the ingestion: a replacement may have the same size and time.
    """
    with open_file(lake, contract, file.path) as stream:
        content = stream.read()
    if ids.of_content(hashlib.sha256(content).hexdigest()) != ingestion_id:
        raise _written_to(file)
    return content


def require_unchanged(lake: Lake, contract: SourceContract, file: LandingFile) -> None:
    """Refuse a file that was written to since it was listed: its rows would be entered under the hash of another content.

    :raises FileProblem: naming it. The next run ingests the file in its state at that time.
    """
    system, _ = _file_system(lake, contract)
    now = system.get_file_info(file.path)
    if not now.is_file or (now.size, _microseconds(now.mtime)) != (file.size, file.modified):
        raise _written_to(file)


def _written_to(file: LandingFile) -> FileProblem:
    return FileProblem(f"{file.name} was written to while it was read: nothing of it is taken; run it again once it is complete")


def absent_names(lake: Lake, contract: SourceContract, names: Collection[str]) -> set[str]:
    """The names below the landing folder that no file has now; none if the folder is gone or empty, which may be a lost disk.

    Those of a stage's files are not looked for: its landing folder has no other ones.
    """
    system, root = _file_system(lake, contract)
    if root.startswith(f"{lake.root}/stages/") or not system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        return set()
    absent = set()
    for name in names:
        with suppress(OSError):  # a folder that cannot be read is not empty
            if system.get_file_info(f"{root}/{name}").type is fs.FileType.NotFound:
                absent.add(name)
    return absent


def header_in_landing(lake: Lake, contract: SourceContract, name: str, content_hash: str) -> str | None:
    """The header line of an ingested CSV file; None if landing no longer has the file with this content.

    :param name: its path below the landing folder.
    """
    system, root = _file_system(lake, contract)
    path = f"{root}/{name}"
    if not system.get_file_info(path).is_file:
        return None
    return _header(lake, contract, path) if _hashed(lake, contract, path)[0] == content_hash else None


def _header(lake: Lake, contract: SourceContract, path: str) -> str | None:
    """The header line of a readable CSV file; None for a file without a header, and for other formats."""
    if contract.source.format != "csv" or contract.source.columns:
        return None
    with open_file(lake, contract, path) as stream:
        lines = islice(numbered_lines(unzipped(stream)), contract.source.skip_lines, None)
        return header_line(lines, contract.source)[1].rstrip(b"\r\n").decode() or None


def count_records(lake: Lake, contract: SourceContract, file: LandingFile) -> int:
    """The number of rows that the file would add to Bronze: all its records, including malformed ones.

    :raises FileProblem: when the file as a whole cannot be read.
    """
    with open_file(lake, contract, file.path) as stream:
        if contract.source.format == "parquet":
            return cast("int", pq.ParquetFile(stream).metadata.num_rows)
        return sum(1 for _ in read_records(stream, contract.source, contract.columns_read))


def _check_whole(lake: Lake, contract: SourceContract, file: LandingFile) -> None:
    """:raises FileProblem: when the file as a whole cannot be read."""
    if contract.source.format == "parquet":
        _check_parquet(lake, contract, file)
        return
    if contract.source.format == "json":
        with open_file(lake, contract, file.path) as stream:
            check_names(json_lines(stream, contract.source), contract)
    if contract.source.array:
        with open_file(lake, contract, file.path) as stream:
            check_array(stream)
        return
    with open_file(lake, contract, file.path) as stream:
        next(read_records(stream, contract.source, contract.columns_read), None)
    with open_file(lake, contract, file.path) as stream:
        check_readable(stream)


def _check_parquet(lake: Lake, contract: SourceContract, file: LandingFile) -> None:
    try:
        with open_file(lake, contract, file.path) as handle:
            names = pq.ParquetFile(handle).schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        msg = f"not a Parquet file ({error}); have the file sent again"
        raise FileProblem(msg) from None
    twice = sorted(column for column in repeated_names(names) if column in contract.columns_read)
    if twice:
        raise FileProblem(f"names column {', '.join(twice)} twice; have the file sent again with a name for each column")
    missing = [column for column in contract.columns_read if column not in names]
    if missing:
        msg = f"column {', '.join(missing)} is missing; have the file sent again, or take the column out of the contract"
        raise FileProblem(msg)


def _file_system(lake: Lake, contract: SourceContract) -> tuple[fs.FileSystem, str]:
    root = lake.landing_of(contract.dataset)
    if object_store.is_s3(root):
        return object_store.S3.of(lake.storage_options).file_system(), root.partition("://")[2]
    if "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        return system, path
    return fs.LocalFileSystem(), root


def _list(system: fs.FileSystem, folder: str) -> Sequence[fs.FileInfo]:
    """All files below a folder. A file whose name no table can hold has an unknown type, and so has an unreadable folder, as
    ``path/``.
    """
    if isinstance(system, fs.LocalFileSystem):
        return list(_local_files(folder))
    return cast("Sequence[fs.FileInfo]", system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True)))


def _local_files(folder: str) -> Iterator[fs.FileInfo]:
    """Links to files are followed, links to folders are not: they may form a cycle."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except PermissionError:
        yield fs.FileInfo(f"{_shown(folder)}/", fs.FileType.Unknown)
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _local_files(entry.path)
        elif _shown(entry.path) != entry.path:
            yield fs.FileInfo(_shown(entry.path), fs.FileType.Unknown)
        elif entry.is_file():
            with suppress(FileNotFoundError):  # it was there a moment before
                state = entry.stat()
                yield fs.FileInfo(entry.path, fs.FileType.File, size=state.st_size, mtime_ns=state.st_mtime_ns)


def _shown(path: str) -> str:
    """A path with the bytes that are no UTF-8 as escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _folders(contract: SourceContract, days: Collection[date]) -> list[str] | None:
    """The folders below landing that hold the files of these days and nothing else; None if the contract implies none.

    Folders of markers come first: files written before a listed marker are then listed too.
    """
    folders: list[str] = []
    for pattern in _patterns(contract):
        before, after = pattern.split("{arrival_date}")
        if _WILDCARD.search(before) or not after.startswith("/"):
            return None
        folders += [f"{before}{day}" for day in sorted(days)]
    return list(dict.fromkeys(folders))


def _patterns(contract: SourceContract) -> Sequence[str]:
    """The patterns of markers or manifests, if there are any, and of files."""
    complete = contract.source.complete_when
    return [*([complete.pattern] if complete else []), contract.source.landing]


def _may_contain(pattern: str, folder: str) -> bool:
    """Whether a file in a folder may match a pattern: the text before the first wildcard is compared, digits with any digit."""
    begin = _WILDCARD.split(pattern.replace("{arrival_date}", "9999-99-99"), maxsplit=1)[0]
    return all(wanted == char or (wanted == "9" and char.isdigit()) for wanted, char in zip(begin, folder))


def _microseconds(modified: datetime | None) -> datetime | None:
    """The time in UTC, as the ledger stores it; None if the object store gives none."""
    return modified.astimezone(timezone.utc) if modified else None


def _pattern(landing: str) -> re.Pattern[str]:
    """The contract's glob as an expression with the arrival day as the group ``day``."""
    before, after = (
        translate(part).removeprefix("(?s:").removesuffix(")\\Z").removesuffix(")\\z") for part in landing.split("{arrival_date}")
    )
    return re.compile(f"(?s:{before}(?P<day>\\d{{4}}-\\d{{2}}-\\d{{2}}){after})")
