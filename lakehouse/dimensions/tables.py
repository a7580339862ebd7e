"""The tables of a dimension: their columns, keys and buckets, and the reads of present intervals without Spark.

``ops/<dimension>_by_key`` holds the changes of silver by bucket, ``silver/<dimension>_intervals`` the intervals. A mark records
what a table was computed from.

The key of a dimension, its bucket, and the time of a change come from the record keys of changes. The join keys of facts and
dimensions are texts: the counterpart, for columns, of ``row_parser.record_key`` for a record.

Intervals are read for given keys, or as those that contain a moment. The reads for updates belong to ``interval_table``.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import commit_log, data_files
from lakehouse.delta.columns import arrow_schema
from lakehouse.ledger import redactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from deltalake import DeltaTable
    from numpy.typing import NDArray

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake


#: The end of a record key, and its number of characters.
_TIME = r'","\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"\]$'
TIME_LENGTH = len(',"2024-01-01T00:00:00.000000Z"]')
#: The polynomial of CRC-32 as ``zlib`` and Spark compute it, with its bits reversed.
_POLYNOMIAL = 0xEDB88320
_ALL_BITS = np.uint32(0xFFFFFFFF)


def dimension_keys(record_keys: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """The primary key of each change as an event source writes it in its record key; NULL for a key of another form.

    Record keys have another form where they were read before the source became a dimension.
    """
    texts = record_keys.combine_chunks() if isinstance(record_keys, pa.ChunkedArray) else record_keys
    texts = texts.cast(pa.string())
    texts = pc.if_else(pc.match_substring_regex(texts, _TIME), texts, None)
    values = pc.utf8_slice_codeunits(texts, 1, -TIME_LENGTH)  # "17" or "web","17"
    several = pc.match_substring_regex(values, r'^"(?:[^"\\]|\\.)*","')
    single = pc.utf8_slice_codeunits(values, 1, -1)
    escaped = pc.and_not(pc.match_substring(values, "\\"), several)
    if pc.any(escaped, min_count=0).as_py():  # few keys have a quote or a backslash
        plain = pa.array([json.loads(value) for value in values.filter(escaped).to_pylist()], pa.string())
        single = pc.replace_with_mask(single, pc.fill_null(escaped, False), plain)
    return pc.if_else(several, pc.binary_join_element_wise("[", values, "]", ""), single)


def event_times(record_keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The event time of each change; the record keys are those for which :func:`dimension_keys` gives a key."""
    texts = record_keys.combine_chunks() if isinstance(record_keys, pa.ChunkedArray) else record_keys
    times = pc.utf8_slice_codeunits(texts.cast(pa.string()), len(',"') - TIME_LENGTH, -len('"]'))
    return times.cast(pa.timestamp("us", "UTC"))


def key_buckets(keys: pa.Array | pa.ChunkedArray, count: int) -> pa.Int32Array:
    """The bucket of each key: the CRC-32 of its UTF-8 bytes modulo ``count``. No key is NULL."""
    distinct = pc.dictionary_encode(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys)
    numbers = (_crc32(distinct.dictionary.cast(pa.string())) % np.uint32(count)).astype(np.int32)
    return pa.array(numbers).take(distinct.indices)


def _crc32(texts: pa.StringArray) -> NDArray[np.uint32]:
    """The checksum of each text, byte by byte of all texts at once."""
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    sums = np.full(len(texts), _ALL_BITS)
    if not lengths.sum():
        return np.zeros(len(texts), np.uint32)
    begins = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts)].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    longer = np.arange(len(texts))
    for place in range(int(lengths.max())):
        longer = longer[lengths[longer] > place]
        byte = data[begins[longer] + place]
        sums[longer] = _TABLE[(sums[longer] ^ byte) & np.uint32(0xFF)] ^ (sums[longer] >> np.uint32(8))
    checksums: NDArray[np.uint32] = sums ^ _ALL_BITS
    return checksums


def _table() -> NDArray[np.uint32]:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & np.uint32(1), (values >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), values >> np.uint32(1))
    return values.astype(np.uint32)


_TABLE = _table()


_KEY = (("bucket", "int"), ("dimension_key", "string"))
#: Columns from the change that opens an interval.
_ORIGIN = (("record_key", "string"), ("arrival_ts", "timestamp"), ("ingestion_id", "string"), ("line_number", "bigint"))


def changes_of_silver(contract: SourceContract) -> Columns:
    """The columns of silver from which intervals are computed."""
    clocks = (("event_ts", "timestamp"), ("key_ends", "boolean"), ("ends_at", "timestamp"))
    return (("event_date", "date"), *attributes(contract), *clocks, *_ORIGIN)


def change_columns(contract: SourceContract) -> Columns:
    """The columns of a change by key."""
    return (*_KEY, *changes_of_silver(contract))


def interval_columns(contract: SourceContract) -> Columns:
    """The columns of an interval."""
    validity = (("valid_from", "timestamp"), ("valid_to", "timestamp"), ("is_current", "boolean"))
    return (*_KEY, *attributes(contract), *validity, *_ORIGIN)


def attributes(contract: SourceContract) -> Columns:
    """The typed fields of the contract."""
    return tuple((field.name, field.type) for field in contract.typed_fields)


def by_key(contract: SourceContract, changes: pa.Table) -> pa.Table:
    """Changes with their key and bucket; those whose record key has another form are left out (see :func:`dimension_keys`).

    :param changes: with :func:`changes_of_silver`; other columns are kept.
    """
    changes = changes.append_column("dimension_key", dimension_keys(changes["record_key"]))
    changes = changes.filter(changes["dimension_key"].is_valid())
    return changes.append_column("bucket", key_buckets(changes["dimension_key"], contract.dimension.buckets))


def as_changes(contract: SourceContract, rows: pa.Table) -> pa.Table:
    """Rows with the columns and types of changes by key."""
    return _as(arrow_schema(change_columns(contract)), rows)


def as_intervals(contract: SourceContract, rows: pa.Table) -> pa.Table:
    """Rows with the columns and types of intervals."""
    return _as(arrow_schema(interval_columns(contract)), rows)


def _as(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    return rows.select(schema.names).cast(schema)


def mark(contract: SourceContract, silver: DeltaTable) -> str:
    """The id of the Delta transaction by which a table records the version of silver that it follows.

    It contains the identity of the silver table and a digest of the parts of the contract that the rows depend on: when one of
    them changes, the table follows no version yet, and is computed as a whole.
    """
    terms: Mapping[str, Any] = {
        "fields": attributes(contract),
        "key": contract.primary_key,
        "untracked": sorted(contract.dimension.untracked),
        "buckets": contract.dimension.buckets,
    }
    digest = hashlib.sha256(json.dumps(terms).encode()).hexdigest()[:12]
    return f"silver:{commit_log.identity(silver)}:{digest}"


#: The characters that JSON escapes with a backslash.
_ESCAPED = r'["\\\x00-\x1f]'


def key_texts(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The key of each row: the value itself, or a JSON list if the key has several columns; NULL if a value is NULL.

    :param columns: of strings, integers, booleans, days or decimals with up to six digits behind the point.
    """
    plain = [pc.cast(pa.chunked_array(column), pa.string()).combine_chunks() for column in columns]
    if len(plain) == 1:
        return plain[0]
    quoted = [pc.binary_join_element_wise('"', _escaped(column), '"', "") for column in plain]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*quoted, ","), "]", "")


def _escaped(values: pa.Array) -> pa.Array:
    special = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(special).as_py():
        return values
    written = [json.dumps(value, ensure_ascii=False)[1:-1] for value in values.filter(special).to_pylist()]
    return pc.replace_with_mask(values, special, pa.array(written, pa.string()))


#: Up to this many keys are looked up individually; with more, all intervals are read.
FEW_KEYS = 10_000


def intervals_of_keys(lake: Lake, contract: SourceContract, columns: Sequence[str], wanted: pa.Array) -> pa.Table | None:
    """The intervals of the keys ``wanted``; None without a table.

    :param columns: of the table of intervals; a column that the table does not have yet is empty.
    :param wanted: a small number of keys, as in ``dimension_key``; none is NULL.
    """
    table = locations.intervals(lake, contract.dataset).open()
    if table is None:
        return None
    buckets = key_buckets(wanted, contract.dimension.buckets).unique()
    return data_files.with_texts(table, columns, "dimension_key", wanted, {"bucket": buckets})


def current_intervals(lake: Lake, contract: SourceContract, moment: datetime) -> Iterator[pa.Table]:
    """The intervals that contain ``moment``, in pieces, with the columns :func:`interval_columns`; none without a table."""
    names = [name for name, _ in interval_columns(contract)]
    hidden = redactions.keys_by_field(lake, contract.dataset)  # the table follows a redaction later
    for piece in locations.intervals(lake, contract.dataset).pieces(names, None):
        yield valid_intervals(redactions.applied(as_intervals(contract, piece), hidden), moment)


def valid_intervals(intervals: pa.Table, moment: datetime) -> pa.Table:
    """The intervals that contain ``moment``."""
    at = pa.scalar(moment, intervals["valid_from"].type)
    has_begun = pc.less_equal(intervals["valid_from"], at)
    return intervals.filter(pc.and_(has_begun, pc.fill_null(pc.greater(intervals["valid_to"], at), True)))
