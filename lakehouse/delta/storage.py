"""The files in a table's folder, whether the Delta log references them or not: for maintenance."""

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
    """The files in a table's folder as they were when first listed.

    :param options: delta-rs options, for an object store.
    """

    address: str
    options: Mapping[str, str]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size in bytes of every file, by its path relative to the address."""
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
        infos = self._system.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        return [info for info in infos if info.type == fs.FileType.File]

    def with_int96(self, table: DeltaTable, partitions: Collection[Any]) -> set[Any]:
        """The partitions among ``partitions`` with a file in which Spark wrote times as INT96, from the files' footers.

        delta-rs reads INT96 as nanoseconds: times before 1677 and after 2262 would be written wrong (measured: 2084 for 1500).
        """
        if not partitions:
            return set()
        columns = table.metadata().partition_columns
        wanted = ds.field(columns[0]).isin(list(partitions)) if columns else None
        with_int96 = set()
        for file in table.to_pyarrow_dataset(filesystem=self._local).get_fragments(wanted):
            schema = file.metadata.schema
            if any(schema.column(place).physical_type == "INT96" for place in range(len(schema))):
                with_int96.add(ds.get_partition_keys(file.partition_expression)[columns[0]] if columns else None)
        return with_int96

    def with_checksums(self, paths: Iterable[str]) -> list[str]:
        """The existing files among ``paths``, without hidden files, but with the checksum files that Spark wrote for them.

        The checksum of a file that is not deleted is kept.
        """
        hidden = {path for path in self.sizes if PurePosixPath(path).name.startswith(".")}
        wanted = set(paths) & self.sizes.keys()
        deleted = wanted - hidden
        checksums = {path for path in wanted & hidden if _checked_by(path) in deleted or _checked_by(path) not in self.sizes}
        return sorted(deleted | checksums)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a file that does not exist is ignored."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._system.delete_file(path)


def _checked_by(checksum: str) -> str:
    """The file whose checksum is in ``.<name>.crc``."""
    path = PurePosixPath(checksum)
    return f"{path.with_name(path.name[1:].removesuffix('.crc'))}"
