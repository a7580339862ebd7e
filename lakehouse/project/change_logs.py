"""Recognizes changes in samples: columns of operations, flags of deletion, and the order of several lines per key. Plain Python.

The key itself is chosen in ``key_candidates``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.record_changes import Changes
from lakehouse.project.questions import Question, word_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.project.questions import InferredColumn, Sample

#: The subject of the question about records that are marked as deleted.
DELETED = "deleted"
_ALWAYS = "none"
#: Words in the names of columns with a record's operation, and whole names of such columns.
_OPERATIONS = word_set("op operation oper optype dml cdc")
_OPERATION_NAMES = frozenset({"action", "change", "change_type", "changetype", "record_action", "row_action", "metadata_action"})
#: The words for operations that replication tools write, by key of ``changes``.
_WORDS = {
    "insert_words": word_set("insert i c r create created inserted ins add added new read snapshot refresh load"),
    "correct_words": word_set("correct update upsert u updated upd modify modified change changed corrected"),
    "delete_words": word_set("delete d deleted del remove removed"),
}
_FLAGS = word_set("deleted isdeleted tombstone loevm lvorm loekz")
#: The words of a flag for a deleted record, each with the word for the others.
_YES = {"true": "false", "t": "f", "1": "0", "1.0": "0.0", "yes": "no", "y": "n", "x": "", "l": ""}
_VERSIONS = ("version", "revision", "rev", "seq", "sequence", "lsn", "scn")
#: Words in the names of times of a change.
UPDATES = frozenset({"updated", "modified", "changed", "update", "change"})


@dataclass(frozen=True)
class OperationColumn:
    """A column that says what a record does to its key.

    :param words: the keys of ``changes`` with words that differ from the defaults.
    :param inserts: the words for new records, in lower case.
    """

    column: InferredColumn
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inserts: frozenset[str] = frozenset()

    def inserts_once(self, samples: Sequence[Sample], key: Sequence[InferredColumn]) -> bool:
        """Whether no file inserts a key twice without deleting it: a key that is too short takes several records for one."""
        for sample in samples:
            lives: Counter[tuple[str, ...]] = Counter()
            for record in sample.records:
                word, of_key = _word(record.get(self.column.column)), values_of(record, key)
                if word in self.inserts or not word:
                    lives[of_key] += 1
                elif word in _WORDS["delete_words"]:
                    lives[of_key] = 0
                if lives[of_key] > 1:
                    return False
        return True


@dataclass(frozen=True)
class Deletion:
    """How records are marked as deleted.

    :param flag: the column of the flag with its words; None if the mark is the time of the deletion.
    :param condition: the SQL condition of a record that is not deleted.
    """

    column: InferredColumn
    flag: OperationColumn | None
    condition: str
    marked: int

    @property
    def question(self) -> Question | None:
        """Whether such records count; None if the samples have none."""
        if not self.marked:
            return None
        name = self.column.column
        how = f"the {self.marked:,} sample {'record' if self.marked == 1 else 'records'} that {name} marks as deleted"
        options = {name: f"{how} count in no number", _ALWAYS: f"{how} count like the others"}
        return Question(DELETED, f"Do records count that {name} marks as deleted?", options)


@dataclass(frozen=True)
class ChangeMarks:
    """The columns that mark what a record does to its key, and a question about them.

    Without a key no record can change another: deleted records are left out of the first metric instead.
    """

    operation: OperationColumn | None
    deletion: Deletion | None
    question: Question | None

    @property
    def columns(self) -> set[str]:
        """The columns that are no part of a key."""
        return {mark.column.column for mark in (self.operation, self.deletion) if mark is not None}

    def op(self, *, has_key: bool) -> OperationColumn | None:
        """The column for ``changes.op``, if there is one."""
        flag = self.deletion.flag if self.deletion else None
        return (self.operation or flag) if has_key else None

    def condition(self, *, has_key: bool) -> str:
        """The SQL condition of records that count in the first metric; empty if all do."""
        return "" if self.deletion is None or (has_key and self.deletion.flag) else self.deletion.condition

    def doubts(self, *, has_key: bool) -> list[str]:
        """A sentence about the column."""
        op, condition = self.op(has_key=has_key), self.condition(has_key=has_key)
        if op is not None and op is self.operation:
            return [f"column {op.column.column} says whether a record is new, corrects or withdraws one (changes.op)"]
        if op is not None:
            return [f"column {op.column.column} withdraws the records that it marks as deleted (changes.op)"]
        if self.deletion is not None:
            return [f"column {self.deletion.column.column} marks deleted records: the first metric has only those {condition}"]
        return []


@dataclass(frozen=True)
class LogOrder:
    """The column that orders several lines of a key.

    :param kind: ``integer`` or ``text`` of ``order.sequence``; ``arrival`` if it is the arrival time.
    :param certain: whether no two lines of a key have the same value, and the column's name or type leaves no doubt.
    """

    column: InferredColumn
    kind: str
    certain: bool


def marks_of(samples: Sequence[Sample], columns: Sequence[InferredColumn], answers: Mapping[str, str]) -> ChangeMarks:
    """The columns that mark what a record does to its key.

    :param answers: a person's answers; ``deleted`` has the column of the mark, or ``none``.
    """
    operation = _operation_of(samples, columns)
    deletion = None if operation or answers.get(DELETED) == _ALWAYS else _deletion_of(samples, columns)
    return ChangeMarks(operation, deletion, deletion.question if deletion and DELETED not in answers else None)


def _operation_of(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> OperationColumn | None:
    """The column of operations; None if no column of that name has words for operations only."""
    for column in columns:
        if not _OPERATIONS & set(column.words) and column.name not in _OPERATION_NAMES:
            continue
        words = {_word(record.get(column.column)) for sample in samples for record in sample.records} - {""}
        if not words or not words <= frozenset().union(*_WORDS.values()):
            continue
        defaults = {name: getattr(Changes(), name) for name in _WORDS}
        more = {name: sorted(words & of_kind - {*defaults[name]}) for name, of_kind in _WORDS.items()}
        written = {name: [*defaults[name], *of_kind] for name, of_kind in more.items() if of_kind}
        return OperationColumn(column, written, _WORDS["insert_words"])
    return None


def _deletion_of(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> Deletion | None:
    """How records are marked as deleted; None if they are not."""
    for column in columns:
        if not _FLAGS & set(column.words):
            continue
        values = Counter(_word(record.get(column.column)) for sample in samples for record in sample.records)
        if column.type in ("timestamp", "date"):
            return Deletion(column, None, f"{column.name} IS NULL", values.total() - values[""])
        words = {*values} - {""}
        if not words or not words <= {*_YES, *_YES.values()} - {""}:
            continue
        pairs = {(yes, no) for yes, no in _YES.items() if words & ({yes, no} - {""})}
        yes_words, no_words = sorted({yes for yes, _ in pairs}), sorted({no for _, no in pairs} - {""})
        flag = OperationColumn(column, {**({"insert_words": no_words} if no_words else {}), "delete_words": yes_words})
        texts = ", ".join(f"'{word}'" for word in yes_words)
        condition = {
            "boolean": f"NOT coalesce({column.name}, false)",
            "string": f"lower(coalesce({column.name}, '')) NOT IN ({texts})",
        }
        counted = condition.get(column.type, f"coalesce({column.name}, 0) = 0")
        return Deletion(column, flag, counted, sum(values[word] for word in yes_words))
    return None


def order_of(
    samples: Sequence[Sample],
    key: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    *,
    logged: bool,
) -> LogOrder | None:
    """The column that orders the lines of a key; None if only their order in the file does.

    :param logged: whether the records have operations: then a time that differs among the lines of a key is that of the change.
    """
    orders: list[LogOrder] = []
    for column in columns:
        if column in key or column.empty:
            continue
        unique = is_unique_in_each(samples, [*key, column])
        is_update = not UPDATES.isdisjoint(column.words)
        if column.type == "bigint" and any(word in column.words for word in _VERSIONS):
            orders.append(LogOrder(column, "integer", unique))
        elif column is event:
            continue
        elif column.type == "timestamp" and (is_update or (logged and not is_steady(samples, key, column))):
            orders.append(LogOrder(column, "arrival", unique))
        elif column.type == "date" and is_update and column.form is None:
            orders.append(LogOrder(column, "text", certain=False))  # the texts of days sort as the days do
    return next((order for order in orders if order.certain), next(iter(orders), None))


def is_steady(samples: Sequence[Sample], key: Sequence[InferredColumn], column: InferredColumn) -> bool:
    """Whether all lines of a key have the same value: with the same event time they are states of one thing, not readings."""
    of_keys: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for sample in samples:
        for record in sample.records:
            of_keys[values_of(record, key)].add(f"{record.get(column.column)}")
    return all(len(values) == 1 for values in of_keys.values())


def is_unique_in_each(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> bool:
    """Whether no two records of a file have the same values in ``columns``."""
    return all(len({values_of(record, columns) for record in sample.records}) == len(sample.records) for sample in samples)


def values_of(record: Mapping[str, Any], columns: Sequence[InferredColumn]) -> tuple[str, ...]:
    """The values of a record in ``columns``, as texts."""
    return tuple(f"{record.get(column.column)}" for column in columns)


def _word(value: Any) -> str:
    return "" if value is None else f"{value}".strip().lower()
