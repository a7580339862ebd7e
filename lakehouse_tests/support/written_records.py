"""Generated contracts, and files for them: most values are plain, some unusual, some wrong, some between both."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

#: Values in the plain form, and others: with a sign, spaces, exponents, at the ends of ranges, not of the type.
PLAIN = {
    "string": ["a", "key 7", "\u00e9\u00df", "0", "true"],
    "int": ["0", "7", "-12", "007", "123456789"],
    "bigint": ["0", "-7", "123456789012345678"],
    "double": ["0", "1.5", "-0.25", "1e5", "2.5E-3", "123456789012345.123456789012345", "-0", "0.1"],
    "boolean": ["true", "FALSE", "t", "0", "Yes", "n"],
    "date": ["2024-01-22", "2024-02-29", "2023-12-31", "2024-04-30"],
    "timestamp": [
        "2024-01-22T12:00:00Z",
        "2024-01-22 23:59:59.5+01:30",
        "2024-01-23T00:00:00.123456-14:00",
        "2024-03-31T00:59:59.999999Z",
        "2024-03-31T01:00:00Z",
        "2024-10-27T00:30:00Z",
        "2024-02-29T23:00:00Z",
        "1987-10-25T02:31:30Z",
    ],
    "decimal(6,2)": ["0", "1.5", "-0.25", "12.00", "-0.0", "9999.99"],
    "decimal(9,9)": ["0.5", "-0.0", "0.000000001", "0.123456789"],
    "decimal(38,8)": ["0", "1.5", "-0.0", "0.00000001", "123456789012345678901234567890.12345678"],
}
UNUSUAL = [
    *("", " ", "null", "N/A", "+5", " 7 ", "1.", ".5", "1e-400", "1e400", "NaN", "2147483648", "-9223372036854775808", "1e3"),
    *(
        "9" * 30,
        "1.005",
        "2024-02-30",
        "2023-02-29",
        "1900-02-29",
        "2024-01-22T12:00Z",
        "2024-01-22T12:00:00",
        "2024-01-22T24:00:00Z",
    ),
    *("2024-01-22T12:00:00.1234567Z", "2024-01-22T12:00:00+0100", "2024-01-22T12:00:00 UTC", "0001-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59Z", "2024-01-22T12:00:00+14:59", "2300-01-01T00:00:00Z", "1899-12-31", "\u0661\u0662", "\u212aey"),
    *(
        'say "so"',
        "back\\slash",
        "tab\tin",
        "a,b",
        "line\nend",
        "carriage\rreturn",
        "\x01",
        "\x7f",
        "\ufeffmark",
        "\u2028",
        "delete",
    ),
]
TYPES = list(PLAIN)
#: Types of Parquet; the columns of a file with one of the odd ones are all read exactly.
ARROW_TYPES = [
    *(pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.date32(), pa.string(), pa.large_string()),
    *(pa.decimal128(9, 2), pa.decimal128(38, 9), pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us")),
]
ODD_TYPES = [
    *(pa.float32(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.timestamp("ns", "UTC")),
    pa.timestamp("us", "Europe/Berlin"),
]
OPS = ["insert", "I", "delete", "D", "retract", "Undo", "Update", "correct", " insert", "l\u00f6schen", "L\u00d6SCHEN"]


@st.composite
def contracts(draw: st.DrawFn) -> dict[str, Any]:
    """A source contract, as written in YAML."""
    fields = [
        {"name": f"f{number}", "type": kind, "required": draw(st.booleans()), **draw(_maybe(column=f"Column {number}"))}
        for number, kind in enumerate(draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5)))
    ]
    names = [field["name"] for field in fields]
    fields += draw(st.sampled_from([[], [{"name": "event_ts", "type": "timestamp", "column": "event_time"}]]))
    fields += draw(st.sampled_from([[], [{"name": "source_system", "type": "string"}]]))
    changes = (
        draw(_maybe(op="op", delete_words=["delete", "d", "l\u00f6schen"]))
        | draw(_maybe(is_correction="fix"))
        | draw(_maybe(corrected_by="who", correction_reason="why"))
    )
    of_kind: dict[str, Any] = {}
    if draw(st.booleans()):
        of_kind = {"kind": "dimension", "dimension": draw(st.sampled_from(ENDS))}
        key: dict[str, Any] = {"primary_key": draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))}
        changes |= draw(_maybe(retract_words=["retract", "undo"]))
    elif draw(st.booleans()):
        keys = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        key = {"primary_key": keys}
        changes |= draw(_maybe(corrects_event_id="corrects")) if len(keys) == 1 else {}
    else:
        key = {"synthetic_key": {"fields": names[:2], **draw(_maybe(window="PT1H"))}}
    return {
        "dataset": "events",
        "model": {"fields": fields},
        "clocks": draw(_clocks()),
        "changes": changes,
        "order": draw(_maybe(sequence="seq")),
        "source": draw(_sources()),
        **of_kind,
        **key,
    }


def _maybe(**keys: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([{}, keys])


@st.composite
def _clocks(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "event": "event_time",
        "timezone": draw(st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])),
        "start_date": "1980-01-01",
        "max_ahead": draw(st.sampled_from(["P1D", "P999D"])),
        **draw(_maybe(arrival="arrived_at")),
        **draw(_maybe(naive_times="in_timezone")),
    }


@st.composite
def _sources(draw: st.DrawFn) -> dict[str, Any]:
    signs = {
        "delimiter": draw(st.sampled_from([";", "\t", "|", " ", "\u00a7"])),
        "quote": draw(st.sampled_from(['"', "'"])),
    }
    return {
        "format": draw(st.sampled_from(["csv", "json", "parquet"])),
        "start_date": "1980-01-01",
        "null_values": draw(st.sampled_from([[""], ["", "null", "N/A"], [], ["0"]])),
        **draw(_maybe(**signs)),
    }


def files(source: SourceContract) -> st.SearchStrategy[bytes]:
    """A file that the contract describes, with a few damaged bytes at times."""
    rows = st.builds(
        _rows, st.just(source), st.integers(0, 2**32), st.sampled_from([0, 1, 5, 40, 60]), st.sampled_from([0, 0.01, 0.1])
    )
    if source.source.format == "parquet":
        return st.builds(_parquet, rows, st.integers(0, 2**32))
    written = rows.flatmap(lambda rows: _csv(source, rows) if source.source.format == "csv" else _json(rows))
    return st.one_of(written, written, st.tuples(written, st.integers(0, 2_000), st.sampled_from(DAMAGE)).map(_damaged))


#: How a dimension's changes end.
ENDS: list[dict[str, Any]] = [{}, {"valid_to": "until"}, {"valid_to": "until", "valid_to_is_last_day": True}]
DAMAGE = [b'"', b"'", b"\n", b"\r", b"\xff", b"\x00", b",", b"\r\n", b"\\", b"\xef\xbb\xbf", b"}", b"\n\n", b'"a"', b"\xc3"]


def _rows(source: SourceContract, seed: int, count: int, unusual: float) -> list[dict[str, str]]:
    """Records that are plain but for a share of their values."""
    random = Random(seed)
    choices = {column: _plain(source, column) for column in source.columns_read} | {"extra": PLAIN["string"]}
    return [
        {column: random.choice(UNUSUAL if random.random() < unusual else plain) for column, plain in choices.items()}
        for _ in range(count)
    ]


def _plain(source: SourceContract, column: str) -> list[str]:
    """A column's plain values; for a field of the event time those that are also such a time."""
    kinds = [field.type for field in source.model.fields if field.in_file == column]
    if column in (source.event_column, source.clocks.arrival):
        days = PLAIN["date"] if column == source.event_column and not kinds else []
        return PLAIN["timestamp"] + days + (["", *PLAIN["date"]] if column == source.clocks.arrival else [])
    if kinds:
        return PLAIN[kinds[0]]
    if column == source.changes.corrects_event_id:
        return ["", "", *next(PLAIN[field.type] for field in source.model.fields if field.name == source.primary_key[0])]
    if column == source.changes.op:
        return OPS
    of_columns = {
        source.changes.is_correction: PLAIN["boolean"],
        source.dimension.valid_to: ["", *PLAIN["timestamp"], *PLAIN["date"]],
        **{item.column: PLAIN["bigint"] for item in source.order.sequence},
    }
    return of_columns.get(column, PLAIN["string"])


def _csv(source: SourceContract, rows: list[dict[str, str]]) -> st.SearchStrategy[bytes]:
    columns = [*source.columns_read, "extra"]

    def written(end: str, quoting: int) -> bytes:
        text = io.StringIO()
        writer = csv.writer(
            text, delimiter=source.source.delimiter, quotechar=source.source.quote, lineterminator=end, quoting=quoting
        )
        writer.writerows([columns, *([row[column] for column in columns] for row in rows)])
        return text.getvalue().encode()

    return st.builds(written, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))


def _json(rows: list[dict[str, str]]) -> st.SearchStrategy[bytes]:
    def written(ascii_only: bool, tight: bool, bare: bool, sparse: bool) -> bytes:
        separators = (",", ":") if tight else None
        lines = []
        for row in rows:
            record = {name: _bare(text) if bare else text for name, text in row.items() if not (sparse and text == "")}
            lines.append(json.dumps(record, ensure_ascii=ascii_only, separators=separators) + "\n")
        return "".join(lines).encode()

    return st.builds(written, st.booleans(), st.booleans(), st.booleans(), st.booleans())


def _bare(text: str) -> Any:
    """The text as a number, a truth or null, where JSON can write it so."""
    try:
        return json.loads(text, parse_constant=lambda word: word)
    except ValueError:
        return text


def _damaged(damage: tuple[bytes, int, bytes]) -> bytes:
    content, at, inserted = damage
    return content[:at] + inserted + content[at:]


def _parquet(rows: list[dict[str, str]], seed: int) -> bytes:
    """A Parquet file in which each column has a type that can hold its values, if there is one besides text."""
    random = Random(seed)
    columns = {name: _typed([row[name] or None for row in rows], random) for name in (rows[0] if rows else ())}
    columns["nested"] = pa.array([{"a": [number, None]} for number in range(len(rows))])
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def _typed(texts: list[str | None], random: Random) -> pa.Array:
    odd = ODD_TYPES if random.random() < 0.03 else []
    for kind in [*odd, *random.sample(ARROW_TYPES, len(ARROW_TYPES))]:
        with suppress(pa.ArrowException):
            return pa.array(texts).cast(kind)
    return pa.array(texts, pa.string())
