"""The files that lie below a table's address, whether Delta knows of them or not."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from deltalake.fs import DeltaStorageHandler
from pyarrow import dataset as ds
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from deltalake import DeltaTable

_LOG = re.compile(r"_delta_log/(\d{20})\.(json|checkpoint)\b.*")


class LogFile(NamedTuple):
    """A commit or a checkpoint in a table's log."""

    version: int
    is_checkpoint: bool
    written: datetime


@dataclass(frozen=True)
class Storage:
    """What lay below a table's address when it was asked for first.

    :param options: delta-rs's, for an object store.
    """

    address: str
    options: Mapping[str, str]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Every file by its path below the address, with its bytes."""
        return {info.path: info.size for info in self._files}

    @cached_property
    def log(self) -> list[LogFile]:
        """The commits and checkpoints of the table."""
        named = [(match, info.mtime) for info in self._files if (match := _LOG.fullmatch(info.path))]
        return [LogFile(int(match[1]), match[2] == "checkpoint", when.astimezone(timezone.utc)) for match, when in named]

    @cached_property
    def _local(self) -> fs.FileSystem | None:
        if "://" in self.address and not self.address.startswith("file://"):
            return None
        return fs.SubTreeFileSystem(unquote(self.address.removeprefix("file://")), fs.LocalFileSystem())

    @cached_property
    def _system(self) -> fs.FileSystem:
        return self._local or fs.PyFileSystem(DeltaStorageHandler(self.address, dict(self.options)))

    @cached_property
    def _files(self) -> list[fs.FileInfo]:
        found = self._system.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        return [info for info in found if info.type == fs.FileType.File]

    def with_int96(self, table: DeltaTable, partitions: Collection[Any]) -> set[Any]:
        """Those of some partitions with a file in which Spark wrote times as INT96, read from the files' footers.

        delta-rs reads these as nanoseconds: beyond 1677 and 2262 it would write other times (measured: 2084 for 1500).
        """
        if not partitions:
            return set()
        columns = table.metadata().partition_columns
        wanted = ds.field(columns[0]).isin(list(partitions)) if columns else None
        found = set()
        for file in table.to_pyarrow_dataset(filesystem=self._local).get_fragments(wanted):
            schema = file.metadata.schema
            if any(schema.column(place).physical_type == "INT96" for place in range(len(schema))):
                found.add(ds.get_partition_keys(file.partition_expression)[columns[0]] if columns else None)
        return found

    def with_checksums(self, paths: Iterable[str]) -> list[str]:
        """Those of some files that are there, without hidden ones, but with the checksums that Spark keeps of files.

        A checksum of a file that stays, stays.
        """
        hidden = {path for path in self.sizes if PurePosixPath(path).name.startswith(".")}
        wanted = set(paths) & self.sizes.keys()
        going = wanted - hidden
        checksums = {path for path in wanted & hidden if _told_of(path) in going or _told_of(path) not in self.sizes}
        return sorted(going | checksums)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; one that is gone already is none the worse."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._system.delete_file(path)


def _told_of(checksum: str) -> str:
    """The file that ``.<name>.crc`` is about."""
    path = PurePosixPath(checksum)
    return f"{path.with_name(path.name[1:].removesuffix('.crc'))}"
