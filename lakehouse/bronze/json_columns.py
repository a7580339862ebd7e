"""Splits blocks of a file of JSON lines into columns: lines that are flat objects with their names in the same order.

Such a line matches one regular expression, which admits only JSON that every reader interprets in the same way. Numbers are put
in quotes before Arrow splits the lines, so that their digits are kept. The names are compared with the columns that the contract
reads.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lakehouse.bronze.column_values import without_numbers, without_words
from lakehouse.bronze.csv_columns import Block, Lines, flags, groups_of_lines, line_texts
from lakehouse.bronze.envelopes import UNFOLD
from lakehouse.bronze.file_formats import FileProblem, json_records
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.source import SourceContract


#: The bytes that Arrow reads at once: it is fastest with few bytes, and no line may be longer.
_READ_BYTES = 2**18
#: The lines of a block from which its form is taken.
_SAMPLE = 20
_SPACE = r"[ \t]*"
#: Of \u without NUL and halves of surrogate pairs.
_HEX = "[0-9a-fA-F]"
_CODE = rf"(?:000[1-9a-fA-F]|00[1-9a-fA-F]{_HEX}|0[1-9a-fA-F]{_HEX}{{2}}|[1-9a-cefA-CEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}})"
_ESCAPE = rf'\\(?:["\\/bfnrt]|u{_CODE})'
_STRING = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'
#: Numbers that Python writes as the file does, without an exponent. Alternatives that extend another one come first.
_FRACTION = r"(?:[1-9][0-9]*\.[0-9]+|0\.0{0,5}[1-9][0-9]*|0\.0{1,6})"
_NUMBER = rf"(?:-?{_FRACTION}|-?[1-9][0-9]*|0)"
#: Integers that Arrow can read as such.
_INTEGER = r"(?:-?[1-9][0-9]{0,17}|0)"
_ANY_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_ANY = f"(?:{_STRING}|{_ANY_NUMBER}|true|false)"
#: A line with this many digits in a row may hold a number that is too long.
_MANY_DIGITS = "[0-9]{100}"


#: In a file with more records, the later ones are only searched for the columns that these lack.
_NAMED_RECORDS = 1_000
_MOST_NAMES = 8


def check_names(lines: Iterable[tuple[int, bytes]], contract: SourceContract) -> None:
    """Refuse a file in which no record has a column that the contract reads, while its records have names that nothing reads.

    Without such names the column is empty: senders leave out what has no value. A column of ``changes``, and the end of a
    dimension's change, may be missing from a whole file; such a file is refused only if it has the column under a similar name.

    :param lines: the lines of a file of JSON lines, or the elements of an array, with their numbers.
    :raises FileProblem: when a column is missing.
    """
    known, unknown = set(contract.columns_read), dict[str, None]()
    missing = set(known)
    for position, (number, line) in enumerate(lines):
        if position >= _NAMED_RECORDS:
            if not unknown:
                return
            if not any(spelling.encode() in line for name in missing for spelling in _spellings(name)):
                continue
        for record in json_records([(number, line)]):
            names = _names(record, contract)
            missing -= names
            unknown |= dict.fromkeys(sorted(names - known))
        if not missing:
            return
    similar = {column: [name for name in unknown if _plainly(name) == _plainly(column)] for column in missing}
    expected = _expected_names(contract) if unknown else set()
    lacking = [column for column in contract.columns_read if column in missing and (similar[column] or column in expected)]
    if lacking:
        raise FileProblem(_absent(lacking[0], similar[lacking[0]] or list(unknown), contract))


def _names(record: Record, contract: SourceContract) -> set[str]:
    """The names in a record that has the columns of its source; none for a record that may leave them out."""
    values: Mapping[str, Any] = record.values or {}
    changes, spec = contract.changes, contract.marker_field
    if contract.source.envelope:
        try:
            change = UNFOLD[contract.source.envelope](values, contract.columns_read)
        except ValueError:  # the row of the record names the reason
            return set()
        return set() if change.op == "delete" else set(change.row)
    sparse = [*changes.delete_words, *changes.retract_words, *(changes.correct_words if contract.has_partial_corrections else ())]
    if f"{values.get(changes.op or '')}".strip().lower() in {word.lower() for word in sparse}:
        return set()
    is_marker = spec is not None and contract.marker is not None and f"{values.get(spec.in_file)}" == contract.marker.value
    is_correction = contract.has_partial_corrections and values.get(changes.is_correction or "")
    return set() if is_marker or is_correction else set(values)


def _expected_names(contract: SourceContract) -> set[str]:
    """The columns that at least one record of a file has: those of fields and clocks, unless ``quality.nulls`` tolerates a field
    that has no value at all.
    """
    fields = [spec for spec in contract.model.fields if spec.name != "source_system"]
    empty = {name for name, share in contract.quality.nulls.items() if share.at_most >= 1}
    wanted = [spec.in_file for spec in fields if spec.name not in empty]
    wanted += [contract.event_column or "", contract.clocks.arrival or "", *(item.column for item in contract.order.sequence)]
    joined = contract.source.joined
    return {each for column in wanted for each in joined.get(column, [column])}


def _absent(column: str, names: list[str], contract: SourceContract) -> str:
    fields = [spec.name for spec in contract.typed_fields if spec.in_file == column]
    shown = join_limited([repr(name) for name in names], _MOST_NAMES)
    remedies = ["have the file sent again", "name the column in the contract as the file does"]
    if fields:
        remedies.append(f"set quality.nulls: {{{fields[0]}: 1}} if a whole file may lack it")
    return f"column {column} is in no record (the records have {shown}); {', or '.join(remedies)}"


def _plainly(name: str) -> str:
    """A name without what senders vary: case, blanks and the marks between words."""
    return re.sub(r"[\W_]", "", name).casefold()


def json_blocks(stream: BinaryIO, contract: SourceContract, size: int, before: int = 0) -> Iterator[Block]:
    """Every record of a file of JSON lines, in blocks of about ``size`` bytes.

    :param stream: the file's content, decompressed.
    :param before: the number of lines in the file before the stream.
    :raises FileProblem: when the file as a whole cannot be read.
    """
    for lines in groups_of_lines(stream, size, before):
        yield block_of_lines(lines, contract)


def block_of_lines(lines: Lines, contract: SourceContract) -> Block:
    """The records of ``lines``, each of which holds one record or none."""
    columns = contract.columns_read
    texts, odd = line_texts(lines.contents)
    form = _Form.of(lines, columns, contract.number_columns)
    fits = ~odd & flags(form.fits(texts)) if form else np.zeros(len(texts), bool)
    raw = texts.filter(pa.array(fits))
    values = form.split(raw, contract.source.nulls) if form else None
    if values is None:  # all lines are left to the exact reader
        fits, raw = np.zeros(len(texts), bool), raw.slice(0, 0)
        values = dict.fromkeys(columns, raw)
    exact = [record for row in np.flatnonzero(~fits).tolist() for record in _records(lines, row)]
    rows = np.flatnonzero(fits)
    return Block(values, pa.array(lines.first + rows), raw, _reader(lines, rows), exact)


def _reader(lines: Lines, rows: np.ndarray) -> Callable[[int], Record]:
    return lambda row: next(_records(lines, int(rows[row])))


def _records(lines: Lines, position: int) -> Iterator[Record]:
    """The record of a line; none for a blank one."""
    return json_records([(lines.first + position, lines.contents[position])])


class _Form:
    """The names of a block's objects, in order, and the kinds of their values."""

    def __init__(self, kinds: dict[str, str], columns: list[str]) -> None:
        """:param kinds: the regular expression of a member's values, by name."""
        self._columns = columns
        self._kinds = kinds
        # Each member may be left out; the last one that is there has the brace.
        members = "".join(f"(?:{_member(name)}(?:{kind}|null){_SPACE}(?:,{_SPACE}|}}{_SPACE}$))?" for name, kind in kinds.items())
        self._expression = f"^{_SPACE}{{{_SPACE}{members}$"

    @classmethod
    def of(cls, lines: Lines, columns: list[str], numbers: Collection[str]) -> _Form | None:
        """The form of the first records; None if they have none.

        :param numbers: the columns in which a number stays a number; in other columns, only integers are read by columns.
        """
        records = [record.values for record in json_records(islice(lines.numbered(), _SAMPLE)) if record.values]
        names = max((list(values) for values in records), key=len, default=[])
        kinds = {name: _kind([values.get(name) for values in records]) if name in columns else _ANY for name in names}
        kinds |= {name: _INTEGER for name, kind in kinds.items() if kind == _NUMBER and name not in numbers}
        return cls(kinds, columns) if kinds else None

    def fits(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Whether each line has the form."""
        fits = pc.and_(pc.match_substring_regex(texts, self._expression), pc.match_substring_regex(texts, f"}}{_SPACE}$"))
        return pc.and_not(fits, pc.match_substring_regex(texts, _MANY_DIGITS))

    def split(self, texts: pa.StringArray, null_values: Collection[str]) -> dict[str, pa.StringArray] | None:
        """The needed values of lines that fit, by column; null for missing values and for the words for null.

        :returns: None if Arrow cannot read the lines, or does not read one record per line.
        """
        columns = {column: pa.nulls(len(texts), pa.string()) for column in self._columns}
        if not len(texts):
            return columns
        kinds = {name: kind for name, kind in self._kinds.items() if name in columns}
        for name, kind in kinds.items():
            if kind == _NUMBER:
                texts = pc.replace_substring_regex(texts, f"({_member(name)})({_NUMBER})", r'\1"\2"')
        types = {name: pa.int64() if kind == _INTEGER else pa.string() for name, kind in kinds.items()}
        try:
            table = pa_json.read_json(
                pa.BufferReader(pc.binary_join_element_wise(texts, "", "\n").buffers()[2]),
                pa_json.ReadOptions(use_threads=False, block_size=_READ_BYTES),
                pa_json.ParseOptions(explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"),
            ).combine_chunks()
        except pa.ArrowInvalid:
            return None
        if len(table) != len(texts):
            return None
        for name, kind in kinds.items():
            values = pc.cast(table[name].chunk(0), pa.string())
            columns[name] = (without_words if kind == _STRING else without_numbers)(values, null_values)
        return columns


def _kind(values: list[Any]) -> str:
    """The kind of a column's values; null is of every kind."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds & {int, Decimal}:
        return _STRING
    return _NUMBER if Decimal in kinds else _INTEGER


def _member(name: str) -> str:
    """The regular expression of a member's name."""
    return f"(?:{'|'.join(map(re.escape, sorted(_spellings(name))))}){_SPACE}:{_SPACE}"


def _spellings(name: str) -> set[str]:
    """A name as the writers of JSON put it."""
    return {json.dumps(name), json.dumps(name, ensure_ascii=False)}
