"""A Delta table of a lake: where it is, and how it is opened and read.

Only this package knows the options of an object store and the tables that are kept open. Writing is in ``lakehouse.delta``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakehouse.lake import replica, table_cache, table_io
from lakehouse.lake.delta_rs_internals import has_replica, transaction_version
from lakehouse.lake.table_io import cache_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse.lake.table_cache import Answer, Entry, Found
    from lakehouse.lake.table_io import Where


@dataclass(frozen=True)
class Table:
    """A table, whether or not it exists.

    :param address: its folder or URI.
    :param options: the options of delta-rs; if they carry a table cache, it keeps the opened table for later
        reads.
    """

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """Layer and name: ``silver/orders``."""
        return "/".join(self.address.rstrip("/").split("/")[-2:])

    def open(self) -> DeltaTable | None:
        """The table at its newest version; None if it does not exist.

        :raises DamagedLogError: if its log cannot be read.
        """
        cache = cache_of(self.options)
        if cache is None:
            return self.snapshot()
        in_store = partial(table_io.open_listed, self.address, self.options) if "://" in self.address else None
        return cache.table(self.address, partial(table_io.open_snapshot, self.address, self.options), in_store, self.options)

    def snapshot(self) -> DeltaTable | None:
        """The table at its newest version, as an object that no cache updates; None if it does not exist.

        It stays at its version: a write through it conflicts with every commit since.

        :raises DamagedLogError: if its log cannot be read.
        """
        table_cache.note_snapshot()
        return table_io.open_snapshot(self.address, self.options)

    def version(self) -> int:
        """The newest version, -1 if the table does not exist."""
        table = self.open()
        return -1 if table is None else table.version()

    def newest_version(self) -> int:
        """The version of :meth:`version`, looked up again also within a step: to find that another writer has committed.

        Whatever the step reads from now on is as new as this version.
        """
        return newest_versions([self])[0]

    def newest_snapshot(self) -> DeltaTable | None:
        """The table of :meth:`snapshot`. Whatever the step reads from now on is as new as this version."""
        table_cache.look_again(self.address)
        table = self.open()
        if table is None or cache_of(self.options) is None:
            return table
        copy = _copied(table) or table_io.open_snapshot(self.address, self.options)
        if copy is not None and copy.version() != table.version():
            table_cache.look_again()
        _look_again_behind([self])
        return copy

    def is_beyond(self, version: int) -> bool:
        """Whether the newest version, looked up again, is later than ``version``.

        If it is, whatever the step reads from now on is looked up again, too.
        """
        return is_any_beyond([(self, version)])

    def transaction(self, app_id: str) -> int | None:
        """The version of a Delta transaction that the table records; None if it records none, or does not exist."""
        table = self.open()
        return None if table is None else transaction_version(table, app_id)

    def committed(self) -> None:
        """Note a commit of this process, so that running steps see it, and the table if it is new."""
        table_io.note_table(self.address)
        table_cache.note_commit(self.address)

    def read(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table | None:
        """The rows that meet ``where``: each named column holds one of the values given for it. None without a table."""
        table = self.open()
        if table is None:
            return None
        query = table_io.question(self.address, columns, where)
        return self.answer(table, query, partial(table_io.read_version, table, columns, where))

    def pieces(self, columns: Sequence[str], where: Where | None = None) -> Iterator[pa.Table]:
        """The rows of :meth:`read`, some hundred thousand at a time; none if the table does not exist."""
        table = self.open()
        if table is not None:
            yield from table_io.pieces_of_version(table, columns, where)

    def distinct(self, columns: Sequence[str], where: Where | None = None) -> pa.Table | None:
        """The distinct combinations of values in ``columns``; None if the table does not exist."""
        table = self.open()
        return None if table is None else table_io.distinct_of_version(table, columns, where)

    def answer(self, table: DeltaTable, query: Hashable, compute: Callable[[], Answer], also: Hashable = None) -> Answer:
        """The result of ``compute`` for the open table; taken from the cache if it holds the one of the table's version.

        :param query: from :func:`lakehouse.lake.table_io.question`.
        :param also: anything else that the result depends on.
        """
        cache = cache_of(self.options)
        return compute() if cache is None else cache.answer(table, query, compute, also)

    def parsed(self, table: DeltaTable, where: Where, parse: Callable[[pa.Table], list[Entry]]) -> list[Entry]:
        """The entries that ``parse`` makes of the rows of whole partitions of the open table; with a cache, only files that it
        does not cover are parsed.

        :param parse: the entry of a row must not depend on other rows.
        """
        return table_io.parsed(table, where, parse, self.options)


def _copied(table: DeltaTable) -> DeltaTable | None:
    with suppress(OSError):  # somebody may have emptied the cache of this machine
        return replica.copied(table) if has_replica(table) else None
    return None


def newest_versions(tables: Sequence[Table]) -> list[int]:
    """The versions of some tables, see :meth:`Table.newest_version`."""
    _look_again_at(tables)
    versions = [table.version() for table in tables]
    _look_again_behind(tables)
    return versions


def is_any_beyond(versions: Iterable[tuple[Table, int]]) -> bool:
    """Whether :meth:`Table.is_beyond` holds for any of some tables; they are looked at together."""
    known = [*versions]
    _look_again_at([table for table, _ in known])
    if all(table.version() <= version for table, version in known):
        return False
    table_cache.look_again()
    return True


def _look_again_at(tables: Sequence[Table]) -> None:
    for table in tables:
        table_cache.look_again(table.address)
    cache = cache_of(tables[0].options) if len(tables) > 1 else None
    if cache is not None:
        cache.begin_looks(table.address for table in tables)


def _look_again_behind(tables: Sequence[Table]) -> None:
    cache = cache_of(tables[0].options) if tables else None
    if cache is not None:
        cache.look_again_behind(table.address for table in tables)


def confirmed(look: Callable[[], Found | None]) -> Found | None:
    """What ``look`` finds; before anything counts as found, it looks once more at tables that are as new as each other.

    A step may have looked at a table before another process has committed to it, and at the record of the commit later.
    """
    found = look()
    if found is not None:
        table_cache.look_again()
        found = look()
    return found
