"""``lakehouse demo``: two weeks of messy sales through all layers, and what that did to the numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lakehouse.cli.console import errors, out
from lakehouse.cli.replay import with_progress
from lakehouse.domain import demo as stream

if TYPE_CHECKING:
    from lakehouse.settings import Settings
    from lakehouse.tables.history import Publication

_WORDS = {
    "inserted": "late",
    "corrected": "corrected",
    "moved_in": "moved in",
    "moved_out": "moved out",
    "deleted": "withdrawn",
}


def demo(seed: Annotated[int, typer.Option(help="Another seed makes another fortnight.")] = 7) -> None:
    """Make a small stream of late, corrected, moved and withdrawn sales, take it through the layers, show what changed."""
    from lakehouse.contracts import load_catalog  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.replay import Replay, local_instance  # noqa: PLC0415
    from lakehouse.settings import Settings  # noqa: PLC0415

    settings = Settings()
    settings = Settings(landing=f"{settings.root}/landing/sales")
    written = _write_files(Path(settings.landing_of("sales")), seed)
    out.print(f"{len(stream.files(seed))} files of sales in {settings.landing}, {written} of them new.")
    errors.print(
        "Taking them through Bronze, Silver and Gold, arrival day by arrival day; about a minute and a half.", style="dim"
    )
    with local_instance() as instance:
        run = Replay(settings, load_catalog(None), "sales", instance)
        with_progress(run, run.arrival_days()[0])
    _report(settings)


def _write_files(folder: Path, seed: int) -> int:
    """Write what is not there yet; an unchanged file keeps its time, so that nothing looks new."""
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, text in stream.files(seed).items():
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            written += 1
    return written


def _report(settings: Settings) -> None:
    from lakehouse.ledger import ingestions  # noqa: PLC0415
    from lakehouse.tables import history  # noqa: PLC0415

    states = history.publications(settings, "revenue")
    causes = history.causes(settings, "revenue")
    table = Table(title="Revenue per event day, as first published and as it is now", title_justify="left")
    for heading in ("event day", "published on", "first", "now", "change"):
        table.add_column(heading, justify="left" if heading in {"event day", "published on"} else "right", no_wrap=True)
    table.add_column("restated on, and why")
    restatements = 0
    for day, seen in sorted(states.items()):
        first, now = _revenue(seen[0]), _revenue(seen[-1])
        restatements += len(seen) - 1
        reasons = "\n".join(f"{one.as_of:%d %b}: {_why(causes.get((day, one.version), {}))}" for one in seen[1:])
        table.add_row(
            f"{day}", f"{seen[0].as_of:%Y-%m-%d}", f"{first:,.2f}", f"{now:,.2f}", f"{now - first:+,.2f}", reasons or "-"
        )
    out.print(table)
    entries = ingestions.all_of(settings, "sales")
    malformed = sum(entry.malformed for entry in entries)
    again = [entry for entry in entries if entry.status == "redelivered"]
    rows = sum(entry.rows for entry in entries)
    out.print(f"{restatements} restatements of {len(states)} days; every other day was left untouched each time.")
    out.print(f"Bronze holds {rows:,} records once, {malformed} of them malformed and kept with the reason.")
    for entry in again:
        out.print(f"{entry.source_file} added nothing: {entry.message}.")
    out.print()
    out.print("Look at it in Dagster (asset graph, partitions, checks):")
    out.print(
        '  DAGSTER_HOME="$PWD/dagster_home" dagster dev -w workspace.yaml     then open http://127.0.0.1:3000', soft_wrap=True
    )
    out.print(
        f"Or read the tables with any engine, for instance: SELECT * FROM delta_scan('{settings.root}/gold/revenue')",
        soft_wrap=True,
    )


def _revenue(state: Publication) -> float:
    return float(sum(row["revenue"] for row in state.rows))


def _why(what: dict[str, int]) -> str:
    counts = Counter({_WORDS.get(kind, kind): count for kind, count in what.items()})
    return ", ".join(f"{count} {word}" for word, count in counts.most_common()) or "computed again"
