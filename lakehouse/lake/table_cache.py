"""Delta tables that are kept open between reads, with the results of these reads.

Opening a table reads its log; for a table that is already open, only later commits are read. A caller with many reads passes on
the lake that :meth:`lakehouse.lake.Lake.cached` returns. A read uses a cache if and only if it was given the options of such a
lake, which carry the cache. Two callers that share no lake share no cache.

To look for later commits is a request or two in an object store. In a *step* (see :meth:`TableCache.step`) each table is looked
at once until this process commits to it: every writer calls :func:`note_commit`, or is :func:`committing`. So what the process
commits is seen at once, and what is read after :meth:`lakehouse.lake.Table.newest_version`, or after a conflict, is as new as
that: the step looks again at each table that it has not looked at since it has first seen this version.

These moments are numbered, and shared by all caches of the process. A table is as new as the step needs if it was looked at in
its present moment (:func:`moment_of`) or later: by the step itself, by a look that it has begun ahead (``begin_looks``), or by
the commit of the step that began the moment. In an object store, a table that another process creates is seen some seconds later
(``table_io.open_listed``), and a sensor looks at few tables (:class:`lakehouse.lake.lake.Quiet`).

Reading is in ``table_io``; no other module accesses a cache.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from lakehouse.lake import replica
from lakehouse.lake.delta_rs_internals import brought_up_to_date, has_replica, identity_of, raw_of
from lakehouse.lake.table_folder import count_request

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized

    from deltalake import DeltaTable

    from lakehouse.lake.lake import Quiet

_KEEP_ROWS = 20_000
#: An answer of so many rows or characters takes little memory.
_SHORT = 100
#: The attribute of an open table for the moment of the last commit that was made with it.
_COMMITTED = "_lakehouse_committed"
_OPENED_AT_ONCE = 16

Answer = TypeVar("Answer", bound="Sized")
Entry = TypeVar("Entry")
Found = TypeVar("Found")

_MOMENTS, _LOOKS = count(1), count(1)
_newest_moment, _newest_surprise = [0], [0]
#: The moment of the last commit of this process to each table, or of the last wish to look at it, by layer and name.
_newest_of = dict[str, int]()
_LOCK = threading.Lock()
#: The table of a store with which this process has last committed, by address, with its thread: no cache has to look for it.
_committed_with: dict[str, tuple[int, DeltaTable]] = {}


def note_commit(path: str) -> None:
    """Let the running steps look at a table again: this process has committed to it.

    :param path: its address or URI. Tables of two lakes of this process may count as one.
    """
    count_request(path, "commits")
    look_again(path)


@contextmanager
def committing(table: DeltaTable) -> Iterator[None]:
    """A context that commits with an open table, and leaves it at the version of the commit: the steps that read it need no look.

    If nothing is committed, or another object of the table is read, it is looked at again; and after an error, which may have
    come behind the commit.
    """
    before, path = table.version(), table.table_uri
    try:
        yield
    finally:
        moment = _begin_moment(path)
    if table.version() > before:
        count_request(path, "commits")
        vars(table)[_COMMITTED] = moment
        if has_replica(table):
            _committed_with[path] = threading.get_ident(), table


def look_again(path: str | None = None) -> None:
    """Let the running steps look at tables again: another process may have committed, as a conflict shows.

    :param path: the address or URI of the table; by default all tables.
    """
    _begin_moment(path)


def _begin_moment(path: str | None) -> int:
    """Begin a moment, in which steps look at a table again, or at all of them; returns it."""
    with _LOCK:
        moment = _newest_moment[0] = next(_MOMENTS)
        if path is None:
            _newest_surprise[0] = moment
        else:
            _newest_of[_layer_and_name(path)] = moment
    return moment


def moment_of(path: str) -> int:
    """The moment after which a step looks at a table again."""
    return max(_newest_of.get(_layer_and_name(path), 0), _newest_surprise[0])


def _layer_and_name(path: str) -> str:
    return "/".join(path.rstrip("/").rsplit("/", 2)[-2:])


def _place(path: str) -> int:
    return {"gold": 0, "silver": 1}.get(_layer_and_name(path).partition("/")[0], 2)


def newest_moment() -> int:
    """The moment of the last :func:`note_commit` or :func:`look_again` of this process."""
    return _newest_moment[0]


#: The numbers of the looks at whole layers, by address, and the look behind which such a look must be.
_listed_at: dict[str, int] = {}
_layers_behind = [0]


class _OfReads(threading.local):
    """What a thread has last read outside of its caches: the listing that showed a table absent, and a snapshot of a table."""

    listing, snapshot = 0, 0


_outside = _OfReads()


def note_snapshot() -> None:
    """Note that this thread reads a table as no cache has seen it: its next commit may follow from that."""
    _outside.snapshot = next_look()


def note_listing(layer: str, number: int | None = None) -> None:
    """Note that this thread goes by the last listing of a layer, and with a number, that this is a new one."""
    if number is not None:
        _listed_at[layer] = number
    _outside.listing = _listed_at.get(layer, 0)


def next_look() -> int:
    """The number of a look: what is seen by a look was committed before any look with a number that is drawn behind it."""
    return next(_LOOKS)


def is_listed_behind(layer: str) -> bool:
    """Whether the last look at a layer is behind the version of any table that the second of two tables has to be as new as."""
    return _listed_at.get(layer, 0) >= _layers_behind[0]


class _Kept:
    """What a cache keeps."""

    def __init__(self) -> None:
        self.tables: dict[str, DeltaTable] = {}
        self.newest: dict[str, tuple[int, tuple[int, int, int] | None]] = {}
        self.answers: dict[Hashable, tuple[tuple[int, Hashable] | None, Any]] = {}
        self.entries: dict[Hashable, tuple[frozenset[str], list[Any]]] = {}
        self.is_in_step = False
        #: The moment in which the running step has begun.
        self.since = newest_moment()
        #: For each table the moment of :func:`moment_of` after which the running step has looked at it.
        self.looks: dict[str, int] = {}
        #: For each table the number drawn before the last look; its version, and the number drawn when this was first seen.
        self.looked: dict[str, int] = {}
        self.seen: dict[str, tuple[int, int]] = {}
        #: The tables that a step has begun to open or to look at.
        self.coming: dict[str, _Coming] = {}
        #: Opens a table that a step expects.
        self.open_table: Callable[[str], DeltaTable | None] | None = None


class _OfThread(_Kept, threading.local):
    """What a cache keeps for one thread."""


@dataclass(frozen=True)
class Opened:
    """What the steps of a thread have opened, and have begun to open, by address."""

    tables: dict[str, DeltaTable] = field(default_factory=dict)
    coming: dict[str, _Coming] = field(default_factory=dict)


class _Coming(NamedTuple):
    """A table that a step has begun to open, or to look at: the step, the moment before, and between the numbers of two looks the
    table, or the log of one that is open.
    """

    by: object
    moment: int
    opened: Future[tuple[int, Any, int]]


class TableCache:
    """Open tables by address, and results for their newest versions, such as rows, by question.

    Outside of a step, each table is updated to its newest version whenever it is requested, so a cache never hides a commit. On a
    local disk, a table that was deleted, created again or restored from a copy meanwhile is opened again. Each thread has tables
    and results of its own: an open table of delta-rs serves one thread at a time.

    :param open_table: opens the table at an address, None if there is none; by default with delta-rs and the storage options
        of the read.
    :param is_of_one_step: whether the cache serves a single step, which ends with it.
    :param is_of_one_thread: False for a user that changes its thread, and never reads in two threads at once.
    :param quiet: tells which open tables need no look now; by default all do.
    :param opened: what this thread has opened before; to be added to.
    """

    def __init__(
        self,
        open_table: Callable[[str], DeltaTable | None] | None = None,
        *,
        is_of_one_step: bool = False,
        is_of_one_thread: bool = True,
        quiet: Quiet | None = None,
        opened: Opened | None = None,
    ) -> None:
        self._open_table = open_table
        self._quiet = quiet
        self._is_of_one_step = is_of_one_step
        self._kept = _OfThread() if is_of_one_thread else _Kept()
        if opened is not None:
            self._kept.tables, self._kept.coming = opened.tables, opened.coming

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within the context, this thread looks at each table once, and again after its commits and any conflict of this process.

        Where it matters that no other process has committed, as before rows that were computed from a table are committed, the
        code asks for :meth:`lakehouse.lake.Table.newest_version`. A step within a step belongs to it.
        """
        if self._kept.is_in_step:
            yield
            return
        self._kept.is_in_step, self._kept.since = True, newest_moment()
        try:
            yield
        finally:
            self._kept.is_in_step = False
            self._kept.looks.clear()
            self._kept.coming.clear()
            for path, (thread, _) in list(_committed_with.items()):
                if thread == threading.get_ident():
                    _committed_with.pop(path, None)

    def expect(self, paths: Iterable[str], open_table: Callable[[str], DeltaTable | None]) -> None:
        """Begin to open tables that the running step will read, or to look at open ones, as if it did so when it reads each.

        :param open_table: opens the table at an address, None if there is none.
        """
        self._kept.open_table = open_table
        self.begin_looks(paths)

    def begin_looks(self, paths: Iterable[str]) -> None:
        """Begin to look at tables at once, in a step that expects tables.

        What follows from others comes first, and these are looked at after it: they are as new as it.
        """
        if self._kept.open_table is None or not (self._kept.is_in_step or self._is_of_one_step):
            return
        threads, before, begun = ThreadPoolExecutor(_OPENED_AT_ONCE), list[Future[Any]](), list[Future[Any]]()
        for _, group in groupby(sorted(paths, key=_place), key=_place):
            before, begun = begun or before, []
            for path in group:
                moment, look = newest_moment(), self._look_at(path)
                if look is not None:
                    begun.append(threads.submit(_after, tuple(before), look))
                    self._kept.coming[path] = _Coming(self, moment, begun[-1])
        threads.shutdown(wait=False)

    def _look_at(self, path: str) -> Callable[[], Any] | None:
        """What opens a table, or lists the log of an open one; None for one that is as new as the step needs, or soon will be."""
        coming = self._kept.coming.get(path)
        if self._kept.looks.get(path) == (moment := moment_of(path)):
            return None
        if coming is not None and coming.by is self and coming.moment >= moment:
            return None
        if coming is not None and path not in self._kept.tables:
            if not coming.opened.done():
                return None
            self._arrived(path)
        table = self._kept.tables.get(path)
        if table is None:
            return None if self._kept.open_table is None else partial(self._kept.open_table, path)
        return raw_of(table).look() if has_replica(table) else None

    def look_again_behind(self, paths: Iterable[str]) -> None:
        """Let the running step look again at all tables at which it has looked before it has seen the versions of some tables.

        What a version follows from was committed before it was first seen; an own commit follows from what the step has seen.
        """
        if not (self._kept.is_in_step or self._is_of_one_step):
            return
        first_seen = max((self._kept.seen[path][1] for path in paths if path in self._kept.seen), default=0)
        with _LOCK:
            _layers_behind[0] = max(_layers_behind[0], first_seen)
        looks = list(self._kept.looks.items())
        older = [path for path, moment in looks if self._kept.looked.get(path, 0) < first_seen and moment == moment_of(path)]
        for path in older:
            look_again(path)
        for path, coming in list(self._kept.coming.items()):
            is_open = coming.opened.done() and coming.opened.exception() is None
            if coming.by is self and (not is_open or coming.opened.result()[0] < first_seen):
                self._kept.coming[path] = coming._replace(by=None)
                older.append(path)
        self.begin_looks(older)

    def table(
        self,
        path: str,
        default: Callable[[], DeltaTable | None],
        in_step: Callable[[], DeltaTable | None] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DeltaTable | None:
        """The table at its newest version, within a step at the one that the step has seen; None if it does not exist.

        :param default: opens the table if the cache was created without ``open_table``.
        :param in_step: the same within a step, for which a table may have been absent some seconds ago.
        :param options: of delta-rs.
        """
        if not (self._kept.is_in_step or self._is_of_one_step):
            return self._newest(path, default)
        moment = moment_of(path)  # before looking: a commit meanwhile is looked for once more
        if self._kept.looks.get(path) == moment:
            return self._kept.tables.get(path)
        table, committed_since = self._kept.tables.get(path), moment if moment > self._kept.since else -1
        is_copy = False
        if table is None or vars(table).get(_COMMITTED) != committed_since:
            copy = self._taken_over(path, committed_since, options)
            table, is_copy = copy or table, copy is not None
        if table is not None and vars(table).get(_COMMITTED) == committed_since:
            self._note(path, table.version())
            before, seen = self._kept.seen.get(path, (-1, 0))
            if before != table.version():  # the step's own commit follows from what it has seen
                follows = table.version() == before + 1 and not is_copy and _outside.snapshot < seen
                self._kept.seen[path] = table.version(), seen if follows else next_look()
        else:
            table = self._expected(path, moment, in_step or default) or self._newest(path, in_step or default)
        self._kept.looks[path] = moment
        return table

    def _taken_over(self, path: str, moment: int, options: Mapping[str, str] | None) -> DeltaTable | None:
        """A copy of the table with which this thread has made the last commit, unless others may have been made since."""
        thread, table = _committed_with.get(path, (0, None))
        if table is None or thread != threading.get_ident() or vars(table).get(_COMMITTED) != moment:
            return None
        if raw_of(table).folder.options != dict(options or {}):  # the same address in another store
            return None
        with suppress(KeyError, OSError):
            del _committed_with[path]
            copy = self._kept.tables[path] = replica.copied(table)
            vars(copy)[_COMMITTED] = moment
            return copy
        return None

    def _expected(self, path: str, moment: int, default: Callable[[], DeltaTable | None]) -> DeltaTable | None:
        """A table that the step has begun to open or to look at, unless it may have got a commit since; one of an earlier step is
        looked at.
        """
        coming = self._kept.coming.get(path)
        number, seen = self._arrived(path)
        if coming is None or coming.by is not self or coming.moment < moment:
            return None
        return self._newest(path, default, number, seen) if isinstance(seen, dict) else seen

    def _arrived(self, path: str) -> tuple[int, DeltaTable | Mapping[str, str] | None]:
        """Take a table that was opened ahead, or what a look at an open one has shown, with the number of the look; None if there
        is none.
        """
        coming = self._kept.coming.pop(path, None)
        if coming is None or coming.opened.exception() is not None:
            return 0, None
        number, seen, later = coming.opened.result()
        if isinstance(seen, dict) != (path in self._kept.tables):
            return 0, None
        if seen is not None and not isinstance(seen, dict):
            self._kept.tables[path] = seen
            self._saw(path, seen, number, later)
        return number, seen

    def _saw(self, path: str, table: DeltaTable | None, number: int, later: int | None = None) -> None:
        """Note a look at a table.

        :param number: drawn before the look; ``later`` after it.
        """
        if table is None and "://" in path:  # a listing of the layer shows it
            number = min(number, _outside.listing)
        self._kept.looked[path] = number
        if table is not None:
            self._note(path, table.version())
            if self._kept.seen.get(path, (-1, 0))[0] != table.version():
                self._kept.seen[path] = table.version(), later or next_look()

    def _newest(
        self,
        path: str,
        default: Callable[[], DeltaTable | None],
        number: int | None = None,
        listed: Mapping[str, str] | None = None,
    ) -> DeltaTable | None:
        """A table at its newest version.

        :param number: of the look that has shown its log as ``listed``; by default there is one now.
        """
        table = self._kept.tables.get(path)
        if table is not None and self._quiet is not None and self._quiet.holds(path):
            return table
        if table is not None and self._is_replaced(path, table.version()):
            self._forget(path)
            table = None
        before, moment, number = None if table is None else table.version(), newest_moment(), number or next_look()
        if table is not None and not brought_up_to_date(path, table, listed):
            self._forget(path)
            table, number = None, next_look()
        if table is None:
            table = default() if self._open_table is None else self._open_table(path)
        self._saw(path, table, number)
        if table is not None:
            self._kept.tables[path] = table
            if self._quiet is not None and listed is None:
                self._quiet.looked(path, moment, is_new=table.version() != before)
        return table

    def _note(self, path: str, version: int) -> None:
        """Note the newest entry of a table's log; a write through the open table has made one, too."""
        if self._kept.newest.get(path, (-1, None))[0] != version:
            self._kept.newest[path] = version, identity_of(path, version)

    def _is_replaced(self, path: str, version: int) -> bool:
        """Whether the newest entry that was read of a table's log is not there any more, or is another file."""
        noted, identity = self._kept.newest.get(path, (-1, None))
        return identity is not None and noted == version and identity_of(path, version) != identity

    def _forget(self, path: str) -> None:
        """Forget a table, and every result: some are computed from several tables."""
        del self._kept.tables[path]
        self._kept.newest.pop(path, None)
        self._kept.seen.pop(path, None)
        self._kept.answers.clear()
        self._kept.entries.clear()

    def answer(self, table: DeltaTable, question: Hashable, compute: Callable[[], Answer], also: Hashable = None) -> Answer:
        """The result for ``question`` about a table, computed unless it is cached for the table's version.

        Results are shared and must not be changed. Large ones are not kept.

        :param also: anything else that the result depends on.
        """
        known, answer = self._kept.answers.get(question, (None, None))
        if answer is None or known != (table.version(), also):
            answer = compute()
            if len(answer) <= _KEEP_ROWS:
                self._kept.answers[question] = ((table.version(), also), answer)
        return cast("Answer", answer)

    def grown(self, question: Hashable, files: frozenset[str], parse: Callable[[frozenset[str]], list[Entry]]) -> list[Entry]:
        """The entries of data files, which never change: only files that the last result did not cover are parsed.

        They are kept whatever their number, because a log has few rows; their order is not that of a fresh read.

        :param parse: returns the entries of the given files.
        """
        covered, entries = self._kept.entries.get(question, (frozenset(), []))
        if not covered <= files:  # files were compacted
            covered, entries = frozenset(), []
        if covered != files:
            entries = entries + parse(files - covered)
            self._kept.entries[question] = (files, entries)
        return entries

    def forget_answers(self) -> None:
        """Keep only the open tables, the entries of logs and short answers, to free memory between two parts of a long task."""
        self._kept.answers = {question: known for question, known in self._kept.answers.items() if len(known[1]) <= _SHORT}

    def __reduce__(self) -> tuple[type[TableCache], tuple[()]]:
        """Open tables stay in their process: a copy in another one, such as a task of Spark, begins empty."""
        return TableCache, ()


def _after(before: Sequence[Future[Any]], look: Callable[[], Found]) -> tuple[int, Found, int]:
    wait(before)
    return next_look(), look(), next_look()
