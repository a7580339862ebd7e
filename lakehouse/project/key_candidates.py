"""Infers the key from column names, and not only from uniqueness in a sample. Plain Python.

The name of an identifier has a word such as ``id``, ``number`` or ``code``. The name of an entity (``sensor``, ``store_id``)
identifies no reading: the day or the time belongs to the key, too. Several lines per identifier with a version or an update time
are a change log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from lakehouse.project.questions import InferenceError, Question, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakehouse.project.questions import InferredColumn, Sample

#: Words in the names of identifiers, the most significant first.
KEY_WORDS = (
    *("id", "identifier", "uuid", "guid", "key", "number", "no", "nr", "num", "nummer", "numero"),
    *("code", "ref", "reference", "referenz", "kennung"),
)
#: Words that may also precede the thing, as in id_customer; num_cases and reference_level are not identifiers.
_KEY_WORDS_IN_FRONT = ("id", "identifier", "uuid", "guid")


#: Kinds of records: a text column with such a name has the names of records.
_RECORDS = word_set(
    "order sale payment trade claim invoice ticket booking shipment delivery visit transaction receipt event incident refund",
)
_ENTITIES = word_set(
    "sensor station meter gauge device machine site location place country region state county province city store till shop",
    "branch warehouse depot customer client user account member patient product sku stock item article asset symbol ticker isin",
    "instrument currency pair series channel campaign vehicle route airport hospital facility iso fips geo area district",
    "zone river basin plant unit team employee driver supplier vendor merchant portfolio card iban wallet department category",
    "company issuer broker counterparty fund school clinic ward doctor carrier port zip postcode",
)
_MEASURES = word_set(
    "amount price total subtotal sum count cases deaths recovered tests value discharge flow level stage temperature temp rate",
    "percent pct cost fee tax balance quantity qty volume weight population rainfall precipitation kwh mm mwh open high low",
    "close",
    "payment refund claim deposit payout min max avg mean score revenue sale sales salary lat latitude lon lng longitude height",
    "depth speed pressure humidity duration",
    "units",
)
_TEXTS = word_set("description comment comments note notes text message remark remarks title address email phone url reason")
_PERIODS = word_set(
    "day date month week quarter year period hour time clock tag datum monat woche kalenderwoche jahr uhrzeit fecha mes jour mois"
)
_VERSIONS = ("version", "revision", "rev", "seq", "sequence", "lsn")
#: Words for times that an entity has only once.
_CREATIONS = word_set(
    "created registered opened joined started founded signup signed enrolled hired issued installed birth",
    "updated modified changed update",
)
_UPDATES = ("updated", "modified", "changed", "update", "change")
_NUMBER = re.compile(r"[^\w\s]*\s?\d[\d.,' ]*[^\w\s]*")
_CODE = re.compile(r"\S*\d\S*")
_KEY_COLUMNS = 4
NO_KEY = "none"


@dataclass(frozen=True)
class Key:
    """The key that samples suggest.

    :param fields: the key's fields; empty if no columns identify a record.
    :param order: the column with the version of a record, if a file has several lines per key.
    :param arrival: the column of the update time that orders the lines instead.
    """

    fields: Sequence[str]
    doubt: str | None
    order: str | None = None
    arrival: str | None = None
    question: Question | None = None


def is_identifier(column: InferredColumn, subject: str = "") -> bool:
    """Whether a column has the name of a key, so that its numbers must not be added up.

    :param subject: the name of the dataset. A column named after one of its records is an identifier, too.
    """
    words = column.words
    if _is_called_like_a_record(column, subject):
        return True
    if column.type == "string":
        return any(word in KEY_WORDS for word in words)
    return words[-1] in KEY_WORDS or words[0] in _KEY_WORDS_IN_FRONT


def _is_called_like_a_record(column: InferredColumn, subject: str) -> bool:
    """Whether a column is named after one record of the dataset, as ``sale`` in sales; a column of numbers may be its amount."""
    # A till in tills is a thing with possibly many readings, such as sales; a sale in sales is the record itself.
    if len(column.words) > 1 or column.words[0] in _ENTITIES:
        return False
    [word] = column.words
    is_of_subject = any(
        of in (word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies") for of in subject.lower().split("_")
    )
    if column.type == "string":
        return is_of_subject or word in _RECORDS
    return is_of_subject and word not in _MEASURES and f"{word}s" not in _MEASURES


def key_of(
    samples: Sequence[Sample],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    subject: str,
    answers: Mapping[str, str],
) -> Key:
    """The key of the records.

    :param event: the column of the event time. ``subject`` is the dataset's name.
    :param answers: a person's answers, by the subject of the question; ``primary_key`` is one subject.
    """
    answer = answers.get("primary_key")
    if answer is not None:
        if answer == NO_KEY:
            return Key([], _KEYLESS)
        by_name = {column.name: column for column in columns}
        fields = [name.strip() for name in answer.split(",")]
        unknown = next((name for name in fields if name not in by_name), None)
        if unknown is not None:
            msg = f"primary_key={answer}: no field is called {unknown}; they are {', '.join(by_name)}"
            raise InferenceError(msg)
        return _change_log(samples, [by_name[name] for name in fields], columns, event, certain=True) or Key(fields, None)
    return _proposed(samples, columns, event, subject)


_KEYLESS = "no columns identify a record: a record is known by a hash of all of its values (synthetic_key)"


def _proposed(samples: Sequence[Sample], columns: Sequence[InferredColumn], event: InferredColumn | None, subject: str) -> Key:
    able = [column for column in columns if not column.empty and column is not event and _can_identify(column, subject)]
    able = [column for column in able if not (column.type == "string" and _holds_numbers(samples, column))]
    named = sorted((column for column in able if is_identifier(column, subject)), key=lambda column: _rank(column, subject))
    entities = [column for column in able if _ENTITIES & set(column.words) or column in named]
    labels = [
        column for column in able if column.type == "string" and column not in entities and not _PERIODS & set(column.words)
    ]
    times = [[event]] if event is not None and not event.empty else []
    periods = [column for column in columns if not column.empty and column is not event and _PERIODS & set(column.words)]
    times += [*([event, column] for column in periods if times and event is not None), *([column] for column in periods)]
    stages: Sequence[Callable[[], Key | None]] = (
        lambda: _of_own(samples, named, event, subject),
        lambda: next(filter(None, (_change_log(samples, [name], columns, event, certain=False) for name in named)), None),
        lambda: _of_lines(samples, [name for name in named if not _is_entity(name, subject)], event),
        lambda: _of_readings(samples, entities, times or [[]], event, _codes(samples, labels)),
        lambda: next((_certain(samples, time) for time in times if not able and _is_unique_in_each(samples, time)), None),
        lambda: _of_labels(samples, [*entities, *labels], times or [[]], _codes(samples, labels)),
    )
    return next(filter(None, (stage() for stage in stages)), Key([], _KEYLESS))


def _of_own(samples: Sequence[Sample], named: Sequence[InferredColumn], event: InferredColumn | None, subject: str) -> Key | None:
    """The identifier of the records themselves, with a question if two columns have equally good names."""
    unique = [name for name in named if not _is_entity(name, subject) and _identifies(samples, [name], event)]
    if not unique:
        return None
    alike = [name for name in unique if _rank(name, subject) == _rank(unique[0], subject)]
    key = _certain(samples, unique[:1])
    has_readings = event is not None and not event.empty and not _CREATIONS & set(event.words)
    if len(alike) == 1 and event is not None and has_readings and _ENTITIES & set(unique[0].words):
        reading = [unique[0], event]  # a file about stations may have each station once, or one reading of each
        return Key([column.name for column in reading], key.doubt, question=_which([reading, unique[:1]]))
    return Key(key.fields, key.doubt, question=_which([[name] for name in alike])) if len(alike) > 1 else key


def _of_lines(samples: Sequence[Sample], own: Sequence[InferredColumn], event: InferredColumn | None) -> Key | None:
    """Several identifiers together, such as an order number and a line number."""
    return next((_certain(samples, chosen) for chosen in _groups(own, 2) if _identifies(samples, chosen, event)), None)


def _of_labels(
    samples: Sequence[Sample],
    labels: Sequence[InferredColumn],
    times: Sequence[Sequence[InferredColumn]],
    codes: Sequence[InferredColumn],
) -> Key | None:
    """Unique columns without the name of a key: a person has to confirm them. A code is more likely than a time alone."""
    for time in times:
        if codes and time and _is_unique_in_each(samples, time):
            of_code = _certain(samples, codes[:1])
            return Key(of_code.fields, of_code.doubt, question=_which([codes[:1], time]))
        for chosen in [*([[]] if time else []), *_groups(labels)]:
            if _is_unique_in_each(samples, [*chosen, *time]):
                fields = [*chosen, *time]
                doubt = f"the key {_names(fields)} is unique in the sample, but is not called like one"
                return Key([column.name for column in fields], doubt, question=_which([fields]))
    return None


def _of_readings(
    samples: Sequence[Sample],
    entities: Sequence[InferredColumn],
    times: Sequence[Sequence[InferredColumn]],
    event: InferredColumn | None,
    codes: Sequence[InferredColumn],
) -> Key | None:
    """The key of repeated readings per entity, with a question if the entity is unique, too, or the time is an update time.

    :param codes: columns that may be identifiers by their values; they raise a question, too.
    """
    for time in times:
        for chosen in _groups(entities):
            if not _is_unique_in_each(samples, [*chosen, *time]):
                continue
            key = _certain(samples, [*chosen, *time])
            if codes:
                of_code = _certain(samples, codes[:1])
                return Key(of_code.fields, of_code.doubt, question=_which([codes[:1], [*chosen, *time]]))
            updated = event is not None and any(word in event.words for word in _UPDATES)
            doubtful = updated or _is_unique_in_each(samples, chosen)
            if time and doubtful and any(is_identifier(column) for column in chosen):
                return Key(key.fields, key.doubt, question=_which([[*chosen, *time], chosen]))
            return key
    return None


def _codes(samples: Sequence[Sample], labels: Sequence[InferredColumn]) -> list[InferredColumn]:
    """Columns whose texts look like identifiers: unique, with digits, and without blanks."""
    return [
        column
        for column in labels
        if _is_unique_in_each(samples, [column])
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
    options[NO_KEY] = "nothing identifies a record: it is known by a hash of all of its values, and can never be corrected"
    return Question("primary_key", "Which columns identify a record?", options)


def _change_log(
    samples: Sequence[Sample],
    key: Sequence[InferredColumn],
    columns: Sequence[InferredColumn],
    event: InferredColumn | None,
    *,
    certain: bool,
) -> Key | None:
    """The key and the order of files with several lines per key; None if they are not a change log.

    :param certain: whether a person named the key.
    """
    if _is_unique_in_each(samples, key):
        return None
    names, lines = _names(key), f"a file has several lines per {_names(key)}"
    for column in columns:
        if column in key or column.empty:
            continue
        if column.type == "bigint" and any(word in column.words for word in _VERSIONS):
            if _is_unique_in_each(samples, [*key, column]):
                return Key([of.name for of in key], f"{lines}: the greatest {column.name} counts", order=column.column)
        elif column.type == "timestamp" and column is not event and any(word in column.words for word in _UPDATES):
            steady = certain or event is None or _is_steady(samples, key, event)
            if steady and _is_unique_in_each(samples, [*key, column]):
                return Key([of.name for of in key], f"{lines}: the latest {column.name} counts", arrival=column.column)
    return Key([of.name for of in key], f"a file has several lines per {names}: the last one counts") if certain else None


def _is_steady(samples: Sequence[Sample], key: Sequence[InferredColumn], event: InferredColumn) -> bool:
    """Whether all lines of a key have the same event time: they are states of one thing, not readings."""
    times: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for sample in samples:
        for record in sample.records:
            times[tuple(f"{record.get(of.column)}" for of in key)].add(f"{record.get(event.column)}")
    return all(len(of_key) == 1 for of_key in times.values())


def _identifies(samples: Sequence[Sample], key: Sequence[InferredColumn], event: InferredColumn | None) -> bool:
    """Whether columns are unique in each file, and are not reused in another file for a record of another day.

    A repeated record with another time may be a correction; if all repeated records have another time, numbers are reused.
    """
    if not _is_unique_in_each(samples, key):
        return False
    if event is None or event in key:
        return True
    times: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for sample in samples:
        for record in sample.records:
            times[tuple(f"{record.get(of.column)}" for of in key)].append(f"{record.get(event.column)}")
    again = [of_key for of_key in times.values() if len(of_key) > 1]
    return not again or any(len(set(of_key)) < len(of_key) for of_key in again)


def _is_unique_in_each(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> bool:
    for sample in samples:
        keys = {tuple(f"{record.get(column.column)}" for column in columns) for record in sample.records}
        if len(keys) < len(sample.records):
            return False
    return True


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
    return bool(words & (_ENTITIES | _PERIODS)) and not words & _MEASURES


def _holds_numbers(samples: Sequence[Sample], column: InferredColumn) -> bool:
    """Whether a column with the name of a measure has mostly numbers, among words for 'no value'."""
    if not _MEASURES & set(column.words) or any(word in KEY_WORDS for word in column.words):
        return False
    values = [
        f"{record[column.column]}" for sample in samples for record in sample.records if record.get(column.column) is not None
    ]
    return sum(bool(_NUMBER.fullmatch(value.strip())) for value in values) * 2 > len(values)


def _is_entity(column: InferredColumn, subject: str) -> bool:
    """Whether a column names a thing with many records; the dataset's own thing does not count."""
    words = set(column.words) & _ENTITIES
    return bool(words) and not any(word in subject.lower() for word in words)


def _rank(column: InferredColumn, subject: str) -> tuple[bool, bool, int]:
    """Sort key of candidates: named after the dataset's thing or just ``id`` first, then by the word for a key."""
    words = column.words
    others = [word for word in words if word not in KEY_WORDS]
    about = not others or any(word in subject.lower() for word in others)
    return _is_entity(column, subject), not about, next((rank for rank, word in enumerate(KEY_WORDS) if word in words), 0)


def _names(columns: Sequence[InferredColumn]) -> str:
    return ", ".join(column.name for column in columns)
