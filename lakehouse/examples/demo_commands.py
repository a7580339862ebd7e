"""``lakehouse demo``: two weeks of late, corrected and withdrawn sales through all layers, and their effect on the numbers.

At the end, a change of a customer's tier arrives late. This module has the steps and the printed text. The sales are generated in
``examples.sales_stream``, the customers in ``examples.late_tier``; the history is read in ``gold.numbers.history`` and
``examples.late_tier``.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import data_table, errors, number_column, out
from lakehouse.cli.number_report import shown
from lakehouse.examples import late_tier
from lakehouse.examples import sales_stream as stream
from lakehouse.orchestration.commands import with_progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from rich.table import Table

    from lakehouse.examples.late_tier import LateTier
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion, Standing
    from lakehouse.lake import Lake


_LEGEND = """\
late       arrived later than the contract expects; the first publication itself is no restatement
corrected  the same sale on the same day, with another amount: the published number was wrong and is now right
moved      the sale was reassigned to another day; both days change
withdrawn  deleted, or replaced by a sale with a new id, which then counts as late"""
_TIER_LEGEND = f"""\
customers        a dimension: the tier of each customer, and from when on
{late_tier.BY_TIER}  each sale by the tier that its customer had when it happened
{late_tier.SHARE}       made of published numbers: the revenue of gold customers by all revenue"""
#: The folder in the root for the contracts of the demo.
_CONTRACTS = "demo_contracts"
#: The number of days shown without ``--all``.
_SHORT = 5


app = typer.Typer(invoke_without_command=True)


@app.callback()
def demo(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="Another seed generates other sales; use a separate LAKEHOUSE_ROOT for it.")] = 7,
    models: Annotated[  # noqa: FBT002 (typer's form)
        bool,
        typer.Option("--models", help="Card payments and late chargebacks in place of sales: labels, training sets, models."),
    ] = False,
    every_day: Annotated[  # noqa: FBT002 (typer's form)
        bool, typer.Option("--all", help="Show every day with each of its restatements, and all that can be tried next.")
    ] = False,
) -> None:
    """Generate two weeks of late, corrected, moved and withdrawn sales, process them, and show the changes.

    At the end, a change of a customer's tier arrives late: the numbers by tier are restated on the days of this customer's sales.
    With ``--models``, chargebacks change the labels of card payments: a model is trained, compared, promoted, retrained and
    rolled back.
    """
    if context.invoked_subcommand is not None:
        return
    from lakehouse.contracts.loader import bundled_folder, load_catalog  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.examples import late_tier  # noqa: PLC0415
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415
    from lakehouse.orchestration.execution.replay import Replay  # noqa: PLC0415
    from lakehouse.spark.jars import require_java  # noqa: PLC0415

    lake = Lake.open()
    if "://" in lake.root:
        errors.print(f"The demo writes files: set LAKEHOUSE_ROOT to a local folder, not to {lake.root}.", style="red")
        raise typer.Exit(2)
    if models:
        _play_models(lake, seed)
        return
    lake = Lake.open(landing=f"{lake.root}/landing/sales")
    files = stream.files(seed)
    tiers = Lake.open(landing=f"{lake.root}/landing/{late_tier.SOURCE}", contracts=Path(lake.root, _CONTRACTS))
    of_sales = {f"{name}.yaml": (bundled_folder() / f"{name}.yaml").read_text(encoding="utf-8") for name in ("sales", "revenue")}
    contracts = {**of_sales, **late_tier.CONTRACTS}
    texts = {tiers.landing_of(late_tier.SOURCE): late_tier.files(seed), f"{tiers.settings.contracts}": contracts}
    landing = {lake.landing_of("sales"): files, **texts}
    if not all(Path(folder, name).is_file() for folder, names in landing.items() for name in names):
        require_java(lake)  # before anything is written; a completed demo needs no Spark
    written = write_files(Path(lake.landing_of("sales")), files)
    errors.print(f"{len(files)} files of sales in {lake.settings.landing}, {written} of them new.", style="dim", soft_wrap=True)
    if written:
        errors.print(
            "Processing them through Bronze, Silver and Gold, one arrival day after another: a minute or two.", style="dim"
        )
    with local_instance() as instance:
        run = Replay(lake, load_catalog(None), "sales", instance)
        with_progress(run, run.arrival_days()[0])
        for folder, names in texts.items():
            write_files(Path(folder), names)
        catalog = load_catalog(tiers.settings.contracts)
        with_tiers = Replay(tiers, catalog, late_tier.SOURCE, instance)
        with_progress(with_tiers, with_tiers.arrival_days()[0])
    _report(lake, every_day=every_day)
    key = _report_bronze(lake)
    effects = late_tier.late_tier(tiers, catalog)
    _report_late_tier(effects, every_day=every_day)
    _say_how_to_go_on(tiers, key, [day.day for day in effects.restated], every_step=every_day)


def _play_models(lake: Lake, seed: int) -> None:
    """:raises typer.Exit: if the packages for models are not installed."""
    from importlib.util import find_spec  # noqa: PLC0415

    from lakehouse.spark.jars import require_java  # noqa: PLC0415 (Dagster and Spark load in seconds)

    missing = [name for name in ("mlflow", "sklearn") if find_spec(name) is None]
    if missing:
        text = f"The demo of models needs {' and '.join(missing)}: install the extra with 'pip install lakehouse[ml]'."
        errors.print(text, style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(2)
    from lakehouse.cli import models_demo  # noqa: PLC0415

    require_java(lake)
    models_demo.play(lake.root, seed)


def write_files(folder: Path, files: Mapping[str, str]) -> int:
    """Write new and changed files only: an unchanged file keeps its modification time and does not look new."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {name: text.encode() for name, text in files.items()}
    new = {name: text for name, text in new.items() if not (folder / name).is_file() or (folder / name).read_bytes() != text}
    for name, text in new.items():
        (folder / name).write_bytes(text)
    return len(new)


def _report(lake: Lake, *, every_day: bool) -> None:
    """Print the results, all read from the tables, so that a repeated demo prints the same."""
    from lakehouse.contracts import load_catalog  # noqa: PLC0415 (`--help` need not wait for contracts)
    from lakehouse.contracts.series import Series  # noqa: PLC0415
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415

    one = Series(load_catalog(None).metrics["revenue"])
    known = numbers_history.history(lake, one)
    days = {day: numbers_history.standing(one, versions) for day, versions in sorted(known.items())}
    out.print()
    out.print(long_table(days) if every_day else short_table(days))
    if every_day:
        out.print(_LEGEND, style="dim")
        out.print()
    restatements = sum(len(standing.restatements) for standing in days.values())
    out.print(f"{len(days)} event days were published and restated {restatements} times; only the days concerned were written.")
    for day, standing in days.items():
        for booked in standing.adjustments:
            out.print(f"{day} was final: {_booked(booked)} ({_why(booked)}).", soft_wrap=True)


def short_table(days: Mapping[date, Standing]) -> Table:
    """The days whose revenue changed most since it was first published, each in one line."""
    most = sorted(days, key=lambda day: -days[day].sides["revenue"].size)[:_SHORT]
    table = data_table(f"Revenue per event day: the {len(most)} days that changed most ('lakehouse demo --all' shows each day)")
    shown_days = {day: days[day] for day in sorted(most)}
    _number_columns(table, shown_days)
    table.add_column("restated", no_wrap=True, justify="right")
    table.add_column("last because of", overflow="fold")
    for day, standing in shown_days.items():
        last = standing.restatements[-1:]
        table.add_row(*_numbers(day, standing), f"{len(standing.restatements)}", *(map(_why, last) if last else [""]))
    return table


def long_table(days: Mapping[date, Standing]) -> Table:
    """All days, with their restatements and adjustments."""
    table = data_table("Revenue per event day: as first published, and now")
    _number_columns(table, days)
    table.add_column("restated", no_wrap=True)
    table.add_column("because of", overflow="fold")
    for day, standing in days.items():
        moves = [(one, _why(one)) for one in standing.restatements]
        moves += [(one, f"{_why(one)}: {_booked(one)}") for one in standing.adjustments]
        dated = [(f"{one.published_at:%b} {one.published_at.day:2}", why) for one, why in moves]
        # A row for each restatement, so that a reason stays next to its date in a narrow terminal.
        for position, (when, why) in enumerate(dated or [("never", "")]):
            cells = _numbers(day, standing) if position == 0 else ("",) * 5
            table.add_row(*cells, when, why, end_section=position >= len(dated) - 1)
    return table


def _number_columns(table: Table, days: Mapping[date, Standing]) -> None:
    for heading in ("event day", "state"):
        table.add_column(heading, no_wrap=True)
    cells = [_numbers(day, standing) for day, standing in days.items()]
    for position, heading in enumerate(("first", "now", "change"), start=2):
        number_column(table, heading, [row[position] for row in cells])


def _numbers(day: date, standing: Standing) -> tuple[str, str, str, str, str]:
    """The first cells of a day: the day, its state, its revenue as first published and now, and the difference."""
    sides = standing.sides["revenue"]
    first, now = (Decimal(side or 0) for side in sides)
    return f"{day}", standing.now.state.value, f"{first:,.2f}", f"{now:,.2f}", f"{now - first:+,.2f}" if sides.changed else "0.00"


def _booked(adjustment: PublishedVersion) -> str:
    amount = sum((row["revenue"] or Decimal(0) for row in adjustment.rows), Decimal(0))
    return f"{amount:+,.2f} is booked to {adjustment.row['booked_on']}"


def _why(version: PublishedVersion) -> str:
    """The changed rows that explain a restatement; its reason if no row changed."""
    return (version.restatement_reason or version.reason.value).removeprefix(f"{version.reason.value}: ")


def _report_bronze(lake: Lake) -> str:
    """:returns: the key of the sale with the most records."""
    from lakehouse.contracts import load_catalog  # noqa: PLC0415
    from lakehouse.dispositions import account as dispositions_account  # noqa: PLC0415
    from lakehouse.ledger import ingestions  # noqa: PLC0415

    rows = dispositions_account.rows(lake, load_catalog(None).sources["sales"])
    became = Counter(row.disposition.value for row in rows)
    counts = ", ".join(f"{count:,} {what}" for what, count in became.most_common())
    out.print(f"Bronze holds {len(rows):,} records, each once: {counts}.", soft_wrap=True)
    for entry in ingestions.all_of(lake, "sales"):
        if entry.status == "redelivered":
            out.print(f"{entry.source_file} added nothing: {entry.message}.", soft_wrap=True)
    (key, _), *_ = Counter(row.record_key or "" for row in rows).most_common(1)
    return key


def _report_late_tier(effects: LateTier, *, every_day: bool) -> None:
    """Print the days that the late tier change restated, and the unchanged days."""
    out.print("\nA tier that was known late: customers as of Nov 16, and one change of an earlier day that arrived on Nov 17")
    if every_day:
        out.print(_TIER_LEGEND, style="dim", soft_wrap=True)
        out.print()
        out.print(tier_table(effects))
    for because in dict.fromkeys(day.because for day in effects.restated):
        out.print(f"Restated because {because}.", soft_wrap=True)
    out.print(
        f"{len(effects.restated)} of {len(effects.restated) + len(effects.kept)} days of {late_tier.BY_TIER} were restated, and "
        f"{late_tier.SHARE} on {sum(day.share is not None for day in effects.restated)} of them. Untouched: "
        f"{', '.join(f'{day:%b} {day.day}' for day in effects.kept)}.",
        soft_wrap=True,
    )
    if every_day:
        out.print()
        out.print(change_table(effects))


def tier_table(effects: LateTier) -> Table:
    """The restated days: the revenue of the two tiers, and the share of gold, before and after."""
    table = data_table(f"{late_tier.BY_TIER} and {late_tier.SHARE}: the days that were restated")
    table.add_column("event day", no_wrap=True)
    tiers = sorted({tier for day in effects.restated for tier in day.tiers})
    for tier in tiers:
        number_column(table, tier, [_sides(day.tiers.get(tier)) for day in effects.restated])
    number_column(table, "gold %", [_sides(day.share) for day in effects.restated])
    for day in effects.restated:
        table.add_row(f"{day.day}", *(_sides(day.tiers.get(tier)) for tier in tiers), _sides(day.share))
    return table


def change_table(effects: LateTier) -> Table:
    """The dimension changes as recorded by the publication."""
    table = data_table("The cause, as recorded with the publication")
    columns = ("dimension", "key", "column", "from", "to", "before", "after")
    for name in columns:
        table.add_column(name, overflow="fold")
    for change in effects.changes:
        table.add_row(*(f"{change[name] or ''}".removesuffix("T00:00:00+00:00") for name in columns))
    return table


def _sides(sides: Sides | None) -> str:
    return "" if sides is None else f"{shown(sides.before)} -> {shown(sides.after)}"


def _say_how_to_go_on(lake: Lake, key: str, restated: Sequence[date], *, every_step: bool) -> None:
    gold = f"{lake.root}/gold/revenue"
    short = (
        "",
        "Each revision of a day with its reason:          lakehouse gold history revenue 2024-11-07",
        f"One sale, from its records to the numbers:       lakehouse trace sales {key}",
        "The pages, at http://127.0.0.1:8321/:            lakehouse serve",
    )
    lines = (
        "",
        "For the numbers by tier the commands below need the contracts of the demo:",
        f"  export LAKEHOUSE_CONTRACTS={lake.settings.contracts}",
        *(f"  lakehouse gold history {late_tier.BY_TIER} {day}" for day in restated[:1]),
        "See it in Dagster, from this folder:",
        '  DAGSTER_HOME="$PWD/dagster_home" dagster dev -w workspace.yaml',
        "  then open http://127.0.0.1:3000/assets/gold/revenue: its partitions are the event days, with their runs and checks.",
        "Its sensors notify people of what is wrong, such as a till whose sales came a week late:",
        "  lakehouse alerts list",
        "Show the disposition of every row, or trace one sale from its records to the numbers it changed:",
        "  lakehouse source account sales",
        f"  lakehouse trace sales {key}",
        "Ten sales came beyond the contract's cutoff, one fails a rule: they wait for a steward, and numbers wait for them:",
        "  lakehouse quarantine list sales",
        "  lakehouse gold show revenue 2024-11-09",
        "Accept them: an open day is restated, a closed one gets an adjustment in the open period:",
        "  lakehouse quarantine accept sales --all --by you --reason 'a till was offline'",
        "  lakehouse source audit sales --date 2024-11-09",
        "Show a day's number with all its revisions and their reasons:",
        "  lakehouse gold history revenue 2024-11-07",
        "Open the pages with the numbers and their history, or request the numbers over HTTP:",
        "  lakehouse serve",
        "  then open http://127.0.0.1:8321/ and http://127.0.0.1:8321/metrics/revenue?window=2024-11-07",
        "Read the numbers, with DuckDB or with delta-rs:",
        f"  SELECT * FROM delta_scan('{gold}') WHERE is_latest ORDER BY event_date;",  # noqa: S608 (text for a person)
        f"  python -c \"from deltalake import DeltaTable; print(DeltaTable('{gold}').to_pandas())\"",
    )
    for line in lines if every_step else short:
        out.print(line, soft_wrap=True)
