"""The consoles for printing, tables, and lookups shared by commands."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rich.console import ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.lake import Lake

#: The number of characters in a date.
DATE_WIDTH = 10
#: From this width on, there is room for space between the columns of a table.
_WIDE = 100
#: The number of failed checks that are printed.
_SHOWN_CHECKS = 10
#: Characters that a terminal would obey instead of showing: all control characters except line feed and tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class DataConsole(Console):
    """A console that shows control characters as escapes, because names and keys are external data."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Render the text of a cell or a line, before it is measured."""
        return super().render_str(_shown(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render segments; the segments by which Rich controls the terminal are unchanged."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_shown(segment.text), segment.style)


def _shown(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


#: Markup and emoji codes in names and keys are not interpreted, either.
out = DataConsole(highlight=False, emoji=False, markup=False)
errors = DataConsole(stderr=True, emoji=False, markup=False)


def deployment(landing: Path | None = None, *, reading: bool = False) -> tuple[Lake, Catalog]:
    """The lake and all contracts.

    :param reading: for a command that only reads, and soon ends: it looks at each table once.
    """
    from lakehouse.contracts.loader import load_catalog, with_examples  # noqa: PLC0415 (`--help` need not wait for it)
    from lakehouse.lake import Lake  # noqa: PLC0415

    lake = Lake.open() if landing is None else Lake.open(landing=str(landing))
    return lake.for_step() if reading else lake, load_catalog(lake.settings.contracts, bundled=with_examples(lake.settings))


def sound_deployment(source: str) -> tuple[Lake, Catalog]:
    """The lake and the well-formed contracts, for a command about one source; unrelated broken contracts are reported.

    :raises ContractError: if a broken contract names ``source``.
    """
    from lakehouse.contracts.loader import load_sound_catalog, with_examples  # noqa: PLC0415 (`--help` need not wait for it)
    from lakehouse.lake import Lake  # noqa: PLC0415

    lake = Lake.open()
    catalog, mistakes = load_sound_catalog(lake.settings.contracts, source, bundled=with_examples(lake.settings))
    print_left_out(mistakes)
    return lake, catalog


def print_left_out(mistakes: Iterable[str]) -> None:
    """Print why unrelated contracts, or files in landing, are left out."""
    print_unfinished("left out", mistakes)


def print_unfinished(kind: str, about: Iterable[str]) -> None:
    """Print what a command has not ingested.

    :param kind: held, left for now, or left out.
    """
    for text in about:
        errors.print(f"{kind}: {text}", style="yellow", highlight=False, soft_wrap=True)


def catalog_with(source: str, landing: Path | None = None, *, reading: bool = False) -> tuple[Lake, Catalog]:
    """The lake and the contracts, which include the contract of ``source``.

    :param reading: see :func:`deployment`.
    :raises typer.Exit: if no contract describes the source.
    """
    lake, catalog = sound_deployment(source)
    lake = lake if landing is None else lake.with_settings(landing=str(landing))
    if source not in catalog.sources:
        known = ", ".join(sorted(catalog.sources)) or "none"
        errors.print(f"No contract has 'dataset: {source}'; known are {known}.", style="red")
        raise typer.Exit(2)
    return lake.for_step() if reading else lake, catalog


def unexpected(problem: Exception) -> str:
    """Describe an unexpected problem, of the system or of a library, and how to proceed."""
    text = f"{problem}".strip().splitlines()
    where = "" if isinstance(problem, OSError) else f"{type(problem).__name__}: "
    message = f"{where}{text[0] if text else 'no reason is given'}".rstrip(". ")
    if type(problem).__module__.startswith("sqlalchemy"):
        return (
            f"{message}. It comes from Dagster's storage of runs in DAGSTER_HOME; no table is concerned. If a file is damaged, "
            "move the folders 'history' and 'schedules' away: only the list of earlier runs is lost. With --debug it shows where "
            "this came from."
        )
    return f"{message}. What was done is kept: the same command goes on from there. With --debug it shows where this came from."


def damage() -> list[str]:
    """The tables with missing or truncated data files, each with the remedy; for a command that has failed.

    They are searched only if the command has read tables, that is, if delta-rs was loaded.
    """
    if "deltalake" not in sys.modules:
        return []
    try:
        from lakehouse.operations import damaged_tables  # noqa: PLC0415

        return [f"{entry}" for entry in damaged_tables.find(*deployment(reading=True))]
    except Exception:  # noqa: BLE001 (what has failed is said in any case)
        return []


def print_notices(notices: Iterable[str]) -> None:
    """Print how new rows differ from older ones because a contract was changed; see ``ledger.contract_archive``."""
    for notice in notices:
        errors.print(notice, style="yellow", highlight=False, markup=False, soft_wrap=True)


def end_of_update(failed_checks: Iterable[str], *unfinished: object) -> None:
    """The end of every command that updates numbers: prints the failed checks.

    :param failed_checks: the checks that fail and the numbers that are held; see ``gold.publication.held_numbers``.
    :param unfinished: what else the command did not finish, and has printed: files that are held or left.
    :raises typer.Exit: with exit code 1 if there is any of these.
    """
    lines = list(failed_checks)
    for line in lines[:_SHOWN_CHECKS]:
        errors.print(f"check failed: {line}", style="red", highlight=False, soft_wrap=True)
    if len(lines) > _SHOWN_CHECKS:
        errors.print(f"and {len(lines) - _SHOWN_CHECKS:,} more", style="red", highlight=False)
    if lines or any(unfinished):
        raise typer.Exit(1)


def number_column(table: Table, heading: str, numbers: Iterable[str], footer: str = "") -> None:
    """Add a column of numbers that is never narrower than its longest number; a narrow terminal folds its heading."""
    table.add_column(heading, footer, justify="right", overflow="fold", min_width=max(map(len, (*numbers, footer)), default=1))


def data_table(title: str | None = None, **options: Any) -> Table:
    """A table for the terminal; in a narrow terminal, with a single character between columns.

    Columns of numbers are added with :func:`number_column`, columns of dates and states with ``no_wrap`` or a ``min_width``, and
    columns of text with ``overflow="fold"``, so that a narrow terminal folds text and truncates nothing.
    """
    from rich import box  # noqa: PLC0415 (`--help` need not wait for it)
    from rich.table import Table  # noqa: PLC0415

    padding = (0, 0) if out.width < _WIDE else (0, 1)
    if title is not None:  # a narrow table would fold it
        options.setdefault("min_width", min(len(title) + 1, out.width))
    return Table(title=title, title_justify="left", box=box.HORIZONTALS, padding=padding, pad_edge=False, **options)


def fits(table: Table) -> bool:
    """Whether a table fits into the terminal with each column at its minimum width, and no word of a heading folded."""
    _, right, _, left = table.padding
    words = [max(map(len, f"{column.header}".split()), default=0) for column in table.columns]
    widths = [max(column.min_width or len(f"{column.header}"), word) for column, word in zip(table.columns, words)]
    return sum(widths) + len(widths) * (right + left + 1) + 1 <= out.width


def counted(rows: int) -> str:
    """A number of rows with its noun."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def confirmed(contract: SourceContract, *, yes: bool) -> None:
    """Require ``--yes`` for a source whose newest arrival replaces the whole table.

    :raises typer.Exit: if ``--yes`` is missing.
    """
    from lakehouse.dispositions.reprocess_policy import policy_of  # noqa: PLC0415

    policy = policy_of(contract)
    if policy.needs_confirmation and not yes:
        errors.print(
            f"{contract.dataset} is kept under {policy.name}: its newest arrival replaces all of silver. Pass --yes to confirm.",
            style="red",
        )
        raise typer.Exit(2)
