"""Delta tables that are kept open between reads, with what was read from them.

Opening a table reads its log; a table that is open already reads only the commits since. A caller with many reads to make owns
a :class:`TableCache` and passes on the settings that :func:`with_table_cache` returns. A read goes through a cache if and only
if it was handed such settings: they carry it in their ``storage_options``, which every read takes. Nothing is global, and two
callers that share no settings share no cache.

Reading is in ``table_io``; no other module accesses a cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sized

    from deltalake import DeltaTable

    from lakehouse.settings import Settings

_KEEP_ROWS = 20_000

Answer = TypeVar("Answer", bound="Sized")
Entry = TypeVar("Entry")


class TableCache:
    """Open tables by address, and answers about their newest versions, such as rows, by question.

    Each table is brought to its newest version whenever it is requested, so a cache never hides a commit. It must not be
    shared between threads, and no table in it may be deleted meanwhile.

    :param open_table: opens the table at an address, None if there is none; by default with delta-rs and the storage options
        of the read.
    """

    def __init__(self, open_table: Callable[[str], DeltaTable | None] | None = None) -> None:
        self._open_table = open_table
        self._tables: dict[str, DeltaTable] = {}
        self._answers: dict[Hashable, tuple[tuple[int, Hashable] | None, Any]] = {}
        self._entries: dict[Hashable, tuple[frozenset[str], list[Any]]] = {}

    def table(self, path: str, default: Callable[[], DeltaTable | None]) -> DeltaTable | None:
        """The table at its newest version; None if it does not exist.

        :param default: opens the table if the cache was created without ``open_table``.
        """
        table = self._tables.get(path)
        if table is not None:
            if not _is_newest(path, table.version()):
                table.update_incremental()
            return table
        table = default() if self._open_table is None else self._open_table(path)
        if table is not None:
            self._tables[path] = table
        return table

    def answer(self, table: DeltaTable, question: Hashable, compute: Callable[[], Answer], also: Hashable = None) -> Answer:
        """The answer to a question about a table, computed unless it is cached for the table's version.

        Answers are shared: nobody may change one. Large ones are not kept.

        :param also: what else the answer depends on.
        """
        known, answer = self._answers.get(question, (None, None))
        if answer is None or known != (table.version(), also):
            answer = compute()
            if len(answer) <= _KEEP_ROWS:
                self._answers[question] = ((table.version(), also), answer)
        return cast("Answer", answer)

    def grown(self, question: Hashable, files: frozenset[str], parse: Callable[[frozenset[str]], list[Entry]]) -> list[Entry]:
        """The entries of data files, which never change: parsed only from those that the last answer did not cover.

        They are kept whatever their number, because a log has few rows; their order is not that of a fresh read.

        :param parse: gives the entries of some of the files.
        """
        covered, entries = self._entries.get(question, (frozenset(), []))
        if not covered <= files:  # some were compacted
            covered, entries = frozenset(), []
        if covered != files:
            entries = entries + parse(files - covered)
            self._entries[question] = (files, entries)
        return entries

    def forget_answers(self) -> None:
        """Keep the open tables and the entries of logs only, to free memory between two parts of a long task."""
        self._answers.clear()

    def __reduce__(self) -> tuple[type[TableCache], tuple[()]]:
        """Open tables stay in their process: a copy in another one, such as a task of Spark, begins empty."""
        return TableCache, ()


def _is_newest(path: str, version: int) -> bool:
    """Whether a table's log ends with this version; False if that cannot be told without listing the log.

    To list a log on a local disk, delta-rs looks at each of its files: ten milliseconds behind a thousand commits.
    """
    if "://" in path:
        return False
    log = Path(path, "_delta_log")
    return (log / f"{version:020}.json").exists() and not (log / f"{version + 1:020}.json").exists()


class CachedStorageOptions(dict[str, str]):
    """delta-rs options, with the cache that reads which are given these options go through."""

    def __init__(self, options: Mapping[str, str], cache: TableCache) -> None:
        super().__init__(options)
        self.cache = cache


def cache_of(options: Mapping[str, str] | None) -> TableCache | None:
    """The cache that reads with these options go through."""
    return options.cache if isinstance(options, CachedStorageOptions) else None


def with_table_cache(settings: Settings, cache: TableCache | None = None) -> Settings:
    """A copy of the settings whose reads go through a cache.

    :param cache: the caller's own cache, to be used again later; by default the one that the settings carry already, else a
        new one.
    """
    if cache is None and cache_of(settings.storage_options) is not None:
        return settings
    return settings.model_copy(update={"storage_options": CachedStorageOptions(settings.storage_options, cache or TableCache())})
