"""The keys of dimensions: from record keys back to primary keys, and their buckets as everywhere else."""

from __future__ import annotations

import zlib
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.row_parser import change_key, record_key
from lakehouse.dimensions.tables import dimension_keys, event_times, key_buckets

MOMENT = datetime(2024, 1, 1, 12, 30, 0, 5, tzinfo=timezone.utc)
TEXTS = st.text(st.sampled_from('ab"\\,[] \n\u00e9\u2028'), max_size=6)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=6))
def test_the_key_is_what_an_event_source_would_write(keys: list[list[str]]) -> None:
    changes = pa.array([change_key(values, MOMENT) for values in keys], pa.string())
    assert dimension_keys(changes).to_pylist() == [record_key(values) for values in keys]
    assert event_times(changes).to_pylist() == [MOMENT] * len(keys)


@given(st.lists(TEXTS, max_size=6), st.integers(1, 4096))
def test_the_bucket_is_the_checksum_of_the_key(keys: list[str], count: int) -> None:
    expected = [zlib.crc32(key.encode()) % count for key in keys]
    assert key_buckets(pa.array(keys, pa.string()), count).to_pylist() == expected
    assert key_buckets(pa.chunked_array([keys[1:]], pa.string()), count).to_pylist() == expected[1:]


def test_record_keys_of_events_have_no_dimension_key() -> None:
    assert dimension_keys(pa.array(["17", '["a","b"]', "2024-01-01", None], pa.string())).to_pylist() == [None] * 4


@pytest.mark.spark
def test_spark_puts_keys_into_the_same_buckets(spark) -> None:
    keys = ["17", "", "\u00e9", '["web","17"]']
    found = spark.createDataFrame([(key,) for key in keys], "key string").selectExpr("pmod(crc32(key), 16)").collect()
    assert [row[0] for row in found] == key_buckets(pa.array(keys), 16).to_pylist()
