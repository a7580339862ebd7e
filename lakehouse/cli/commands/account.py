"""``lakehouse account``: the dispositions of the rows of Bronze, per arrival day."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import catalog_with, counted, data_table, fits, number_column, out
from lakehouse.cli.number_report import print_malformed
from lakehouse.ledger.row_states import Disposition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from rich.table import Table


def account(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    arrival_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="This arrival day only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per arrival day.")] = False,  # noqa: FBT002
) -> None:
    """Count the rows of Bronze by disposition; every row has exactly one."""
    from lakehouse.dispositions import account as dispositions_account  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    days = [arrival_date.date()] if arrival_date else None
    counts = dispositions_account.counts(dispositions_account.table(settings, contract, arrival_days=days))
    if as_json:
        for day, of_day in counts.items():
            line = {"arrival_date": day.isoformat(), "rows": of_day.total()} | {name.value: of_day[name] for name in Disposition}
            out.print(json.dumps(line), soft_wrap=True)
        return
    if not counts:
        out.print(f"bronze/{source} holds no row{f' of {days[0]}' if days else ''}.")
        return
    table = rows_by_disposition(source, counts)
    if fits(table):
        out.print(table)
    else:
        for day, of_day in counts.items():  # the numbers do not fit next to each other in the terminal
            dispositions = ", ".join(f"{of_day[name]:,} {name.value}" for name in Disposition if of_day[name])
            out.print(f"{day}: {counted(of_day.total())}, {dispositions}.", soft_wrap=True)
    print_malformed(settings, source, arrival_days=days)


def rows_by_disposition(source: str, counts: Mapping[date, Counter[Disposition]]) -> Table:
    """The counts of each arrival day, with their sum."""
    total: Counter[Disposition] = sum(counts.values(), Counter())
    table = data_table(f"Dispositions of the rows of {source}", show_footer=True)
    table.add_column("arrival day", "total", no_wrap=True)
    number_column(table, "rows", (f"{of_day.total():,}" for of_day in counts.values()), f"{total.total():,}")
    for name in Disposition:
        number_column(table, name.value, (f"{of_day[name]:,}" for of_day in counts.values()), f"{total[name]:,}")
    for day, of_day in counts.items():
        table.add_row(f"{day}", f"{of_day.total():,}", *(f"{of_day[name]:,}" for name in Disposition))
    return table
