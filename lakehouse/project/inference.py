"""What sample files say about a source: its columns, the clocks, and what is uncertain or has to be asked. Plain Python.

The type of a column is inferred in ``column_types``, the key in ``key_candidates``. Reading the samples belongs to
``samples``, the YAML to ``contract_text``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.bronze import type_conversion
from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.changes.marking import Changes
from lakehouse.contracts.inputs import written_values
from lakehouse.contracts.inputs.section import Source
from lakehouse.project import column_types
from lakehouse.project.key_candidates import key_of
from lakehouse.project.questions import InferenceError, InferredColumn, Question, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UTC = ZoneInfo("UTC")
#: Words in the names of columns with the time of an event: the event's own, its record's, any time, and what comes after it.
_EVENT_WORDS = (
    (
        *("event", "occurred", "happened", "service", "transaction", "trade", "traded", "sold", "ordered", "order", "purchased"),
        *("purchase", "sale", "measured", "observed", "observation", "read", "reading", "sampled", "visit", "usage"),
    ),
    ("created", "booked", "placed", "issued", "invoice", "registered", "started", "start"),
    ("timestamp", "datetime", "time", "date", "day", "at", "ts"),
    ("paid", "payment", "posted", "reported", "report", "shipped", "delivered", "closed", "settled", "settlement", "value"),
)
_ARRIVAL_WORDS = (
    *("received", "arrival", "arrived", "ingested", "loaded", "exported", "sent", "updated", "modified", "changed", "update"),
    *("extracted", "downloaded", "crawled"),
)
_UPDATE_WORDS = ("updated", "modified", "changed", "update")
_NEVER_WORDS = (
    *(
        "due",
        "valid",
        "until",
        "expiry",
        "expires",
        "expiration",
        "expire",
        "maturity",
        "deadline",
        "end",
        "ends",
        "next",
        "birth",
    ),
    *("birthday", "dob", "planned", "expected", "estimated", "scheduled", "to", "deleted", "cancelled", "warranty"),
)
#: From this rank on a column is doubtful as the time of an event.
_DOUBTFUL, _NEVER = len(_EVENT_WORDS) + 1, len(_EVENT_WORDS) + 2
#: The contract's first event day lies so many years before the sample's, and not after the product's own first day.
_YEARS_BEFORE = 2
#: The names of columns that say what happened to a record.
_OP_NAMES = ("op", "operation", "change", "action", "__op", "change_op")


@dataclass(frozen=True)
class InferredSource:
    """A source as its samples show it.

    :param key: the fields that identify a record in each file; empty if none do.
    :param op: the column that says whether a record is new, corrects or withdraws one.
    :param event: the column of the event time; None if no column is a time.
    :param naive: whether the event times have no zone.
    :param first_day: the first event day of the contract: late data may be older than the samples.
    :param doubts: sentences for the person who reads the contract.
    :param order: the column with the version of a record. ``questions`` are open: their defaults are taken.
    :param formats: by column how its values are written, where they are not read as they are.
    """

    columns: Sequence[InferredColumn]
    key: Sequence[str]
    op: str | None
    event: str | None
    arrival: str | None
    naive: bool
    first_day: date | None
    doubts: Sequence[str] = field(default_factory=list)
    order: str | None = None
    questions: Sequence[Question] = field(default_factory=list)
    formats: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether a contract follows without a person's answer."""
        return self.event is not None and not self.questions


@dataclass(frozen=True)
class _Clocks:
    event: InferredColumn | None
    arrival: InferredColumn | None
    doubts: Sequence[str]
    question: Question | None = None


def infer(samples: Sequence[Sample], answers: Mapping[str, str] | None = None, subject: str = "") -> InferredSource:
    """Infer a source from one or more sample files.

    :param answers: what a person answered, by what the questions are about.
    :param subject: the name of the dataset; an identifier that is called like it is the key.

    :raises InferenceError: for a file without records, or files that have no column in common.
    """
    for sample in samples:
        if not sample.records:
            msg = f"{sample.file}: has no record; give a file with at least one"
            raise InferenceError(msg)
    shared = [name for name in samples[0].columns if all(name in sample.columns for sample in samples)]
    if not shared:
        msg = f"{samples[-1].file}: has no column in common with {samples[0].file}; infer one source at a time"
        raise InferenceError(msg)
    doubts = [
        f"column {name} is not in every file: it is left out"
        for name in sorted({name for sample in samples for name in sample.columns} - set(shared))
    ]
    answers = answers or {}
    columns, forms, more_doubts, questions = _columns(samples, shared, answers)
    doubts += more_doubts
    samples = [_read_by(sample, forms) for sample in samples]
    op = next((column for column in columns if _marks_changes(column.column, samples)), None)
    clocks = _clocks(columns, answers)
    key = key_of(samples, [column for column in columns if column is not op], clocks.event, subject, answers)
    doubts += [key.doubt] if key.doubt else []
    if op is not None and key.fields:  # without a key there is nothing that a record could change
        columns.remove(op)
        doubts.append(f"column {op.column} says whether a record is new, corrects or withdraws one (changes.op)")
    event, doubts = clocks.event, [*doubts, *clocks.doubts]
    times = [record[event.column] for sample in samples for record in sample.records if record.get(event.column)] if event else []
    naive = bool(event) and any(_is_naive(value) for value in times)
    if naive:
        doubts.append("event times have no zone and are read as UTC: set clocks.timezone to theirs, such as Europe/Berlin")
    return InferredSource(
        columns=columns,
        key=key.fields,
        op=op.column if op and key.fields else None,
        event=event.column if event else None,
        arrival=key.arrival or (clocks.arrival.column if clocks.arrival else None),
        naive=naive,
        first_day=_first_day(min(map(_day_of, times), default=None)),
        doubts=doubts,
        order=key.order,
        formats=forms,
        questions=[*questions, *(question for question in (clocks.question, key.question) if question)],
    )


def _columns(
    samples: Sequence[Sample], shared: Sequence[str], answers: Mapping[str, str]
) -> tuple[list[InferredColumn], dict[str, str], list[str], list[Question]]:
    """The columns, the formats of those that are not read as they are, doubts, and the questions that they leave open."""
    columns: list[InferredColumn] = []
    forms: dict[str, str] = {}
    doubts: list[str] = []
    questions: list[Question | None] = []
    for name, field_name in field_names(shared).items():
        values = [record.get(name) for sample in samples for record in sample.records]
        present = [value for value in values if value is not None]
        kind, doubt = column_types.type_of(present)
        column = InferredColumn(field_name, name, kind, len(values) - len(present))
        question, answer = None, answers.get(f"column {name}")
        if form := _form_of(column, present, answers):
            forms[name], of_form, question = form
            doubts.append(f"column {name}: {of_form}")
            present = list(map(written_values.reader(forms[name]), present))
            kind, doubt = column_types.type_of(present)
        elif column_types.has_two_readings(present):
            question = None if answer else _question_of_points(name, present[0])
            kind = "string" if answer == "text" else kind
        column = replace(column, type=kind)
        if kind == "bigint":
            doubt = column_types.unread_time(present, called_a_time=_is_called_a_time(column)) or doubt
        columns.append(column)
        questions.append(question)
        doubts += [f"column {name}: {doubt}"] if doubt else []
    return columns, forms, doubts, [question for question in questions if question]


def _question_of_points(name: str, value: Any) -> Question:
    """The question whether a point begins decimals or stands for thousands, where no value tells."""
    options = {
        "decimal": f"{value} is less than a thousand: the point begins the decimals",
        "text": f"{value} has a point for thousands: it stays text until it is sent without",
    }
    return Question(f"column {name}", f"How are numbers such as {value} in {name} read?", options)


def _form_of(
    column: InferredColumn, present: Sequence[Any], answers: Mapping[str, str]
) -> tuple[str, str, Question | None] | None:
    """How the values of a column are written, with a doubt and what has to be asked; None where they are read as they are."""
    called_a_time = _is_called_a_time(column)
    if column.type != "string" and not (column.type == "bigint" and called_a_time):
        return None
    readings = column_types.written_forms(present, called_a_time=called_a_time)
    if not readings:
        return None
    about, first = f"column {column.column}", present[0]
    question = None
    if len(readings) > 1 and about not in answers:
        options = {form: f"{first} is {reading}" for form, reading in readings.items()}
        question = Question(about, f"How are values such as {first} in {column.column} read?", options)
    form = answers.get(about, next(iter(readings)))
    if form not in readings:
        msg = f"{about}={form}: its values are not written so; they may be {', '.join(readings)}"
        raise InferenceError(msg)
    return form, f"{first!r} is read as {readings[form]} (source.formats)", question


def _read_by(sample: Sample, forms: Mapping[str, str]) -> Sample:
    """A sample with the values that formats give."""
    readers = {name: written_values.reader(form) for name, form in forms.items()}
    records = [
        {name: readers[name](value) if name in readers and value is not None else value for name, value in record.items()}
        for record in sample.records
    ]
    return replace(sample, records=records) if forms else sample


def _is_called_a_time(column: InferredColumn) -> bool:
    return "year" in column.words or any(word in column.words for words in (*_EVENT_WORDS, _ARRIVAL_WORDS) for word in words)


def _first_day(first: date | None) -> date | None:
    """The first event day of the contract, at the latest that of a contract that names none."""
    if first is None:
        return None
    return min(Source().start_date, date(max(first.year - _YEARS_BEFORE, 1), 1, 1))


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """A field for each column: lower case, with digits and underscores, each once, and none that the tables have themselves."""
    names: dict[str, str] = {}
    for column in columns:
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
        name = re.sub(r"[^a-z0-9]+", "_", snake.lower()).strip("_") or "column"
        name = name if name[0].isalpha() else f"c_{name}"
        name = f"c_{name}" if name.startswith("quarantine_") else f"{name}_in_file" if name in SYSTEM_COLUMNS else name
        while name in names.values():
            name += "_2"
        names[column] = name
    return names


def _marks_changes(column: str, samples: Sequence[Sample]) -> bool:
    """Whether all values of a column are words for new, corrected and withdrawn records."""
    words = Changes()
    known = {*words.insert_words, *words.correct_words, *words.delete_words}
    values = {f"{record.get(column)}".strip().lower() for sample in samples for record in sample.records}
    return column.lower() in _OP_NAMES and values <= known


def _clocks(columns: Sequence[InferredColumn], answers: Mapping[str, str]) -> _Clocks:
    """The columns of event and arrival time, doubts about them, and the question where two fit alike."""
    times = [column for column in columns if column.type in ("date", "timestamp")]
    arrivals = [column for column in times if any(word in column.words for word in _ARRIVAL_WORDS)]
    events = sorted(times, key=_event_rank)
    if not events:
        return _Clocks(None, None, ["no column is a date or a time: name the column of the event time under clocks.event"])
    received = [column for column in arrivals if not any(word in column.words for word in _UPDATE_WORDS)]
    answer = answers.get("clocks.event")
    if answer is not None and all(column.column != answer for column in events):
        msg = (
            f"clocks.event={answer}: no such column is a date or a time; they are {', '.join(column.column for column in events)}"
        )
        raise InferenceError(msg)
    chosen = next((column for column in events if column.column == answer), None)
    event = chosen or events[0]
    best = _event_rank(event)
    rivals = [column for column in events[1:] if _event_rank(column)[:2] == best[:2]]
    question = None
    if chosen is None and (rivals or best[1] >= _DOUBTFUL):
        options = {column.column: f"a number belongs to the day of {column.column}" for column in events}
        question = Question("clocks.event", "Which column says when the event happened?", options)
    arrival = next(
        (column for column in arrivals if column is not event and column.type == "timestamp" and not column.empty), None
    )
    doubts = []
    if len(events) > 1:
        others = ", ".join(column.column for column in events if column is not event and column not in received)
        doubts += [f"event time is taken from {event.column}; {others} could be it, too"] if others else []
    if arrival is None:
        doubts.append("no column has the time of arrival: the time of ingestion counts")
    return _Clocks(event, arrival, doubts, question)


def _event_rank(column: InferredColumn) -> tuple[bool, int, int]:
    """The best column of an event time first: the thing's own time, and never the day on which something ends or is due."""
    words = column.words
    if any(word in words for word in _NEVER_WORDS):
        return column.empty > 0, _NEVER, 0
    if any(word in words for word in _ARRIVAL_WORDS):
        return column.empty > 0, _DOUBTFUL, 0
    for kind, of_kind in enumerate(_EVENT_WORDS):
        for rank, word in enumerate(of_kind):
            if word in words:
                return column.empty > 0, kind, rank
    return column.empty > 0, len(_EVENT_WORDS), 0


def _day_of(value: Any) -> date:
    if type_conversion.is_date_only(value):
        return type_conversion.to_date(value)
    return type_conversion.to_timestamp(value, _UTC).astimezone(timezone.utc).date()


def _is_naive(value: Any) -> bool:
    """Whether a time needs a zone; a date does not."""
    if type_conversion.is_date_only(value):
        return False
    try:
        type_conversion.to_timestamp(value)
    except ValueError:
        return True
    return False
