"""Published numbers as text for the terminal: values, and how they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.cli.console import counted, errors, out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.orchestration.execution.single_run import SingleRun

_SHOWN = 20


def shown(value: object) -> str:
    """A value, a number with separators."""
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int | float) or hasattr(value, "quantize") else f"{value}"


def row_text(row: Mapping[str, object], series: Series) -> str:
    """A row of a number in one line; the window that it belongs to by its name."""
    from lakehouse.gold.numbers import window_history  # noqa: PLC0415 (Arrow loads in a second)

    named = window_history.named(row, series.metric)
    return "  ".join(f"{name} {shown(value)}" for name, value in named.items())


def sides_text(sides: Sides) -> str:
    """A number before and after, with the difference and the change in percent."""
    if not sides.changed:
        return shown(sides.after)
    if sides.before is None:
        return f"{shown(sides.after)} (new)"
    difference, percent = sides.difference, sides.percent
    by = f" ({difference:+,}{f', {percent:+} %' if percent is not None else ''})" if difference is not None else ""
    return f"{shown(sides.before)} -> {shown(sides.after)}{by}"


def moved_line(version: PublishedVersion, moved: Mapping[str, Sides]) -> str:
    """A version in one line: its name, its measures as they moved, and why it was published."""
    measures = ", ".join(f"{name} {sides_text(sides)}" for name, sides in moved.items())
    restated = version.restated_on == version.published_at and version.restatement_reason
    return f"{version.name}  {version.state.value}: {measures}  [{restated or version.reason.value}]"


def print_run(done: SingleRun, source: str) -> None:
    """Print what some files brought: rows, and each number that changed."""
    for message in done.held:
        errors.print(f"held: {message}", style="yellow", soft_wrap=True)
    known = f"; {done.known:,} known already" if done.known else ""
    known += f" ({done.again:,} delivered again, which counts as a new delivery)" if done.again else ""
    known += f"; {len(done.held):,} held" if done.held else ""
    known += f"; {done.left:,} left for now (being written, or not readable)" if done.left else ""
    broken = f", {done.malformed:,} of them malformed ('lakehouse account {source}' tells)" if done.malformed else ""
    out.print(f"{counted(done.rows)} ingested{broken}{known}.", highlight=False, soft_wrap=True)
    for change in done.changes[:_SHOWN]:
        out.print(moved_line(change.version, change.moved), highlight=False, markup=False, soft_wrap=True)
    if len(done.changes) > _SHOWN:
        out.print(f"and {len(done.changes) - _SHOWN:,} more", highlight=False)
    if not done.changes:
        out.print("No number changed.")
        return
    newest = done.changes[0].version
    out.print(f"\nIts history: lakehouse gold history {done.changes[0].metric} {newest.period}    The page: lakehouse serve")
