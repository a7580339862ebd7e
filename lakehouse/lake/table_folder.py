"""The folder of a table in an object store: its log and its small data files, and what this machine keeps of them.

Entries, checkpoints and data files never change. The log is kept in the user's cache folder for later processes of this machine;
that of a table which nobody has opened for a week is removed, and so are small data files of the books (``ops``) that nobody has
read for a week. Other small data files are kept in memory. What an entry of a log says is here, too, and the count of what this
process does in object stores.

Which version of a table is read, and how it is written, is in ``replica``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping  # noqa: TC003 (a NamedTuple's annotation)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import obstore
import platformdirs
import psutil
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError

from lakehouse.object_store import S3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from obstore.store import S3Store

ENTRY = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
LAST_CHECKPOINT = "_last_checkpoint"
#: Checkpoints in several parts, or with files beside the log: delta-rs opens such a table itself.
_OTHER_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..*")
#: With more commits since the checkpoint from which a log is known, a newer one is read.
FAR = 20
_AT_ONCE = 16
_KEPT_SECONDS = 7 * 24 * 3600

Answer = TypeVar("Answer")


def entry_name(version: int) -> str:
    """The name of a version's entry in its log."""
    return f"{version:020}.json"


def checkpoint_name(version: int) -> str:
    """The name of a version's checkpoint."""
    return f"{version:020}.checkpoint.parquet"


def in_log(name: str) -> str:
    """The path of a file of the log below the table's folder."""
    return f"_delta_log/{name}"


def log_of(work: Path) -> Path:
    """The log below a folder of this machine."""
    return work / "_delta_log"


def versions_of(form: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """The versions of the files with names of a form, in order."""
    return sorted(int(match[1]) for match in map(form.fullmatch, names) if match is not None)


def actions_of(entry: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The actions of an entry with their kinds."""
    for line in entry.splitlines():
        yield from json.loads(line).items()


def signed(entry: bytes) -> bytes:
    """An entry with a random number: two that say the same are not taken for one."""
    lines = entry.splitlines()
    for place, line in enumerate(lines):
        if line.startswith(b'{"commitInfo"'):
            action = json.loads(line)
            action["commitInfo"]["txnId"] = f"{uuid.uuid4()}"
            lines[place] = json.dumps(action).encode()
    return b"\n".join(lines)


def new_files(entry: bytes) -> list[str]:
    """The paths of the data files that a commit has added."""
    return [action["path"] for kind, action in actions_of(entry) if kind in {"add", "cdc"}]


def files_of_feed(entry: bytes) -> dict[str, int]:
    """The files that the change feed of a version is read from, with their sizes."""
    sizes: dict[str, dict[str, int]] = {"cdc": {}, "add": {}, "remove": {}}
    for kind, action in actions_of(entry):
        if kind == "cdc" or (kind in sizes and action.get("dataChange")):
            sizes[kind][action["path"]] = action.get("size") or 0
    return sizes["cdc"] or sizes["add"] | sizes["remove"]


def commute(ours: bytes, other: bytes) -> bool:
    """Whether a commit that only appends may come behind another one that it has not seen, by the rules of Delta."""
    own, of_other = [*actions_of(ours)], [*actions_of(other)]
    apps = {action["appId"] for kind, action in own if kind == "txn"}
    return {kind for kind, _ in own} <= {"commitInfo", "add", "txn"} and not any(
        kind in {"metaData", "protocol"} or (kind == "txn" and action["appId"] in apps) for kind, action in of_other
    )


def stated(ask: Callable[[], Answer]) -> Answer:
    """An answer of the store, whose errors become those of the readers of tables."""
    try:
        return ask()
    except BaseError as problem:
        raise OSError(f"{problem}") from None


class TableFolder:
    """The folder of a table in its store; a name is the path below it."""

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        self.address, self.options = address.rstrip("/"), options
        bucket, _, self._path = self.address.partition("://")[2].partition("/")
        self.connection = S3.of(options)
        self._store = _connected(bucket, self.connection)

    def log(self, since: int) -> dict[str, str]:
        """The names in the log from those of a version on, with their ETags; all of them from version 0 on."""
        folder = f"{self._path}/_delta_log"
        count_request(self.address, "listings")
        offset = f"{folder}/{since:020}" if since > 0 else None
        found = obstore.list(self._store, folder, offset=offset, chunk_size=1000).collect()
        return {meta["path"].removeprefix(f"{folder}/"): f"{meta['e_tag']}" for meta in found}

    def sizes(self) -> dict[str, int]:
        """The bytes of all files in the folder, by their names."""
        count_request(self.address, "listings")
        found = stated(lambda: obstore.list(self._store, self._path, chunk_size=1000).collect())
        return {meta["path"].removeprefix(f"{self._path}/"): meta["size"] for meta in found}

    def whole_log(self) -> dict[str, str]:
        """The same from the last checkpoint on, where it is as the log says."""
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            count_request(self.address, "log entries")
            last = json.loads(self._get(in_log(LAST_CHECKPOINT)))
            names = self.log(last["version"])
            if checkpoint_name(last["version"]) in names and entry_name(last["version"]) in names:
                return names
        return self.log(0)

    def read(self, names: Iterable[str]) -> list[bytes]:
        """Entries and checkpoints of the log; several at once."""
        wanted = [*names]
        count_request(self.address, "log entries", len(wanted))
        return self._read(wanted)

    def read_small(self, names: Iterable[str]) -> list[pa.Buffer]:
        """Data files; those that were read before are in memory, the others are fetched at once."""
        wanted = [*names]
        kept = {name: content for name in wanted if (content := small_file(self.address, name)) is not None}
        missing = [name for name in wanted if name not in kept]
        count_request(self.address, "files", len(missing))
        for name, content in zip(missing, map(pa.py_buffer, stated(lambda: self._read(missing)))):
            count_request(self.address, "bytes", content.size)
            keep_small_file(self.address, name, content)
            kept[name] = content
        return [kept[name] for name in wanted]

    def _read(self, names: list[str]) -> list[bytes]:
        if len(names) <= 1:
            return [self._get(name) for name in names]
        with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as threads:
            return [*threads.map(self._get, names)]

    def _get(self, name: str) -> bytes:
        return bytes(obstore.get(self._store, f"{self._path}/{name}").bytes())

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file.

        :raises OSError: if the store does not answer, or refuses it.
        """
        count_request(self.address, "writes")
        sent = content if isinstance(content, bytes) else content.to_pybytes()
        stated(lambda: obstore.put(self._store, f"{self._path}/{name}", sent))
        if not name.startswith("_delta_log/"):
            keep_small_file(self.address, name, pa.py_buffer(content))

    def put_new(self, name: str, content: bytes) -> str | None:
        """Write a file on the condition that there is none; returns its ETag, None if there is one."""
        count_request(self.address, "writes")
        with suppress(AlreadyExistsError):
            return f"{obstore.put(self._store, f'{self._path}/{name}', content, mode='create')['e_tag']}"
        return None


def names_below(address: str, options: Mapping[str, str]) -> set[str]:
    """The names of the folders directly below an address of S3."""
    bucket, _, path = address.partition("://")[2].partition("/")
    found = stated(lambda: obstore.list_with_delimiter(_connected(bucket, S3.of(options)), path))
    return {f"{prefix}".rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]}


@lru_cache(maxsize=64)
def _connected(bucket: str, connection: S3) -> S3Store:
    return connection.conditional(f"s3://{bucket}")


# What this machine keeps


def _cache_folder() -> Path:
    return platformdirs.user_cache_path("lakehouse", appauthor=False)


@lru_cache(maxsize=1)
def _work_folders() -> Path | None:
    """The folder of the open tables of this machine; None if the cache cannot be written. What nobody needs any more goes."""
    with suppress(OSError, RuntimeError):
        folder = _cache_folder() / "open"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.iterdir():
            host, _, pid = path.name.rpartition("-")[0].rpartition("-")
            if host == socket.gethostname() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(path, ignore_errors=True)
        old = time.time() - _KEPT_SECONDS
        for path in [*_cache_folder().glob("logs/*/*"), *_cache_folder().glob("files/*/*")]:
            with suppress(OSError):  # another process removes it, too
                if path.stat().st_mtime < old:
                    path.unlink() if path.is_file() else shutil.rmtree(path)
        return folder
    return None


def new_work_folder() -> Path:
    """A folder of this machine for an open table, with an empty log."""
    above = _work_folders()
    if above is not None:
        above.mkdir(mode=0o700, parents=True, exist_ok=True)  # somebody may have emptied the cache
    folder = Path(tempfile.mkdtemp(prefix=f"{socket.gethostname()}-{os.getpid()}-", dir=above))
    log_of(folder).mkdir()
    return folder


def remove_work_folder(folder: Path, pid: int) -> None:
    """Remove the folder of an open table, unless this is a copy of the process that has opened it."""
    if pid == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


#: A version with the ETag of its entry.
Proof = tuple[int, str]


class KeptLog:
    """The entries and checkpoints of a table's log that are kept on this machine.

    They are in a folder with a random name, which begins with an opening that finds another table in the place of the known one.
    What proves in a listing that it is the same table is kept beside it: the newest entry of the last listing, and those that
    this machine has written since.
    """

    def __init__(self, folder: TableFolder, name: str | None = None) -> None:
        self._folder = folder
        source = f"{folder.connection.endpoint} {folder.address}"
        self._of_table: Path | None = None
        if _work_folders() is not None:
            self._of_table = _cache_folder() / "logs" / uuid.uuid5(uuid.NAMESPACE_URL, source).hex
        #: Up to which version the log is kept, with its proofs; none if it is not.
        self.proofs: list[Proof] = []
        self._name = name or self._read_newest()

    def _read_newest(self) -> str:
        if self._of_table is not None:
            with suppress(OSError, ValueError):
                name, proofs = json.loads((self._of_table / _NEWEST).read_text(encoding="utf-8"))
                self.proofs = [(version, tag) for version, tag in proofs]
                return f"{name}"
        return uuid.uuid4().hex

    def begun_again(self) -> KeptLog:
        """A folder of its own for another table."""
        return KeptLog(self._folder, uuid.uuid4().hex)

    def checkpoints(self) -> list[int]:
        """The versions of which a checkpoint is kept."""
        with suppress(OSError):
            if self._of_table is not None:
                return versions_of(CHECKPOINT, [path.name for path in (self._of_table / self._name).iterdir()])
        return []

    def file(self, name: str) -> bytes | None:
        """A file of the log; None if it is not kept, or not as it was written."""
        return None if self._of_table is None else _whole(self._of_table / self._name / name)

    def add(self, name: str, content: bytes) -> None:
        """Keep a file of the log; an entry in the place of another one begins another history than that of later files."""
        if self._of_table is not None:
            with suppress(OSError):
                if ENTRY.fullmatch(name) and self.file(name) not in {None, content}:
                    self._forget(lambda version: version >= int(name[:20]))
                (self._of_table / self._name).mkdir(mode=0o700, parents=True, exist_ok=True)
                _replace(self._of_table / self._name / name, _digest(content) + content)
                if CHECKPOINT.fullmatch(name):
                    before = self.checkpoints()[-2:][0]
                    self._forget(lambda version: version < before)

    def _forget(self, is_meant: Callable[[int], bool]) -> None:
        for path in (self._of_table / self._name).iterdir() if self._of_table is not None else ():
            if path.name[:20].isdigit() and is_meant(int(path.name[:20])):
                path.unlink(missing_ok=True)

    def note(self, proofs: Sequence[Proof]) -> None:
        """Note up to which version the log is kept, unless a later one is noted."""
        if self._of_table is None:
            return
        with suppress(OSError, ValueError):
            with suppress(FileNotFoundError):
                name, known = json.loads((self._of_table / _NEWEST).read_text(encoding="utf-8"))
                if name == self._name and known[-1][0] > proofs[-1][0]:
                    return
            os.utime(self._of_table / self._name)
            _replace(self._of_table / _NEWEST, json.dumps([self._name, proofs]).encode())


class UnknownFormError(Exception):
    """A table that is not opened through a replica: delta-rs has to open it itself."""


class LogAsItIs(NamedTuple):
    """The log of a table: a checkpoint, if there is one, and all entries since, by name; and its newest entry."""

    kept: KeptLog
    files: Mapping[str, bytes]
    newest: Proof


def log_as_it_is(folder: TableFolder) -> LogAsItIs | None:
    """The log of a table now; what this machine keeps of it is not read from the store. None if there is no table.

    :raises UnknownFormError: if delta-rs has to read it.
    """
    kept, names = KeptLog(folder), dict[str, str]()
    known = kept.proofs[-1][0] if kept.proofs else -1
    base = max((version for version in kept.checkpoints() if version <= known), default=-1)
    if known >= 0:
        names = folder.log(kept.proofs[0][0])
    if known < 0 or not is_proved(kept.proofs, names) or (base < 0 and kept.file(entry_name(0)) is None):
        kept, known, base, names = kept.begun_again(), -1, -1, folder.whole_log()
    versions = versions_of(ENTRY, names)
    if not versions:
        return None
    newest = versions[-1]
    checkpoints = [version for version in versions_of(CHECKPOINT, names) if version <= newest]
    if any(_OTHER_CHECKPOINT.fullmatch(name) and not CHECKPOINT.fullmatch(name) for name in names):
        msg = "its checkpoints have another form"
        raise UnknownFormError(msg)
    if checkpoints and (known < 0 or newest - base > FAR):
        base = max(base, checkpoints[-1])
    # To commit behind a checkpoint, delta-rs needs the entry of its version, too.
    wanted = [entry_name(version) for version in range(max(base, 0), newest + 1)]
    wanted += [checkpoint_name(base)] if base >= 0 else []
    # What is kept of later versions is not proved.
    files = {name: content for name in wanted if int(name[:20]) <= known and (content := kept.file(name)) is not None}
    missing = [name for name in wanted if name not in files]
    try:
        files |= dict(zip(missing, folder.read(map(in_log, missing))))
    except FileNotFoundError as problem:  # maintenance has shortened the log meanwhile, or it is damaged
        raise UnknownFormError(f"{problem}") from None
    for name in missing:
        kept.add(name, files[name])
    return LogAsItIs(kept, files, (newest, names[entry_name(newest)]))


def is_proved(proofs: Sequence[Proof], names: Mapping[str, str]) -> bool:
    """Whether a listing shows the entries by which a table is known."""
    return all(names.get(entry_name(version)) == tag for version, tag in proofs)


_NEWEST = "newest"
_DIGEST_BYTES = 16


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_DIGEST_BYTES]


def _whole(path: Path) -> bytes | None:
    """The content of a kept file, behind its digest; None if there is none, or a power failure has cut it off."""
    with suppress(OSError):
        kept = path.read_bytes()
        content = kept[_DIGEST_BYTES:]
        if content and kept[:_DIGEST_BYTES] == _digest(content):
            return content
        path.unlink(missing_ok=True)
    return None


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    part.write_bytes(content)
    part.replace(path)


SMALL_FILES_BYTES, _SMALL_BYTES, _LOG_FILE_BYTES = 2**26, 2**23, 2**16
_small_files: dict[tuple[str, str], pa.Buffer] = {}
_held_bytes = [0]
_SMALL_LOCK = Lock()


def is_small(size: int) -> bool:
    """Whether a data file of so many bytes is read as a whole, and kept in memory."""
    return size < _SMALL_BYTES


def small_file(address: str, path: str) -> pa.Buffer | None:
    """A data file that is kept in memory, or on this machine; None if it is not."""
    with _SMALL_LOCK:
        kept = _small_files.pop((address, path), None)
        if kept is not None:
            _small_files[address, path] = kept
    if kept is None and (on_disk := _on_disk(address, path)) is not None:
        content = _whole(on_disk)
        if content is not None:
            kept = pa.py_buffer(content)
            _hold(address, path, kept)
            with suppress(OSError):
                os.utime(on_disk)
    return kept


def keep_small_file(address: str, path: str, content: pa.Buffer) -> None:
    """Keep a data file if it is small: it never changes."""
    if is_small(content.size):
        _hold(address, path, content)
        if content.size < _LOG_FILE_BYTES and (on_disk := _on_disk(address, path)) is not None:
            with suppress(OSError):
                on_disk.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                written = content.to_pybytes()
                _replace(on_disk, _digest(written) + written)


def _on_disk(address: str, path: str) -> Path | None:
    """Where a data file of the books is kept on this machine: a log has many small ones. Rows of other tables are not kept."""
    if address.rstrip("/").rsplit("/", 2)[-2] != "ops" or _work_folders() is None:
        return None
    return _cache_folder() / "files" / uuid.uuid5(uuid.NAMESPACE_URL, address).hex / path.replace("/", "%2F")


def _hold(address: str, path: str, content: pa.Buffer) -> None:
    """Keep a file in memory; those that were not read for the longest time go."""
    with _SMALL_LOCK:
        if (address, path) not in _small_files:
            _held_bytes[0] += content.size
        _small_files[address, path] = content
        while _held_bytes[0] > SMALL_FILES_BYTES and len(_small_files) > 1:
            _held_bytes[0] -= _small_files.pop(next(iter(_small_files))).size


#: What this process has done in object stores, by table and kind.
_requests: Counter[tuple[str, str]] = Counter()


def is_local(uri: str) -> bool:
    """Whether an address is on a disk of this machine."""
    return "://" not in uri or uri.startswith("file://")


def count_request(path: str, kind: str, amount: int = 1) -> None:
    """Count what is done with a table, if it is in an object store: a request or some, or bytes."""
    if path and amount and not is_local(path):
        _requests["/".join(path.rstrip("/").split("/")[-2:]), kind] += amount


@contextmanager
def counted_requests() -> Iterator[dict[str, dict[str, int]]]:
    """What is done in object stores within the context, by table and kind; known at its end."""
    before, during = _requests.copy(), dict[str, dict[str, int]]()
    yield during
    for (table, kind), amount in sorted((_requests - before).items()):
        during.setdefault(table, {})[kind] = amount
