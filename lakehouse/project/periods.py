"""Infers event days without a column of days: from months, weeks or years, or from several columns. Plain Python.

A period is read as its first day (``contracts.inputs``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehouse.bronze import type_conversion
from lakehouse.contracts import inputs
from lakehouse.project import column_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.project.questions import InferredColumn, Sample

#: This many columns with names like days or periods are no accident.
_SEVERAL = 3
_YEARS = frozenset({"year", "yr", "yyyy", "jahr", "annee", "ano", "anno", "anio"})
_MONTHS = frozenset({"month", "mon", "monat", "mois", "mes", "mese"})
_WEEKS = frozenset({"week", "wk", "kw", "woche", "kalenderwoche", "semaine", "semana"})
_DAYS = frozenset({"day", "tag", "jour", "dia", "giorno"})
_TIMES = frozenset({"date", "time", "period", "datum", "fecha", "month_year", "yearmonth", "yyyymm"})
_CLOCKS = frozenset({"time", "clock", "hour", "uhrzeit", "heure", "hora", "zeit"})
_CLOCK = re.compile(r"[0-2]?\d:[0-5]\d(:[0-5]\d)?")
_TIMES_OF_DAY = ("%H:%M:%S", "%H:%M", "%I:%M %p", "%I:%M:%S %p")
#: The parts of a day in several columns, each with the name of the joined column and the patterns tried.
_PARTS = (
    ((_YEARS, _MONTHS, _DAYS), "year_month_day", ("%Y %m %d", "%Y %b %d", "%Y %B %d")),
    ((_YEARS, _MONTHS), "year_month", ("%Y %m", "%Y %b", "%Y %B")),
    ((_YEARS, _WEEKS), "year_week", ("%G %V",)),
)


@dataclass(frozen=True)
class PeriodColumn:
    """The event day of a file.

    :param column: the column in the file, or the column joined from ``parts`` (``source.joined``).
    :param form: the format of its values (``source.formats``).
    """

    column: str
    form: str
    doubt: str
    parts: Sequence[str] = ()


def doubt_about_headers(columns: Sequence[InferredColumn]) -> str | None:
    """The sentence about columns that are called like days or periods and hold the values of one each; None without them.

    Next to event days these are columns such as ``00:30``.
    """
    has_time = any(column.type in ("date", "timestamp") for column in columns)
    wide = [column.column for column in columns if (_CLOCK.fullmatch if has_time else _is_a_period)(column.column)]
    if len(wide) < _SEVERAL:
        return None
    kind, name = ("time of day", "time") if has_time else ("day or a period", "day")
    others = ", ".join(f'\\"{column.column}\\"' for column in columns if column.column not in wide)
    every = f"* EXCLUDE ({others})" if others else "*"
    query = f"COPY (UNPIVOT 'FILE' ON COLUMNS({every}) INTO NAME {name} VALUE amount) TO 'NEW' (HEADER)"
    return (
        f"columns {wide[0]} to {wide[-1]} hold the values of a {kind} each, and a contract reads one record for each: "
        f'duckdb -c "{query}"'
    )


def doubt_about_clock(
    samples: Sequence[Sample], columns: Sequence[InferredColumn], event: InferredColumn | None, forms: Mapping[str, str]
) -> str | None:
    """The sentence about a column with the time of day of event days in another column, with the lines that read both."""
    if event is None or event.type != "date":
        return None
    for column in columns:
        values = _values(samples, column.column) if column.type == "string" and _CLOCKS & set(column.words) else []
        times = [f"2024-01-01 {value}" for value in values]
        clock = next((form for form in _TIMES_OF_DAY if times and _reads(f"%Y-%m-%d {form}", times)), None)
        if clock is not None:
            form = f"{forms.get(event.column, '%Y-%m-%d')} {clock}"
            source = f"source: {{joined: {{at: [{event.column}, {column.column}]}}, formats: {{at: {form!r}}}}}"
            return (
                f"column {column.column} has the time of day, and the event day is {event.column}: these lines read both: "
                f"{source}, clocks: {{event: at, naive_times: in_timezone}}"
            )
    return None


def _is_a_period(name: str) -> bool:
    return type_conversion.is_date_only(name) or column_types.period_form([name], called_a_time=True) is not None


def event_days(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> PeriodColumn | None:
    """The column of months, weeks or years, or the columns that together make a day; None without such columns."""
    whole = [(column, form) for column in columns if (form := _form_of(samples, column)) is not None]
    finer = next(((column, form) for column, form in whole if form != "%Y"), None)
    if finer is not None:
        return _of_column(samples, *finer)
    for words, name, forms in _PARTS:
        found = [[column for column in columns if of & set(column.words) and not column.empty] for of in words]
        if all(len(of_part) == 1 for of_part in found) and all(name not in sample.columns for sample in samples):
            parts = [of_part[0].column for of_part in found]
            joined = with_joined(samples, name, parts)
            values = [record[name] for sample in joined for record in sample.records]
            form = next((form for form in forms if values and _reads(form, values)), None)
            if form is not None:
                iso = ", its weeks as ISO has them" if form == "%G %V" else ""
                first = inputs.reader(form)(values[0])
                doubt = f"columns {', '.join(parts)} make the event day{iso}: {values[0]!r} is read as {first} (source.joined)"
                return PeriodColumn(name, form, doubt, parts)
    return _of_column(samples, *whole[0]) if len(whole) == 1 else None


def with_joined(samples: Sequence[Sample], name: str, parts: Sequence[str]) -> list[Sample]:
    """Samples with a column joined from others by a blank, as ``source.joined`` defines it."""
    return [
        replace(
            sample,
            columns=[*sample.columns, name],
            records=[{**record, name: " ".join(f"{record.get(part)}".strip() for part in parts)} for record in sample.records],
        )
        for sample in samples
    ]


def _values(samples: Sequence[Sample], column: str) -> list[str]:
    return [f"{record[column]}".strip() for sample in samples for record in sample.records if record.get(column) is not None]


def _form_of(samples: Sequence[Sample], column: InferredColumn) -> str | None:
    if column.type not in ("string", "bigint") or column.empty:
        return None
    called_a_time = bool((_YEARS | _MONTHS | _WEEKS | _TIMES) & {*column.words, column.name})
    return column_types.period_form(_values(samples, column.column), called_a_time=called_a_time)


def _of_column(samples: Sequence[Sample], column: InferredColumn, form: str) -> PeriodColumn:
    value = _values(samples, column.column)[0]
    first = inputs.reader(form)(value)
    return PeriodColumn(
        column.column, form, f"column {column.column}: {value!r} is read as its first day, {first} (source.formats)"
    )


def _reads(form: str, values: Sequence[str]) -> bool:
    read = inputs.reader(form)
    try:
        for value in values:
            read(re.sub(r"\s+", " ", value))
    except inputs.NotWrittenSoError:
        return False
    return True
