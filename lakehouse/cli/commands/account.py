"""``lakehouse account``: what became of every row of Bronze, per arrival day. Starts no JVM."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from lakehouse.cli.console import catalog_with, out
from lakehouse.dispositions.verdicts import Disposition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date


def account(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    arrival_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="This arrival day only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per arrival day.")] = False,  # noqa: FBT002
) -> None:
    """Count what became of every row of Bronze: each has exactly one disposition."""
    from lakehouse.dispositions import account as dispositions_account  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    days = [arrival_date.date()] if arrival_date else None
    counts = dispositions_account.counts(dispositions_account.rows(settings, contract, arrival_days=days))
    if as_json:
        for day, found in counts.items():
            line = {"arrival_date": day.isoformat(), "rows": found.total()} | {one.value: found[one] for one in Disposition}
            out.print(json.dumps(line), soft_wrap=True)
        return
    if not counts:
        out.print(f"bronze/{source} holds no row{f' of {days[0]}' if days else ''}.")
        return
    out.print(_table(source, counts))


def _table(source: str, counts: Mapping[date, Counter[Disposition]]) -> Table:
    total: Counter[Disposition] = sum(counts.values(), Counter())
    shown = list(Disposition)
    table = Table(title=f"What became of the rows of {source}", title_justify="left", box=box.HORIZONTALS, show_footer=True)
    table.add_column("arrival day", footer="total", no_wrap=True)
    table.add_column("rows", footer=f"{total.total():,}", justify="right")
    for one in shown:
        table.add_column(one.value, footer=f"{total[one]:,}", justify="right")
    for day, found in counts.items():
        table.add_row(f"{day}", f"{found.total():,}", *(f"{found[one]:,}" for one in shown))
    return table
