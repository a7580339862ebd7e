"""The fields of a source: a name and a type with room to grow for each column, and the formats of values that need one.

A column gets the first type to which the product converts all of its values (``bronze.type_conversion``), so that an inferred
contract can ingest the samples.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.bronze import type_conversion
from lakehouse.contracts import inputs
from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.project import event_times, number_columns
from lakehouse.project.questions import CODES, SPREADSHEET_NUMBER, InferenceError, InferredColumn, Question, is_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lakehouse.project.questions import Sample

_UTC = ZoneInfo("UTC")
#: The types in the order of trial, the narrowest first; any text is a string.
_TYPES = ("bigint", "decimal", "double", "boolean", "date", "timestamp")
_CODE = re.compile(r"0\d+")
_FRACTION = re.compile(r"[.eE]")
_WIDEST = 38
#: The fewest digits before the point and the fewest decimals of a decimal type, and the digits added to those of the sample: the
#: next file may have more.
_WHOLE, _SCALE, _MORE_WHOLE, _MORE_SCALE = 16, 4, 6, 2
#: A column with at least this many numbers per other value may be a column of numbers with broken values.
_NUMBERS_PER_MISFIT = 20
#: A number with this many significant digits was written by a program as the nearest double, not typed by a person.
_DIGITS_OF_DOUBLES = 16
_THOUSANDS_OR_DECIMALS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
#: In so many records, a time that is always midnight is no time.
_ENOUGH = 3
#: Letters that no accent makes of others.
_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "ł": "l", "Ł": "L", "đ": "d"})
_AS_TEXT = "have it exported as text, or the file as the system writes it, before a spreadsheet opens it"
DOUBLE_ADVICE = "is a double, as its digits say: sums of doubles are rounded; use decimals for money"


def type_of(values: Sequence[Any]) -> tuple[str, str | None]:
    """The narrowest type of all values, and a doubt about it.

    Texts of digits with leading zeros are codes, not numbers.
    """
    if not values:
        return "string", "has no value in the samples: a string until you know better"
    if any(isinstance(value, str) and _CODE.fullmatch(value.strip()) for value in values):
        return "string", None
    if any(map(_is_written_by_a_program, values)) and _all_convert(values, "double"):
        return "double", DOUBLE_ADVICE
    for kind in _TYPES[1:] if any(map(_has_cents, values)) else _TYPES:
        wanted = _decimal_of(values) if kind == "decimal" else kind
        if kind == "double" and not any(_FRACTION.search(f"{value}") for value in values):
            continue  # a double would drop digits of a long number
        if kind == "boolean" and not _are_flags(values):
            continue
        if wanted is not None and _all_convert(values, wanted):
            return wanted, DOUBLE_ADVICE if wanted == "double" else None
    return "string", unread(values) or _of_words(values) or _of_days(values)


def _are_flags(values: Sequence[Any]) -> bool:
    """Whether values may be true or false: not if all are one letter, such as N for a shop in the north."""
    words = {f"{value}".strip().lower() for value in values}
    return len(words) > 1 or words <= {"true", "false", "yes", "no"}


def with_fractions(values: Sequence[Any]) -> str | None:
    """The decimal type of whole numbers that may have fractions in the next file; None if they have too many digits."""
    return _decimal_of([*values, "0.0"])


def has_points(values: Sequence[Any]) -> bool:
    """Whether whole numbers are written with a point, such as 0.0."""
    return any("." in f"{value}" for value in values)


def _of_words(values: Sequence[Any]) -> str | None:
    rejected = [value for value in values if not _all_convert([value], "timestamp")]
    if len(rejected) < len(values) // 2:
        return f"is a time in most records, but not {rejected[0]!r}"
    words = [value for value in values if not _all_convert([value], "double")]
    if words and len(words) < (len(values) + 1) // 2:
        return f"is a number in most records, but not {words[0]!r}: it may be a word for 'no value' (source.null_values)"
    return None


def _of_days(values: Sequence[Any]) -> str | None:
    texts = [f"{value}".strip() for value in values]
    if not all(map(_LIKE_A_DAY.fullmatch, texts)):
        return None
    shapes = list({re.sub(r"\d+", "1", text): text for text in texts}.values())[:2]
    return f"has days or times that no single format reads ({' and '.join(map(repr, shapes))}): have them written in one way"


def misfits(values: Sequence[Any]) -> list[Any]:
    """The few values that are not numbers in a column of numbers; empty if there are none, or too many."""
    words = [value for value in values if not _all_convert([value], "double")]
    return words if len(words) * _NUMBERS_PER_MISFIT <= len(values) else []


def has_two_readings(values: Sequence[Any]) -> bool:
    """Whether all numbers have three digits after one point: 1.234 may be one and a fraction, or more than a thousand."""
    return bool(values) and all(isinstance(value, str) and _THOUSANDS_OR_DECIMALS.fullmatch(value.strip()) for value in values)


def unread(values: Sequence[Any]) -> str | None:
    """Describe texts that the product does not read as numbers or times, with their conversion; None for plain texts."""
    texts = [f"{value}".strip() for value in values]
    for pattern, text in _UNREAD:
        if texts and all(pattern.fullmatch(value) for value in texts):
            example = next((value for value in texts if not _all_convert([value], "double")), texts[0])
            return f"{text} ({example!r})"
    return None


def period_form(values: Sequence[Any], *, called_a_time: bool) -> str | None:
    """The format of a column of months, weeks or years; None if a value is none of these.

    :param called_a_time: whether the column's name suggests a time; whole numbers are years or months only then.
    """
    texts = [f"{value}".strip() for value in values]
    digits = bool(texts) and all(value.isdigit() for value in texts)
    if not texts or (digits and not called_a_time):
        return None
    for form in _DIGITS_OF_PERIODS if digits else _PERIODS:
        if not digits or all(re.fullmatch(_DIGITS_OF_PERIODS[form], value) for value in texts):
            try:
                deque(map(inputs.reader(form), texts), maxlen=0)
            except inputs.NotWrittenSoError:
                continue
            return form
    return None


def written_forms(values: Sequence[Any], *, called_a_time: bool) -> dict[str, Any]:
    """The formats of ``source.formats`` that can read all values of a column, each with its reading of the first value.

    Several formats are returned if they read a value differently; none if the values need no format, or no format fits.
    """
    texts = [f"{value}".strip() for value in values]
    if not texts:
        return {}
    forms = _forms_of_numbers(texts) if not _all_convert(texts, "double") else []
    digits = [form for form, pattern in _DIGITS_OF_TIMES.items() if all(re.fullmatch(pattern, value) for value in texts)]
    if called_a_time and digits:
        forms += digits
    elif _MAY_BE_A_TIME.fullmatch(texts[0]) and not _all_convert(texts, "timestamp"):
        forms += _TIMES  # 05.11.2024 has the marks of a number, too
    readings: dict[tuple[Any, ...], str] = {}
    for form in forms:
        read = inputs.reader(form)
        try:
            readings.setdefault(tuple(map(read, texts)), form)
        except inputs.NotWrittenSoError:
            continue
    likely = sorted(readings, key=_days_between) if len(readings) > 1 else readings
    written = {reading: _of_midnights(readings[reading], texts) for reading in likely}
    return {form: reading[0] if form == readings[reading] else reading[0][:10] for reading, form in written.items()}


def _days_between(reading: Sequence[Any]) -> int:
    """The days from the first to the last of several times: in the more likely reading they lie closer together."""
    days = sorted(f"{value}"[:10] for value in reading)
    try:
        return (date.fromisoformat(days[-1]) - date.fromisoformat(days[0])).days
    except ValueError:  # numbers
        return 0


def _of_midnights(form: str, texts: Sequence[str]) -> str:
    """The format of days whose time is always the same midnight, as in ``11/4/2024 12:00:00 AM``; else ``form``."""
    clocks = {text.partition(" ")[2] for text in texts}
    day, _, clock = form.partition(" ")
    if len(texts) < _ENOUGH or len(clocks) > 1 or day not in _DAYS or clock not in {of.strip() for of in _CLOCKS if of}:
        return form
    midnight = clocks.pop()
    return f"{day} {midnight}" if re.fullmatch(r"(?:0{1,2}|12(?=.* AM$)):00(?::00(?:\.0+)?)?(?: AM)?", midnight) else form


def are_days_of_excel(values: Sequence[Any]) -> bool:
    """Whether all values of a column, which is called a time, may be the numbers by which Excel counts days."""
    return bool(values) and all(_DAYS_OF_EXCEL.fullmatch(f"{value}".strip()) for value in values)


def _forms_of_numbers(texts: Sequence[str]) -> list[str]:
    """The number formats with the currency symbols and the short forms in ``texts``."""
    signs = [match for text in texts if (match := _SIGNED.fullmatch(text))]
    if len(signs) < len(texts):
        return []
    before, after = (next((match[side] for match in signs if match[side]), "") for side in (1, 2))
    short = "K" if any(re.search(r"\d[KMBkmb]", text) for text in texts) else ""
    return [f"{before}1{group}234{point}56{short}{' ' if after else ''}{after}" for group, point in _MARKS]


_CURRENCIES = "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|TRY|BRL|MXN|ZAR|SGD|HKD|KRW"
_LIKE_A_DAY = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([T ,][^/]*)?")
_UNREAD: Sequence[tuple[re.Pattern[str], str]] = (
    (
        re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}\.\d{7,9}\S*"),
        "has times finer than a microsecond: have them sent with six digits behind the point",
    ),
    (
        re.compile(
            r"(?!.*(?:UTC|GMT|[AaPp][Mm]\W*$)).*\d:\d{2}\S* ?(?:[AaPp][Mm] )?\(?[A-Z]{2,5}\)?(?: \d{4})?"
            r"|.*\d:\d{2}.*(?:GMT|UTC)[+-]\d{1,2}"
        ),
        "has times with the abbreviation of a zone, which is ambiguous: have them sent with an offset (10:00:00-05:00)",
    ),
    (
        re.compile(r"\d{4}[- ]?Q[1-4]|Q[1-4][- ]?\d{4}"),
        "has quarters: write the first day of each, such as 2024-10-01, to have it as event time",
    ),
    (
        re.compile(rf"({_CURRENCIES}) ?[+-]?\d[\d.,' ]*|[+-]?\d[\d.,' ]* ?({_CURRENCIES})"),
        "has numbers with the code of a currency: have the code sent in a column of its own",
    ),
)
_SIGNED = re.compile(
    r"[(+\u2212-]*[ \u00a0]?([$€£¥₹]?)[ \u00a0]?[+\u2212-]?\d[\d.,'\u2019 \u00a0\u202f]*[KMBkmb]?[ \u00a0\u202f]?([$€£¥₹%]?)-?\)?"
)
#: The separators of thousands and of decimals.
_MARKS = ((",", "."), (".", ","), (" ", ","), ("'", "."), (" ", "."), ("", ","), ("", "."))
_CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p", " %H.%M.%S", " %I.%M.%S.%f %p"),
    *(" %H:%M:%S,%f", " %H:%M:%S.%f", " %H:%M:%S GMT", " %H:%M:%S %z", ", %H:%M", ", %H:%M:%S", ", %I:%M:%S %p"),
)
_DAYS = (
    "%Y-%m-%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d-%m-%Y",
    "%d-%b-%y",
    "%d-%b-%Y",
    "%d/%b/%y",
    "%d/%b/%Y",
)
_DAYS_IN_WORDS = ("%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
_TIMES = (
    *(f"{day}{clock}" for day in (*_DAYS, *_DAYS_IN_WORDS) for clock in _CLOCKS),
    *(f"{clock.strip()} {day}" for day in _DAYS_IN_WORDS for clock in _CLOCKS if clock),
    *("%Y%m%dT%H%M%S", "%Y%m%dT%H%M%S%z", "%Y%m%d %H%M%S"),
    # Headers of mail and HTTP, C's ctime, logs of web servers, Go.
    *("%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S %z"),
    *("%Y-%m-%d %H:%M:%S %z UTC", "%Y年%m月%d日"),
)
#: Digits with at most a few letters and marks: other texts are not compared with each pattern, which takes long.
_MAY_BE_A_TIME = re.compile(r"(?=(?:\D*\d){3})[\w :.,/+()-]{6,40}")
#: Months, weeks and years, each read as its first day.
_PERIODS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y", "%B %Y", "%b-%y", "%b-%Y", "%Y-%b", "%G-W%V", "%GW%V")
_DIGITS_OF_PERIODS = {"%Y%m": r"(1[6-9]|20)\d{2}(0[1-9]|1[0-2])", "%Y": r"(1[6-9]|20)\d{2}"}
#: Whole numbers that are times if their column's name suggests one.
_DIGITS_OF_TIMES = {
    "%Y%m%d": r"(19|20)\d{6}",
    "%Y%m%d%H": r"(19|20)\d{6}([01]\d|2[0-3])",
    "%Y%m%d%H%M": r"(19|20)\d{6}([01]\d|2[0-3])[0-5]\d",
    "%Y%m%d%H%M%S": r"(19|20)\d{6}([01]\d|2[0-3])[0-5]\d[0-5]\d",
    "%y%m%d": r"(?!(?:19|20)\d{2}(?:0[1-9]|1[0-2])$)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])",
    "epoch_seconds": r"1\d{9}(\.\d{1,6})?",
    "epoch_milliseconds": r"1\d{12}(\.\d{1,3})?",
    "epoch_microseconds": r"1\d{15}",
    "epoch_nanoseconds": r"1\d{15}000",
}
#: Days since the end of 1899 as Excel counts them, from 1982 to 2064.
_DAYS_OF_EXCEL = re.compile(r"[3-5]\d{4}(\.\d+)?")


def _has_cents(value: Any) -> bool:
    """Whether a text has decimals such as 100.00, which may differ in the next file; 1001.0 is a whole number."""
    return isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\.\d{2,}\s*", value) is not None


def _is_written_by_a_program(value: Any) -> bool:
    """Whether a number has the many digits of a double near a shorter number, such as 0.30000000000000004."""
    text = f"{value}".strip().lstrip("+-")
    digits = text.replace(".", "").lstrip("0")
    if "." not in text or not digits.isdigit() or len(digits) < _DIGITS_OF_DOUBLES:
        return False
    return repr(float(text)) == text


def _all_convert(values: Sequence[Any], kind: str) -> bool:
    convert: Callable[[Any], Any] = type_conversion.converter(kind, _UTC)
    try:
        for value in values:
            convert(value)
    except ValueError:
        return False
    return True


def _decimal_of(values: Sequence[Any]) -> str | None:
    """The decimal type for all values, with room for longer ones; None if they are not decimals, or have too many digits."""
    whole = scale = 0
    for value in values:
        match = re.fullmatch(r"\s*[+-]?(\d*)\.?(\d*)\s*", f"{value}")
        if match is None:
            return None
        whole, scale = max(whole, len(match[1])), max(scale, len(match[2]))
    if whole + scale > _WIDEST:
        return None
    roomy = max(_SCALE, scale + _MORE_SCALE) if scale else 0
    roomy = min(roomy, _WIDEST - whole)
    return f"decimal({min(_WIDEST, max(_WHOLE, whole + _MORE_WHOLE) + roomy)},{roomy})"


def columns_of(
    samples: Sequence[Sample], shared: Sequence[str], answers: Mapping[str, str]
) -> tuple[list[InferredColumn], dict[str, str], list[str], list[Question]]:
    """The columns, the formats of columns that need one, doubts, and open questions.

    Where several formats fit, the default is that of other columns of the file, in which only one does.
    """
    columns, forms, doubts, questions = _columns(samples, shared, answers, ())
    certain = {form for name, form in forms.items() if all(question.about != f"column {name}" for question in questions)}
    if certain and any(question.default in forms.values() for question in questions):
        return _columns(samples, shared, answers, certain)
    return columns, forms, doubts, questions


def _columns(
    samples: Sequence[Sample], shared: Sequence[str], answers: Mapping[str, str], certain: Collection[str]
) -> tuple[list[InferredColumn], dict[str, str], list[str], list[Question]]:
    columns: list[InferredColumn] = []
    forms: dict[str, str] = {}
    doubts: list[str] = []
    questions: list[Question | None] = []
    for name, field_name in field_names(shared).items():
        values = [record.get(name) for sample in samples for record in sample.records]
        present = [value for value in values if value is not None]
        kind, doubt = type_of(present)
        column = InferredColumn(field_name, name, kind, len(values) - len(present))
        question, answer = None, answers.get(f"column {name}")
        called_a_time = event_times.is_called_a_time(column) and not is_identifier(column)
        cut = next((value for value in present if isinstance(value, str) and SPREADSHEET_NUMBER.fullmatch(value)), None)
        if cut is not None and (is_identifier(column) or column.words[-1] in CODES):
            kind, doubt = (
                "string",
                f"a spreadsheet has cut its numbers ({cut.strip()}), so that several may look like one: {_AS_TEXT}",
            )
        elif called_a_time and are_days_of_excel(present):
            doubt = f"has days as Excel counts them ({present[0]}): have the column formatted as yyyy-mm-dd and saved again"
        elif form := _form_of(column, present, answers, certain, called_a_time=called_a_time):
            forms[name], of_form, question = form
            doubts.append(f"column {name}: {of_form}")
            present = list(map(inputs.reader(forms[name]), present))
            kind, doubt = type_of(present)
        elif any(isinstance(value, dict | list) for value in present):
            doubt = f"has objects or lists: it is their text, from which get_json_object({field_name}, '$.name') reads a value"
        elif has_two_readings(present):
            question = None if answer else _question_of_points(name, present[0])
            kind = "string" if answer == "text" else kind
        elif kind == "string" and not is_identifier(column) and (few := misfits(present)):
            question = None if answer else _question_of_misfits(name, few)
            if answer == "number":
                present = [value for value in present if value not in few]
                kind, doubt = type_of(present)[0], f"records with values such as {few[0]!r} are malformed"
        column = replace(column, type=kind, form=forms.get(name))
        column = replace(column, type=_roomy_type(column, present))
        doubt = None if column.type == "string" != kind else doubt
        columns.append(column)
        questions.append(question)
        doubts += [f"column {name}: {doubt}"] if doubt else []
    return columns, forms, doubts, [question for question in questions if question]


def _roomy_type(column: InferredColumn, present: Sequence[Any]) -> str:
    """The type with room for fractions; an identifier with a point is a text, because 1.20 is another code than 1.2."""
    kind = column.type
    if is_identifier(column) and (kind == "double" or (kind.startswith("decimal") and not kind.endswith(",0)"))):
        return "string"
    if kind == "bigint" and (number_columns.has_fractions(column) or _may_have_fractions(column, present)):
        return with_fractions(present) or kind
    return kind


def _may_have_fractions(column: InferredColumn, present: Sequence[Any]) -> bool:
    """Whether whole numbers are written like 0.0 and are not identifiers, which pandas writes so next to empty values."""
    return has_points(present) and not column.empty and not is_identifier(column)


def _question_of_points(name: str, value: Any) -> Question:
    """The question whether a point separates decimals or thousands, if no value decides it."""
    options = {
        "decimal": f"{value} is less than a thousand: the point begins the decimals",
        "text": f"{value} has a point for thousands: it stays text until it is sent without",
    }
    return Question(f"column {name}", f"How are numbers such as {value} in {name} read?", options)


def _question_of_misfits(name: str, few: Sequence[Any]) -> Question:
    """The question about a few values that are not numbers in a column of numbers."""
    options = {
        "text": f"{name} stays text, and is in no measure",
        "number": f"{name} is a number; records such as that with {few[0]!r} are malformed ({len(few):,} in the samples)",
    }
    return Question(f"column {name}", f"{name} has numbers, but {few[0]!r}: how is it read?", options)


def _form_of(
    column: InferredColumn, present: Sequence[Any], answers: Mapping[str, str], certain: Collection[str], *, called_a_time: bool
) -> tuple[str, str, Question | None] | None:
    """The format of a column's values, with a doubt and an open question; None if the values need no format.

    :param certain: the formats of other columns.
    """
    if column.type != "string" and not (column.type.startswith(("bigint", "decimal", "double")) and called_a_time):
        return None
    readings = written_forms(present, called_a_time=called_a_time)
    if not readings:
        return None
    about, first = f"column {column.column}", present[0]
    question = None
    marks = {_marks_of(form) for form in certain}
    readings = dict(sorted(readings.items(), key=lambda reading: _marks_of(reading[0]) not in marks))
    if len(readings) > 1 and about not in answers:
        options = {form: f"{first} is {reading}" for form, reading in readings.items()}
        question = Question(about, f"How are values such as {first} in {column.column} read?", options)
    form = answers.get(about, next(iter(readings)))
    if form not in readings:
        msg = f"{about}={form}: its values are not written so; they may be {', '.join(readings)}"
        raise InferenceError(msg)
    return form, f"{first!r} is read as {readings[form]} (source.formats)", question


def _marks_of(form: str) -> str:
    """A format of times, or the separators of a format of numbers without currency and short forms."""
    return re.sub(r"[^1-6.,']", "", form) if inputs.is_of_numbers(form) else form


def read_by(sample: Sample, forms: Mapping[str, str]) -> Sample:
    """The sample with the values as the formats read them."""
    readers = {name: inputs.reader(form) for name, form in forms.items()}
    records = [
        {name: readers[name](value) if name in readers and value is not None else value for name, value in record.items()}
        for record in sample.records
    ]
    return replace(sample, records=records) if forms else sample


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """A field name for each column: lower case, with digits and underscores, unique, and different from system columns."""
    names: dict[str, str] = {}
    for column in columns:
        plain = unicodedata.normalize("NFKD", column.translate(_LETTERS))
        plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
        name = re.sub(r"[^a-z0-9]+", "_", snake.lower()).strip("_") or "column"
        name = name if name[0].isalpha() else f"c_{name}"
        name = f"c_{name}" if name.startswith("quarantine_") else f"{name}_in_file" if name in SYSTEM_COLUMNS else name
        while name in names.values():
            name += "_2"
        names[column] = name
    return names
