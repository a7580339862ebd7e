"""Infers the key from column names, and not only from uniqueness in a sample. Plain Python.

The name of an identifier has a word such as ``id``, ``number`` or ``code``. The name of an entity (``sensor``, ``store_id``)
identifies no reading: the day or the time belongs to the key, too. Several lines per identifier with a version or an update time
are a change log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING

from lakehouse.project.change_logs import UPDATES, is_steady, is_unique_in_each, order_of
from lakehouse.project.questions import (
    ENTITIES,
    KEY_WORDS,
    LINE_NUMBERS,
    MEANS,
    MEASURES,
    SIGNS,
    SPREADSHEET_NUMBER,
    InferenceError,
    Question,
    is_identifier,
    is_line_number,
    word_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakehouse.project.change_logs import LogOrder, OperationColumn
    from lakehouse.project.questions import InferredColumn, Sample

#: Words in the names of codes that name a kind.
_KINDS = word_set("event status reason type error action state kind group tariff")
#: Words in the names of ids that a replication tool gives each of its lines.
_TECHNICAL = word_set("airbyte dlt sdc hevo metadata rescued")
#: Things of which two may be sold in one second.
_GOODS = word_set("product sku stock item article category department pair")
_TEXTS = word_set(
    "description comment comments note notes text message remark remarks title address email phone url reason",
    "details memo narrative verwendungszweck buchungstext libelle betreff zweck",
)
_PERIODS = word_set(
    "day date month week quarter year period hour time clock tag datum monat woche kalenderwoche jahr uhrzeit fecha mes jour mois"
)
#: Words for times that an entity has only once.
_CREATIONS = word_set(
    "created registered opened joined started founded signup signed enrolled hired issued installed birth",
    "updated modified changed update",
)
_NUMBER = re.compile(r"[^\w\s]*\s?\d[\d.,' ]*[^\w\s]*")
_CODE = re.compile(r"\S*\d\S*")
_KEY_COLUMNS = 4
#: A column with at least this many records per record without a value may be an identifier that a few records lack.
_WITH_ID_PER_WITHOUT = 5
#: Answers about files without a key: equal records count once, or each line counts.
NO_KEY, EACH_LINE = "none", "each"
_EACH = "each line counts, also equal ones; a file with known content does not count again"
_WHICH = "Which columns identify a record?"
_NOTHING = "nothing identifies a record: it is known by a hash of all of its values, and can never be corrected"


@dataclass(frozen=True)
class Key:
    """The key that samples suggest.

    :param fields: the key's fields; empty if no columns identify a record.
    :param order: the column that orders the lines of a key, if a file has several.
    :param each_line: whether each line of a file without a key counts, also equal ones.
    """

    fields: Sequence[str]
    doubt: str | None
    order: LogOrder | None = None
    question: Question | None = None
    each_line: bool = False


def key_of(
    samples: Sequence[Sample],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    subject: str,
    answers: Mapping[str, str],
    operation: OperationColumn | None = None,
) -> Key:
    """The key of the records.

    :param event: the column of the event time. ``subject`` is the dataset's name.
    :param operation: the column that says what a record does to its key, if the records have one.
    :param answers: a person's answers, by the subject of the question; ``primary_key`` is one subject.
    """
    answer = answers.get("primary_key")
    if answer is not None:
        if answer in (NO_KEY, EACH_LINE):
            return Key([], _LINES if answer == EACH_LINE else _KEYLESS, each_line=answer == EACH_LINE)
        by_name = {column.name: column for column in columns}
        fields = [name.strip() for name in answer.split(",")]
        unknown = next((name for name in fields if name not in by_name), None)
        if unknown is not None:
            msg = f"primary_key={answer}: no field is called {unknown}; they are {', '.join(by_name)}"
            raise InferenceError(msg)
        chosen = [by_name[name] for name in fields]
        if is_unique_in_each(samples, chosen):
            return Key(fields, None)
        order = order_of(samples, chosen, columns, event, logged=operation is not None)
        return Key(fields, _several_lines(chosen, order), order)
    return _proposed(samples, columns, event, subject, operation)


_KEYLESS = "no columns identify a record: a record is known by a hash of all of its values (synthetic_key)"
_LINES = "no columns identify a record: each line counts, also equal ones, and a file that is sent again does not (append)"


def _proposed(
    samples: Sequence[Sample],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    subject: str,
    operation: OperationColumn | None,
) -> Key:
    able = [column for column in columns if not column.empty and column is not event and _can_identify(column, subject)]
    able = [column for column in able if not (column.type == "string" and _holds_numbers(samples, column))]
    able = [column for column in able if not _was_cut(samples, column) and _TECHNICAL.isdisjoint(column.words)]
    named = sorted((column for column in able if is_identifier(column, subject)), key=lambda column: _rank(column, subject))
    entities = [column for column in able if ENTITIES & set(column.words) or column in named]
    labels = [
        column
        for column in able
        if column.type == "string" and column not in entities and not (_PERIODS | SIGNS) & set(column.words)
    ]
    times = [[event]] if event is not None and not event.empty else []
    periods = [column for column in columns if not column.empty and column is not event and _PERIODS & set(column.words)]
    times += [*([event, column] for column in periods if times and event is not None), *([column] for column in periods)]
    ids = [name for name in named if not _is_entity(name, subject)]
    stages: Sequence[Callable[[], Key | None]] = (
        lambda: _of_operations(samples, [*ids, *(name for name in entities if name not in ids)], columns, event, operation),
        lambda: _of_own(samples, named, event, subject),
        lambda: _of_states(samples, named, columns, event, certain=True),
        lambda: _of_lines(samples, [name for name in ids if not _is_a_kind(name)], event),
        lambda: _of_states(samples, ids, columns, event, certain=False),
        lambda: _of_readings(samples, entities, columns, times or [[]], event, _codes(samples, labels)),
        lambda: _of_incomplete(samples, columns, subject),
        lambda: None if able else _of_times(samples, columns, times),
        lambda: _of_labels(samples, [*entities, *labels], columns, times or [[]], _codes(samples, labels)),
    )
    key = next(filter(None, (stage() for stage in stages)), None) or _keyless(samples, times)
    return _with_states(samples, key, ids)


def _of_times(
    samples: Sequence[Sample], columns: Sequence[InferredColumn], times: Sequence[Sequence[InferredColumn]]
) -> Key | None:
    """The key of a series: a day, or the time of a reading; the time of a sale is none, because two may have the same."""
    for time in times:
        if _may_be_a_key(columns, time) and is_unique_in_each(samples, time):
            is_certain = all(column.type != "timestamp" for column in time) and _has_means_only(columns, time)
            return replace(_certain(samples, time), question=None if is_certain else _which([time]))
    return None


def _may_be_a_key(columns: Sequence[InferredColumn], time: Sequence[InferredColumn]) -> bool:
    """Whether days or times alone may be the key: a time only next to readings, such as temperatures."""
    return all(column.type != "timestamp" for column in time) or _has_means_only(columns, time)


def _has_means_only(columns: Sequence[InferredColumn], time: Sequence[InferredColumn]) -> bool:
    """Whether all numbers are readings, which do not add up."""
    numbers = [column for column in columns if column not in time and column.type.startswith(("bigint", "decimal", "double"))]
    return bool(numbers) and all(MEANS & set(column.words) for column in numbers)


def _keyless(samples: Sequence[Sample], times: Sequence[Sequence[InferredColumn]]) -> Key:
    """No key, with the question whether equal records are one: the sample files may have some."""
    lines = sum(len(sample.records) for sample in samples)
    again = sum(len(sample.records) - len({f"{sorted(record.items())}" for record in sample.records}) for sample in samples)
    once = f"{again:,} of {lines:,} sample records repeat an earlier one of their file, and would not count"
    options = {
        EACH_LINE: _EACH,
        NO_KEY: f"equal records are one record: {once if again else 'the samples have none in a file'}",
    }
    order = [EACH_LINE, NO_KEY] if again else [NO_KEY, EACH_LINE]
    by_time = {f"{_names(time).replace(', ', ',')}": time for time in times if is_unique_in_each(samples, time)}
    question = Question(
        "primary_key",
        "No columns identify a record, and none can be corrected: which records are one?",
        {name: options[name] for name in order}
        | {name: f"records of the same {_names(time)} are one record, the last counts" for name, time in by_time.items()},
    )
    return Key([], _LINES if again else _KEYLESS, question=question, each_line=bool(again))


def _with_states(samples: Sequence[Sample], key: Key, ids: Sequence[InferredColumn]) -> Key:
    """The key with the question whether the lines of an identifier that it has in part are states of one record.

    :param ids: the identifiers of records. Two of them together, such as an order and its line, leave no doubt.
    """
    parts = [column for column in ids if column.name in key.fields]
    if len(parts) != 1 or len(key.fields) == 1 or is_unique_in_each(samples, parts):
        return key
    meaning = f"a later line of the same {_names(parts)} replaces the earlier one"
    options = {",".join(key.fields): f"a record is known by {', '.join(key.fields)}"}
    others = {name: text for name, text in (key.question.options if key.question else {}).items() if name != NO_KEY}
    options |= {**others, parts[0].name: meaning, NO_KEY: _NOTHING}
    question = Question("primary_key", _WHICH, options)
    return replace(key, question=_or_each_line(question) if EACH_LINE in others else question)


def _of_own(samples: Sequence[Sample], named: Sequence[InferredColumn], event: InferredColumn | None, subject: str) -> Key | None:
    """The identifier of the records themselves, with a question if two columns have equally good names."""
    unique = [name for name in named if not _is_entity(name, subject) and _identifies(samples, [name], event)]
    unique = [name for name in unique if not (is_line_number(name) and len(named) > 1)]
    if not unique:
        return None
    alike = [name for name in unique if _rank(name, subject) == _rank(unique[0], subject)]
    key = _certain(samples, unique[:1])
    has_readings = event is not None and not event.empty and not _CREATIONS & set(event.words)
    if len(alike) == 1 and event is not None and has_readings and ENTITIES & set(unique[0].words):
        reading = [unique[0], event]  # a file about stations may have each station once, or one reading of each
        return Key([column.name for column in reading], key.doubt, question=_which([reading, unique[:1]]))
    return Key(key.fields, key.doubt, question=_which([[name] for name in alike])) if len(alike) > 1 else key


def _of_lines(samples: Sequence[Sample], own: Sequence[InferredColumn], event: InferredColumn | None) -> Key | None:
    """Several identifiers together, such as an order number and a line number."""
    return next((_certain(samples, chosen) for chosen in _groups(own, 2) if _identifies(samples, chosen, event)), None)


def _of_labels(
    samples: Sequence[Sample],
    labels: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    times: Sequence[Sequence[InferredColumn]],
    codes: Sequence[InferredColumn],
) -> Key | None:
    """Unique columns without the name of a key: a person has to confirm them. A code is more likely than a time alone."""
    for time in times:
        if codes and time and is_unique_in_each(samples, time):
            of_code = _certain(samples, codes[:1])
            return Key(of_code.fields, of_code.doubt, question=_which([codes[:1], time]))
        for chosen in [*([[]] if time and _may_be_a_key(columns, time) else []), *_groups(labels)]:
            if is_unique_in_each(samples, [*chosen, *time]):
                fields = [*chosen, *time]
                doubt = f"the key {_names(fields)} is unique in the sample, but is not called like one"
                return Key([column.name for column in fields], doubt, question=_or_each_line(_which([fields])))
    return None


def _of_readings(
    samples: Sequence[Sample],
    entities: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    times: Sequence[Sequence[InferredColumn]],
    event: InferredColumn | None,
    codes: Sequence[InferredColumn],
) -> Key | None:
    """The key of repeated readings per entity, with a question if the entity is unique, too, if the time is an update time, or
    if the entity is a kind of goods, which is sold twice in one second.

    :param codes: columns that may be identifiers by their values; they raise a question, too.
    """
    for time in times:
        for chosen in _groups(entities):
            if not is_unique_in_each(samples, [*chosen, *time]):
                continue
            key = _certain(samples, [*chosen, *time])
            if codes:
                of_code = _certain(samples, codes[:1])
                return Key(of_code.fields, of_code.doubt, question=_which([codes[:1], [*chosen, *time]]))
            updated = event is not None and not UPDATES.isdisjoint(event.words)
            doubtful = updated or is_unique_in_each(samples, chosen)
            if time and doubtful and any(is_identifier(column) for column in chosen):
                return Key(key.fields, key.doubt, question=_which([[*chosen, *time], chosen]))
            is_of_goods = all(_GOODS & set(column.words) for column in chosen)
            if is_of_goods and any(column.type == "timestamp" for column in time) and not _has_means_only(columns, time):
                return replace(key, question=_or_each_line(_which([[*chosen, *time]])))
            return key
    return None


def _codes(samples: Sequence[Sample], labels: Sequence[InferredColumn]) -> list[InferredColumn]:
    """Columns whose texts look like identifiers: unique, with digits, without blanks, and not numbers for the most part."""
    return [
        column
        for column in labels
        if is_unique_in_each(samples, [column])
        and not _are_numbers(samples, column)
        and all(_CODE.fullmatch(f"{record.get(column.column)}") for sample in samples for record in sample.records)
    ]


def _certain(samples: Sequence[Sample], chosen: Sequence[InferredColumn]) -> Key:
    few = sum(len(sample.records) for sample in samples)
    return Key(
        [column.name for column in chosen],
        f"the key {_names(chosen)} is unique in {few:,} sample records; check that it always is",
    )


def _which(choices: Sequence[Sequence[InferredColumn]]) -> Question:
    options = {",".join(column.name for column in chosen): f"a record is known by {_names(chosen)}" for chosen in choices}
    return Question("primary_key", _WHICH, {**options, NO_KEY: _NOTHING})


def _or_each_line(question: Question) -> Question:
    """The question with the option that each line counts."""
    options = {name: text for name, text in question.options.items() if name not in (NO_KEY, EACH_LINE)}
    return Question(question.about, question.text, {**options, EACH_LINE: _EACH, NO_KEY: _NOTHING})


def _of_incomplete(samples: Sequence[Sample], columns: Sequence[InferredColumn], subject: str) -> Key | None:
    """An identifier that a few records lack."""
    lines = sum(len(sample.records) for sample in samples)
    for column in columns:
        is_id = is_identifier(column, subject) and _can_identify(column, subject) and not _is_entity(column, subject)
        if not is_id or not 0 < column.empty * _WITH_ID_PER_WITHOUT <= lines:
            continue
        with_id = [
            replace(of, records=[record for record in of.records if record.get(column.column) is not None]) for of in samples
        ]
        if is_unique_in_each(with_id, [column]):
            doubt = f"{column.empty:,} of {lines:,} sample records have no {column.name}, its key, and will be malformed"
            return Key([column.name], doubt, question=_or_each_line(_which([[column]])))
    return None


def _of_operations(
    samples: Sequence[Sample],
    ids: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    operation: OperationColumn | None,
) -> Key | None:
    """The key of records with operations: the first identifiers, or readings, that no file inserts twice."""
    if operation is None:
        return None
    readings = ([*chosen, event] for chosen in _groups(ids) if event is not None and not event.empty)
    alone = ([name] for name in ids if not is_line_number(name))
    for chosen in chain(alone, _groups(ids, 2), readings):
        if not operation.inserts_once(samples, chosen):
            continue
        order = order_of(samples, chosen, columns, event, logged=True)
        if is_unique_in_each(samples, chosen):
            return Key([of.name for of in chosen], _certain(samples, chosen).doubt, order if order and order.certain else None)
        doubt = _several_lines(chosen, order)
        if event is not None and event not in chosen and not is_steady(samples, chosen, event):
            doubt += f"; {event.name} is the event time and differs among them: a later line moves the record to its own day"
        question = None if order and order.certain else _which_log(chosen)
        return Key([of.name for of in chosen], doubt, order, question)
    return None


def _of_states(
    samples: Sequence[Sample],
    names: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    *,
    certain: bool,
) -> Key | None:
    """The key of a file with several lines per identifier, or per identifier and line, which are states of one record.

    :param certain: whether each state must have its own version or update time; otherwise the key is asked about.
    """
    for name in names:
        inner = [column for column in columns if column not in (name, event) and not is_steady(samples, [name], column)]
        lines = [column for column in inner if is_line_number(column)]
        goods = [column for column in inner if not lines and not _GOODS.isdisjoint(column.words)][:1]
        chosen = [name, *lines, *goods]
        if is_line_number(name) or is_unique_in_each(samples, chosen):
            continue
        order = order_of(samples, chosen, columns, event, logged=False)
        updates = [column for column in columns if column.type in ("date", "timestamp") and not UPDATES.isdisjoint(column.words)]
        is_state = event is None or is_steady(samples, chosen, event)
        if certain and (order is None or not order.certain or not (is_state or order.kind == "integer")):
            continue
        if not certain and not (updates and (is_state or event in updates)):
            continue
        others = [[*chosen, *updates[:1]]] if not certain else []
        others += [[name]] if goods else []
        question = _which_log(chosen, *others) if others else None
        return Key([column.name for column in chosen], _several_lines(chosen, order), order, question)
    return None


def _several_lines(key: Sequence[InferredColumn], order: LogOrder | None) -> str:
    """What counts of several lines per key."""
    lines = f"a file has several lines per {_names(key)}"
    if order is None:
        return f"{lines}: the last one counts, and a later file outranks an earlier one"
    return f"{lines}: the {'greatest' if order.kind == 'integer' else 'latest'} {order.column.name} counts"


def _which_log(key: Sequence[InferredColumn], *others: Sequence[InferredColumn]) -> Question:
    """The question whether several lines per key are states of one record."""
    name = ",".join(column.name for column in key)
    question = _which([key, *others])
    meaning = f"a later line of the same {_names(key)} replaces or withdraws the earlier one"
    return Question(question.about, question.text, {**question.options, name: meaning})


def _identifies(samples: Sequence[Sample], key: Sequence[InferredColumn], event: InferredColumn | None) -> bool:
    """Whether columns are unique in each file, and are not reused in another file for a record of another day.

    A repeated record with another time may be a correction; if all repeated records have another time, numbers are reused.
    """
    if not is_unique_in_each(samples, key):
        return False
    if event is None or event in key:
        return True
    times: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for sample in samples:
        for record in sample.records:
            times[tuple(f"{record.get(of.column)}" for of in key)].append(f"{record.get(event.column)}")
    again = [of_key for of_key in times.values() if len(of_key) > 1]
    return not again or any(len(set(of_key)) < len(of_key) for of_key in again)


def _groups(columns: Sequence[InferredColumn], least: int = 1) -> Iterator[list[InferredColumn]]:
    few = columns[:8]  # more columns would be combined in thousands of ways
    for count in range(least, min(_KEY_COLUMNS, len(few)) + 1):
        yield from map(list, combinations(few, count))


def _can_identify(column: InferredColumn, subject: str) -> bool:
    """Whether a column can be part of a key: not a measure, time, float or free text."""
    if column.type not in ("string", "bigint") and not column.type.endswith(",0)"):
        return False
    words = set(column.words)
    if words & _TEXTS:
        return False
    if column.type == "string" or is_identifier(column, subject):
        return True
    return bool(words & (ENTITIES | _PERIODS)) and not words & MEASURES


def _was_cut(samples: Sequence[Sample], column: InferredColumn) -> bool:
    """Whether a spreadsheet has cut numbers of a column."""
    values = (record.get(column.column) for sample in samples for record in sample.records)
    return any(isinstance(value, str) and SPREADSHEET_NUMBER.fullmatch(value) for value in values)


def _holds_numbers(samples: Sequence[Sample], column: InferredColumn) -> bool:
    """Whether a column with the name of a measure has mostly numbers, among words for 'no value'."""
    if not MEASURES & set(column.words) or any(word in KEY_WORDS for word in column.words):
        return False
    return _are_numbers(samples, column)


def _are_numbers(samples: Sequence[Sample], column: InferredColumn) -> bool:
    values = [
        f"{record[column.column]}" for sample in samples for record in sample.records if record.get(column.column) is not None
    ]
    return sum(bool(_NUMBER.fullmatch(value.strip())) for value in values) * 2 > len(values)


def _is_entity(column: InferredColumn, subject: str) -> bool:
    """Whether a column names a thing with many records; the dataset's own thing does not count."""
    words = set(column.words) & ENTITIES
    return bool(words) and not any(word in subject.lower() for word in words)


def _is_a_kind(column: InferredColumn) -> bool:
    """Whether a code names a kind, such as that of an event, and no record."""
    return column.words[-1] == "code" and not _KINDS.isdisjoint(column.words)


def _rank(column: InferredColumn, subject: str) -> tuple[bool, bool, int]:
    """Sort key of candidates: named after the dataset's thing or just ``id`` first, then by the word for a key."""
    words = column.words
    others = [word for word in words if word not in KEY_WORDS]
    about = not others or any(word in subject.lower() for word in others)
    last = len(KEY_WORDS) if column.name in LINE_NUMBERS else 0
    return _is_entity(column, subject), not about, next((rank for rank, word in enumerate(KEY_WORDS) if word in words), last)


def _names(columns: Sequence[InferredColumn]) -> str:
    return ", ".join(column.name for column in columns)
