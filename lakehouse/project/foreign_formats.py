"""Recognizes formats that the product does not read, each with a sentence on its conversion."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lakehouse.bronze import file_formats
from lakehouse.contracts.record_changes import ENVELOPE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_FIRST_LINES = {
    r"<(!doctype|html|head|\?xml|!--|[a-z]+[\s>]).*": "is HTML or XML, often an error or login page in place of the file; "
    "download the file itself",
    r"(insert\s+into|create\s+(table|database)|drop\s+table|copy\s+\S+.*\s+from\s+stdin|pragma\s).*": "is SQL; export the table "
    "as CSV, with a header",
    r"\{": "is JSON over several lines; write one object a line: jq -c . FILE > NEW",
}
#: A number or a time, also in quotes.
_NUMBER_OR_TIME = re.compile(r'"?[+-]?\.?\d[\d.,:/TZ -]*"?')
#: The kinds of cells, of which a header has the last only, apart from years.
_KINDS = {
    "integer": r"[+-]?\d+",
    "number": r"[+-]?\d*[.,]\d+",
    "time": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*|\d{1,4}[./-]\d{1,2}[./-]\d{2,4}",
}
#: The fewest records that tell a line of units from a record, and the number of records examined.
_ENOUGH, _LOOKED_AT = 4, 200
_IN_FRONT = (
    "put the names of the columns in front, to have the contract written: (echo id,day,amount; cat FILE) > NEW; a contract reads "
    "files without a header by source: {columns: [id, day, amount]}"
)
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NO_VALUES = frozenset({"n/a", "na", "nan", "null", "none", "-", ".", "..", "x"})


def of_bytes(content: bytes) -> str | None:
    """The sentence about a file's first bytes; None if they may be text."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or (b"\0" in content[:4] and content[:2] != b"\x1f\x8b"):
        return "is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"
    return file_formats.foreign_format(content)


def of_first_line(line: str) -> str | None:
    """The sentence about the first line of a text; None for a header, or a JSON object."""
    text = line.strip()
    sentence = next((of for pattern, of in _FIRST_LINES.items() if re.fullmatch(pattern, text, re.IGNORECASE)), None)
    cells = re.split(r"[,;\t|]", text)
    if sentence is None and len(cells) > 1 and all(_NUMBER_OR_TIME.fullmatch(cell.strip()) for cell in cells):
        return f"has no header: its first line has numbers or times only; {_IN_FRONT}"
    return sentence


def of_json_array(text: str) -> str | None:
    """The sentence about the beginning of a JSON array; None for an array of objects."""
    if re.match(r"\[\s*\[", text):
        return (
            "is a JSON array of lists, whose values have no names; write one object a line, with names of yours: "
            "jq -c '.[] | {time: .[0], id: .[1]}' FILE > NEW"
        )
    return None


def of_json_line(line: str, *, is_only: bool) -> str | None:
    """The sentence about the first object of JSON lines; None for a plain record.

    :param is_only: whether the file has only this line.
    """
    try:
        record = json.loads(line)
    except ValueError:
        several = "is JSON over several lines; write one object a line: jq -c . FILE > NEW"
        return None if line.rstrip().endswith("}") else several
    body = record.get("payload", record) if isinstance(record, dict) else record
    if isinstance(body, dict) and "op" in body and ("after" in body or "before" in body):
        return (
            "holds change events of Debezium, which these lines of a contract read; the fields are those in 'after', and "
            "docs/change_feeds.md has an example:\n  source: {format: json, envelope: debezium}"
        )
    if isinstance(record, dict) and {"database", "table", "type"} <= {*record} and isinstance(record.get("data"), dict):
        return (
            "holds change events of Maxwell, which no envelope reads; write one object a line with the row and its operation: "
            "jq -c '.data + {op: .type, changed_at: .ts, position: (.xid // 0)}' FILE > NEW"
        )
    path = _path_of_records(record) if is_only else None
    if path is None:
        return None
    if path.count("[]") == 1 and path.count(".") == 1:
        return f"is one object with its records in {path.strip('.[]')!r}; write one object a line: jq -c '{path}' FILE > NEW"
    return (
        f"is one object with its records deep inside; write one object a line: jq -c '{path}' FILE > NEW, and add what they need "
        "of the objects around them, such as the name of the station"
    )


def of_change_feed(columns: Collection[str]) -> str | None:
    """The sentence about columns that a database's change feed adds to those of the row; None without them."""
    envelope = next((name for name, added in ENVELOPE_COLUMNS.items() if added and {*added} <= {*columns}), None)
    if envelope is None:
        return None
    return (
        f"is a change feed ({', '.join(ENVELOPE_COLUMNS[envelope])}), which these lines of a contract read; the fields are the "
        f"other columns, and docs/change_feeds.md has an example:\n  source: {{envelope: {envelope}}}"
    )


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _path_of_records(record: Any) -> str | None:
    """The path to the list with the most objects that have a time, or else with the most objects.

    None if there are no lists of objects, or only the record itself has a time, such as an order with items.
    """
    counts: Counter[str] = Counter()
    with_times: Counter[str] = Counter()

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                look(inner, f"{path}{_step(name)}")
        elif _is_list_of_objects(value):
            counts[f"{path}[]"] += len(value)
            with_times[f"{path}[]"] += sum(map(_has_time, value))
            for item in value:
                look(item, f"{path}[]")

    look(record, "")
    best = max(counts, key=lambda path: (with_times[path], counts[path]), default=None)
    return None if isinstance(record, dict) and _has_time(record) and not with_times[best or ""] else best


def _has_time(record: Mapping[str, Any]) -> bool:
    return any(isinstance(text, str) and _ISO_DAY.match(text) for text in record.values())


def _step(name: str) -> str:
    return f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f".[{json.dumps(name)}]"


def of_fixed_width(line: str) -> str | None:
    """The sentence about a header without a delimiter; None for a single column name."""
    if len(re.split(r" {2,}", line.strip())) > 1:
        return "has columns of fixed width; write it as CSV, with a delimiter between the columns"
    return None


def of_records_alone(first: Sequence[str], second: Sequence[str]) -> str | None:
    """The sentence about a file whose first line is a record: with a time of day, and of the same kinds as the second line."""
    kinds = [_kind_of(cell) for cell in first]
    if "time" in kinds and kinds == [_kind_of(cell) for cell in second]:
        return f"has no header: its first line is a record like the second; {_IN_FRONT}"
    return None


def _kind_of(cell: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, cell.strip())), "text")


def has_numbers(line: str) -> bool:
    """Whether a line has cells with numbers or times, unlike a header."""
    return any(_NUMBER_OR_TIME.fullmatch(cell.strip()) for cell in re.split(r"[,;\t|]", line))


def of_second_header(records: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> str | None:
    """The sentence about one or two first records of units, titles or formats, if all others have numbers; None for plain ones.

    :param lines: the line number of each record.
    """
    for count in (1, 2):
        words = [] if len(records) < _ENOUGH + count - 1 else _words_of(records[count - 1], records[count:_LOOKED_AT])
        if words and (count == 1 or _words_of(records[0], records[count:_LOOKED_AT])):
            which = f"line {lines[0]}" if count == 1 else f"lines {lines[0]} and {lines[1]}"
            cut = f"{lines[0]}d" if count == 1 else f"{lines[0]},{lines[1]}d"
            return (
                f"has no record in {which}, but units or formats ({', '.join(words[:3])}); take them out, and give the new file: "
                f"sed {cut} FILE > NEW"
            )
    return None


def _words_of(first: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cells of a record that are no numbers, in columns of numbers; none if it has a number there."""
    of_others = {name: [f"{record[name]}".strip() for record in others if record.get(name) is not None] for name in first}
    numeric = [name for name, values in of_others.items() if values and all(map(_NUMBER_OR_TIME.fullmatch, values))]
    cells = [f"{first[name]}".strip() for name in numeric if first[name] is not None]
    cells = [cell for cell in cells if cell.lower() not in _NO_VALUES]
    words = [cell for cell in cells if not _NUMBER_OR_TIME.fullmatch(cell)]
    return words if len(words) == len(cells) else []
