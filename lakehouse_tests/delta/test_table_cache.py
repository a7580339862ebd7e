"""What a cache of open tables gives to other processes. Its use by reads is tested in ``test_table_io``."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.delta import row_writer, table_io
from lakehouse.delta.table_cache import CachedStorageOptions, TableCache, cache_of

if TYPE_CHECKING:
    from pathlib import Path


def test_options_reach_another_process_with_an_empty_cache(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({"region": "north"}, TableCache())
    row_writer.append(path, pa.table({"number": [1]}), options=options)
    assert table_io.open_table(path, options) is table_io.open_table(path, options)
    copy = pickle.loads(pickle.dumps(options))
    assert (copy, type(copy)) == ({"region": "north"}, CachedStorageOptions)
    assert cache_of(copy) is not None
    assert table_io.open_table(path, copy) is not table_io.open_table(path, options)
    assert table_io.version(path, copy) == 0
