"""The state of open windows on real Spark, in rows and bytes, against the formula of docs/live.md.

python benchmarks/live_state.py [--keys 1000] [--windows 60] [--paper-keys 50000] [--paper-windows 1440]

Each key has an event in each of so many windows of a minute, none of which the watermark has passed; then another event moves the
watermark over half of them. Rows and bytes are Spark's own report. The last line computes the state of a larger stream from the
bytes of a row that were measured, without running it.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze.ingest import Ingest
from lakehouse.live import status
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.live_lake import LiveLake
from lakehouse_tests.support.united_lake import metric

if TYPE_CHECKING:
    from lakehouse.live.status import WindowState

BEGINS = datetime(2024, 10, 29, tzinfo=timezone.utc)
ARRIVES = BEGINS.date() + timedelta(days=1)
MINUTE = timedelta(minutes=1)


def main() -> None:
    """Print rows and bytes as measured and by the formula, before and behind a watermark, and a larger stream on paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--paper-keys", type=int, default=50_000)
    parser.add_argument("--paper-windows", type=int, default=1_440)
    options = parser.parse_args()
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (help is shown without Spark)

    with tempfile.TemporaryDirectory() as folder:
        live = {"watermark": f"PT{options.windows}M", "max_files_per_trigger": 1}
        total = {"name": "total", "sql": "sum(amount)", "type": "bigint", "additive": True}
        contract = {"metric": "hourly", "source": "orders", "measures": [total], "window": {"size": "PT1M"}, "grain": ["user"]}
        lake = LiveLake(lake_in(Path(folder)), LakeSpark().spark_session, metrics=[metric(contract, live=live)])
        first = read(lake, 0, [(key, minute) for minute in range(options.windows) for key in range(options.keys)])
        report("all windows open", first, options.keys, options.windows)
        half = options.windows // 2
        second = read(lake, 1, [(0, options.windows + half - 1)])
        print(
            f"behind a watermark over {half - 1} windows: {second.rows:,} rows, {second.bytes:,} bytes, windows {second.windows}"
        )
        each = first.bytes / first.rows
        rows = options.paper_keys * options.paper_windows
        paper = f"{options.paper_keys:,} keys x {options.paper_windows:,} open windows = {rows:,} rows"
        print(f"on paper: {paper} x {each:,.0f} bytes = {rows * each / 2**30:,.1f} GiB")


def read(lake: LiveLake, number: int, places: list[tuple[int, int]]) -> WindowState:
    """The state when the stream has read an event of each key and minute, from one file."""
    lines = [
        f"{key}-{minute},1,{(BEGINS + minute * MINUTE).isoformat()},{ARRIVES}T12:0{number}:00Z,insert,user{key}"
        for key, minute in places
    ]
    path = Path(f"{lake.lake.settings.landing}", f"orders.arrival_date={ARRIVES}.{number}.csv")
    path.write_text("\n".join(["id,amount,at,arrived_at,op,user", *lines]) + "\n")
    lake.lake.settings.now = datetime.combine(ARRIVES, datetime.min.time(), timezone.utc) + timedelta(days=2)
    Ingest(lake.lake, lake.sources["orders"], lake.session, "run").day(ARRIVES)
    lake.stream()
    known = status.of(lake.lake, "hourly")
    assert known is not None
    return status.window_state_of(lake.lake, lake.hourly, known)


def report(title: str, state: WindowState, keys: int, windows: int) -> None:
    """Print a measured state against the formula."""
    print(f"{title}: {state.rows:,} rows measured, {keys * windows:,} by keys x open windows ({keys:,} x {windows:,})")
    print(f"  {state.bytes:,} bytes measured, {state.bytes / max(1, state.rows):,.0f} a row; {state.windows}")


if __name__ == "__main__":
    main()
