"""Infers a source from sample files: its columns, doubts, and open questions. Plain Python.

The samples are read here: their format, delimiter, header position, and first records. The type of a column is inferred in
``column_types``, the key in ``key_candidates``, the clocks in ``event_times``. The YAML is written in ``new_project``.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakehouse.bronze import file_formats
from lakehouse.contracts.inputs import Source
from lakehouse.project import change_logs, event_times, foreign_formats, number_columns, periods
from lakehouse.project.column_types import columns_of, read_by
from lakehouse.project.key_candidates import key_of
from lakehouse.project.questions import InferenceError, InferredColumn, Question, Sample

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path


#: The number of records read from each file.
RECORDS = 10_000
#: The number of lines from which delimiter and header are detected, and the number of broken records reported.
_LINES, _TOLD = 100, 3
_DELIMITERS = (",", ";", "\t", "|")
_COMMENTS = ("#", "//", "--", "%")


def source_of(file: Path) -> Source:
    """Detect how to read a file.

    :raises InferenceError: for a file that is neither CSV, JSON lines nor Parquet, or has no header.
    """
    with file.open("rb") as stream:
        content = stream.read(1_000_000)
    if content[:4] == b"PAR1":
        return Source(format="parquet")
    _refuse(file, foreign_formats.of_bytes(content))
    with file.open("rb") if content[:2] == file_formats.GZIP_MAGIC else io.BytesIO(content) as stream:
        lines = file_formats.numbered_lines(file_formats.unzipped(stream))
        try:
            comment, beginning = _beginning(lines)
        except file_formats.FileProblem as problem:
            msg = f"{file}: {problem}"
            raise InferenceError(msg) from None
    if not beginning:
        msg = f"{file}: is empty; give a file with a header and at least one record"
        raise InferenceError(msg)
    text = beginning[0][1]
    if text.lstrip()[:1] == "[":
        _refuse(file, foreign_formats.of_json_array("\n".join(line for _, line in beginning[:2])))
        return Source(format="json", array=True)
    if (format_line := re.fullmatch(r"sep=(.)\s*", text)) and format_line[1] in _DELIMITERS:
        return Source(format="csv", delimiter=format_line[1], skip_lines=1)
    if text.lstrip()[:1] == "{":
        _refuse(file, foreign_formats.of_first_line(text))
        _refuse(file, foreign_formats.of_json_line(text, is_only=len(beginning) == 1))
        return Source(format="json")
    delimiter, before = _layout([line for _, line in beginning])
    before += _has_two_headers([line for _, line in beginning[before : before + 3]], delimiter)
    header_number, header = beginning[before]
    _refuse(file, foreign_formats.of_first_line(header))
    if before + 1 < len(beginning):
        cells = [next(csv.reader([line], delimiter=delimiter), []) for _, line in beginning[before : before + 2]]
        _refuse(file, foreign_formats.of_records_alone(*cells))
    if delimiter not in header:
        _refuse(file, foreign_formats.of_fixed_width(header))
    return Source(format="csv", delimiter=delimiter, comment=comment, skip_lines=header_number - 1 if before else 0)


def _beginning(lines: Iterator[tuple[int, bytes]]) -> tuple[str, list[tuple[int, str]]]:
    """The prefix of the comments at the beginning of a text, and the first lines that are neither comments nor blank."""
    comment, beginning = "", list[tuple[int, str]]()
    for number, line in lines:
        mark = next((mark for mark in _COMMENTS if line.startswith(mark.encode())), "")
        comment = comment or ("" if beginning else mark)
        if line.strip() and not (mark and mark == comment):
            beginning.append((number, line.decode("utf-8-sig", errors="replace").rstrip("\r\n")))
        if len(beginning) == _LINES:
            break
    return comment, beginning


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """The delimiter that divides most lines equally, and the number of title lines before the header."""
    counts = {
        delimiter: [re.sub(r'"[^"]*"', "", line).count(delimiter) for line in lines]  # not those within quotes
        for delimiter in _DELIMITERS
    }
    usual = {delimiter: Counter(count for count in of if count).most_common(1) or [(0, 0)] for delimiter, of in counts.items()}
    delimiter = max(_DELIMITERS, key=lambda each: usual[each][0][::-1])
    [(fields, _)] = usual[delimiter]
    # A spreadsheet pads the lines of a title with delimiters.
    filled = [sum(bool(cell.strip()) for cell in line.split(delimiter)) for line in lines]
    header = next(
        (place for place, count in enumerate(counts[delimiter]) if count == fields and filled[place] * 2 > fields + 1), 0
    )
    is_title = not foreign_formats.has_numbers(lines[header]) and all(
        count * 2 <= fields or filled[place] * 2 <= fields + 1 for place, count in enumerate(counts[delimiter][:header])
    )
    return delimiter, header if is_title and header + 1 < len(lines) else 0


def _has_two_headers(lines: Sequence[str], delimiter: str) -> bool:
    """Whether the first line has the names of groups, each over several columns, and the second line names the columns."""
    cells = [[cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])] for line in lines]
    if len(cells) < 3 or len({len(of) for of in cells}) > 1:  # noqa: PLR2004 (two headers and a record)
        return False
    groups, names, _ = cells
    is_header = len({*names}) == len(names) and all(names) and not foreign_formats.has_numbers(lines[1])
    return len({*groups}) < len(groups) and is_header and foreign_formats.has_numbers(lines[2])


def _refuse(file: Path, reason: str | None) -> None:
    """:raises InferenceError: if there is a reason."""
    if reason is not None:
        msg = f"{file}: {reason}"
        raise InferenceError(msg)


def read(file: Path, source: Source) -> Sample:
    """The first records of a file.

    Broken records are left out and reported in ``doubts``.

    :raises InferenceError: if the file cannot be read as ``source`` describes, or most records are broken.
    """
    if source.format == "parquet":
        return _read_parquet(file)
    records: list[dict[str, Any]] = []
    broken: list[file_formats.Record] = []
    columns: dict[str, None] = {}
    lines: list[int] = []
    try:
        with file.open("rb") as stream:
            for record in file_formats.read_records(stream, source, []):
                if record.values is None:
                    broken.append(record)
                    continue
                records.append({name: None if value in ("", None) else value for name, value in record.values.items()})
                columns |= dict.fromkeys(record.values)
                lines.append(record.line_number)
                if len(records) == RECORDS:
                    break
    except file_formats.FileProblem as problem:
        msg = f"{file}: {_advised(f'{problem}')}"
        raise InferenceError(msg) from None
    if len(broken) > len(records):
        problem_of_first = _advised(f"{broken[0].problem}")
        msg = f"{file}, line {broken[0].line_number}: {problem_of_first}; give sample files that can be read"
        raise InferenceError(msg)
    if source.format == "csv":
        _refuse(file, foreign_formats.of_second_header(records, lines))
    doubts = [f"line {record.line_number} {_advised(f'{record.problem}')}: it will be malformed" for record in broken[:_TOLD]]
    repeated, doubt = _repeated_columns(file, source)
    columns = dict.fromkeys(name for name in columns if name not in repeated)
    doubts += [doubt] if doubt else []
    doubts += [f"and {len(broken) - _TOLD:,} more lines like it"] if len(broken) > _TOLD else []
    return Sample(f"{file}", list(columns), records, doubts)


def _repeated_columns(file: Path, source: Source) -> tuple[set[str], str | None]:
    """The names that several columns of a CSV file have, with the lines of a contract that name them."""
    if source.format != "csv":
        return set(), None
    with file.open("rb") as stream:
        lines = file_formats.numbered_lines(file_formats.unzipped(stream))
        header = file_formats.csv_header(islice(lines, source.skip_lines, None), source, [])
    repeated = file_formats.repeated_names(header) - {""}
    if not repeated:
        return set(), None
    columns = ", ".join(map(repr, file_formats.named_once(header)))
    return repeated, (
        f"the header names {', '.join(sorted(repeated))} twice: these columns are left out; name all columns to read them: "
        f"source: {{skip_lines: {source.skip_lines + 1}, columns: [{columns}]}}"
    )


def _advised(problem: str) -> str:
    """A problem of a file or record, with the remedy if a conversion helps."""
    if "not valid UTF-8" not in problem:
        return problem
    return f"{problem} (if it is Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW)"


def _read_parquet(file: Path) -> Sample:
    import pyarrow.parquet as pq  # noqa: PLC0415 (Arrow loads in a second)

    parquet = pq.ParquetFile(file)
    batch = next(parquet.iter_batches(RECORDS), None)
    return Sample(f"{file}", parquet.schema_arrow.names, [] if batch is None else batch.to_pylist())


@dataclass(frozen=True)
class InferredSource:
    """A source inferred from its samples.

    :param key: the fields that identify a record in each file; empty if no fields do.
    :param op: the column that marks a record as new, a correction or a withdrawal; ``op_words`` are the keys of ``changes``
        with its words, where they differ from the defaults.
    :param each_line: whether each line of a file without a key counts, also equal ones.
    :param condition: the SQL condition of records that count in the first metric; empty if all do.
    :param event: the column of the event time; None if no column is a time.
    :param naive: whether times have no zone.
    :param zone: the zone whose midnight ends an event day; empty for UTC by default.
    :param first_day: the first event day of the contract: late data may be older than the samples.
    :param doubts: sentences for the reader of the contract.
    :param order: the column that orders the changes of a record, of type ``order_type``.
    :param questions: open questions, for which the defaults are used.
    :param formats: the formats of columns whose values need one, by column.
    :param joined: the columns joined from others, with their parts.
    :param days_to_wait: how late rows arrive, in days; None without an event time.
    :param units: the fields whose values quantities are measured in; the first metric has a number for each.
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
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)
    null_words: Sequence[str] = ()
    days_to_wait: int | None = None
    order_type: str = "integer"
    op_words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    condition: str = ""
    zone: str = ""
    each_line: bool = False
    units: Sequence[str] = ()

    @property
    def is_complete(self) -> bool:
        """Whether a contract can be written without a person's answer."""
        return self.event is not None and not self.questions


def infer(samples: Sequence[Sample], answers: Mapping[str, str] | None = None, subject: str = "") -> InferredSource:
    """Infer a source from one or more sample files.

    :param answers: a person's answers, by the subject of the question.
    :param subject: the name of the dataset; an identifier of that name is the key.

    :raises InferenceError: for a file without records, or files without a common column.
    """
    inferred = _inferred(samples, answers or {}, subject)
    dated = _dated(samples, inferred)
    without = sum(len(sample.records) for sample in samples) - sum(len(sample.records) for sample in dated)
    if not without or not all(sample.records for sample in dated):
        return inferred
    inferred = _inferred(dated, answers or {}, subject)  # the others are malformed, and show neither a type nor the key
    doubt = (
        f"{without:,} sample {'record has' if without == 1 else 'records have'} no {inferred.event}, and will be malformed: "
        "final numbers wait for them. Have totals and blank lines left out, or tolerate them (quality.malformed)"
    )
    return replace(inferred, doubts=[doubt, *inferred.doubts])


def _dated(samples: Sequence[Sample], inferred: InferredSource) -> Sequence[Sample]:
    """The samples without the records that have no event time."""
    event, nulls = inferred.event, {None, *inferred.null_words}
    if event is None or event not in samples[0].columns:
        return samples
    return [replace(each, records=[record for record in each.records if record.get(event) not in nulls]) for each in samples]


@dataclass(frozen=True)
class _Fields:
    """Samples as the contract would read them: their columns, formats and words for 'no value'."""

    samples: Sequence[Sample]
    columns: list[InferredColumn]
    forms: dict[str, str]
    joined: Mapping[str, Sequence[str]]
    null_words: Sequence[str]
    doubts: list[str]
    questions: list[Question]

    def without(self, names: Collection[str]) -> list[InferredColumn]:
        """The columns that may belong to the key: not those in ``names``, and none that is a part of another."""
        parts = {part for of in self.joined.values() for part in of}
        return [column for column in self.columns if column.column not in parts and column.column not in names]


def _fields(samples: Sequence[Sample], answers: Mapping[str, str]) -> _Fields:
    for sample in samples:
        reason = None if sample.records else "has no record; give a file with at least one"
        if reason := reason or foreign_formats.of_change_feed(sample.columns):
            msg = f"{sample.file}: {reason}"
            raise InferenceError(msg)
    shared = [name for name in samples[0].columns if name.strip() and all(name in sample.columns for sample in samples)]
    if not shared:
        msg = f"{samples[-1].file}: has no column in common with {samples[0].file}; infer one source at a time"
        raise InferenceError(msg)
    doubts = [
        f"column {name} is not in every file: it is left out"
        for name in sorted({name for sample in samples for name in sample.columns if name.strip()} - set(shared))
    ]
    doubts += ["a column has no name: it is left out"] if any(not name.strip() for name in samples[0].columns) else []
    doubts += [f"{sample.file}, {doubt}" for sample in samples for doubt in sample.doubts]
    nulls = number_columns.null_words(samples, answers)
    samples = [number_columns.without(sample, nulls.words) for sample in samples]
    columns, forms, of_columns, questions = columns_of(samples, shared, answers)
    doubts += [*nulls.doubts, *of_columns]
    samples = [read_by(sample, forms) for sample in samples]
    joined: dict[str, Sequence[str]] = {}
    if not any(map(event_times.is_time, columns)) and (period := periods.event_days(samples, columns)):
        samples, columns = _with_event_days(samples, columns, period)
        forms[period.column] = period.form
        doubts.append(period.doubt)
        joined = {period.column: period.parts} if period.parts else {}
    if doubt := periods.doubt_about_headers(columns):
        doubts.append(doubt)
    questions = [*questions, nulls.question] if nulls.question else questions
    return _Fields(samples, columns, forms, joined, nulls.words, doubts, questions)


def _inferred(samples: Sequence[Sample], answers: Mapping[str, str], subject: str) -> InferredSource:
    fields = _fields(samples, answers)
    samples, columns, doubts = fields.samples, fields.columns, fields.doubts
    clocks = event_times.clocks_of(samples, columns, answers)
    marks = change_logs.marks_of(samples, columns, answers)
    key = key_of(samples, fields.without(marks.columns), clocks.event, subject, answers, marks.operation)
    op, condition = marks.op(has_key=bool(key.fields)), marks.condition(has_key=bool(key.fields))
    if op is not None:
        columns.remove(op.column)
    doubts += [key.doubt] if key.doubt else []
    doubts += marks.doubts(has_key=bool(key.fields))
    is_arrival = key.order is not None and key.order.kind == "arrival"
    of_clocks = [doubt for doubt in clocks.doubts if not (is_arrival and doubt == event_times.NO_ARRIVAL)]
    units = number_columns.units_of(samples, columns)
    why = "their quantities do not add up"
    doubts += [f"the first metric has a number for each {name} ({', '.join(values)}): {why}" for name, values in units.items()]
    doubts += [*number_columns.doubts_about_sums(samples, columns), *of_clocks]
    event = clocks.event
    doubts += [doubt] if (doubt := periods.doubt_about_clock(samples, columns, event, fields.forms)) else []
    times = [record[event.column] for sample in samples for record in sample.records if record.get(event.column)] if event else []
    naive = event_times.naive_columns(samples, columns)
    zone = event_times.day_zone(event, times, answers)
    if naive:
        which = "event times" if event and event.column in naive else f"times of {', '.join(naive)}"
        name = f"{zone.name} (clocks.timezone)" if zone.name else "UTC: set clocks.timezone to theirs, such as Europe/Berlin"
        doubts.append(f"{which} have no zone and are read as {name}")
    doubts += zone.doubts
    days = {event_times.day_of(value) for value in times}
    doubts += event_times.doubts_about_many_days(len(days))
    arrival = key.order.column.column if key.order and is_arrival else clocks.arrival.column if clocks.arrival else None
    days_to_wait = None
    if event is not None:
        days_to_wait, doubt = event_times.days_to_wait(samples, event.column, arrival)
        doubts.append(doubt)
    return InferredSource(
        columns=columns,
        key=key.fields,
        each_line=key.each_line,
        op=op.column.column if op else None,
        op_words=op.words if op else {},
        condition=condition,
        event=event.column if event else None,
        arrival=arrival,
        days_to_wait=days_to_wait,
        naive=bool(naive),
        zone=zone.name,
        first_day=event_times.first_day(min(days, default=None)),
        doubts=doubts,
        order=key.order.column.column if key.order and not is_arrival else None,
        order_type=key.order.kind if key.order and not is_arrival else "integer",
        formats=fields.forms,
        joined=fields.joined,
        null_words=fields.null_words,
        units=[*units],
        questions=[*fields.questions, *(each for each in (clocks.question, zone.question, key.question, marks.question) if each)],
    )


def _with_event_days(
    samples: Sequence[Sample], columns: Sequence[InferredColumn], period: periods.PeriodColumn
) -> tuple[list[Sample], list[InferredColumn]]:
    """Samples and columns with the event days from a column of periods, or from several columns."""
    if period.parts:
        samples = periods.with_joined(samples, period.column, period.parts)
        columns = [*columns, InferredColumn(period.column, period.column, "date", 0)]
    read = [read_by(sample, {period.column: period.form}) for sample in samples]
    return read, [
        replace(column, type="date", form=period.form) if column.column == period.column else column for column in columns
    ]
