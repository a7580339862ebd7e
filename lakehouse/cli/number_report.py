"""Published numbers as text for the terminal: values and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import counted, out, print_left_out, print_unfinished

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.row_states import AdmissionStatus
    from lakehouse.orchestration.execution.single_run import SingleRun

_SHOWN, _MALFORMED = 20, 3


def shown(value: object) -> str:
    """A value as text, a number with separators."""
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int | float) or hasattr(value, "quantize") else f"{value}"


def row_text(row: Mapping[str, object], series: Series) -> str:
    """A row of a number in one line, with the name of its window."""
    from lakehouse.gold.numbers import window_history  # noqa: PLC0415 (Arrow loads in a second)

    named = window_history.named(row, series.metric)
    return "  ".join(f"{name} {shown(value)}" for name, value in named.items())


def sides_text(sides: Sides, version: PublishedVersion) -> str:
    """A number before and after, with the difference and the change in percent.

    :param version: the later one: a measure that does not add up has no total of several rows before it, and is not new.
    """
    if not sides.changed:
        return shown(sides.after)
    if sides.before is None:
        return f"{shown(sides.after)} (new)" if version.revision == 1 else shown(sides.after)
    difference, percent = sides.difference, sides.percent
    by = f" ({difference:+,}{f', {percent:+} %' if percent is not None else ''})" if difference is not None else ""
    return f"{shown(sides.before)} -> {shown(sides.after)}{by}"


def moved_line(version: PublishedVersion, moved: Mapping[str, Sides]) -> str:
    """A version in one line: its name, the changes of its measures, and its reason."""
    measures = ", ".join(f"{name} {sides_text(sides, version)}" for name, sides in moved.items()) or counted(len(version.rows))
    return f"{version.name}  {version.state.value}: {measures}  [{version.why}]"


def malformed_text(source: str, rows: int, reason: str | None) -> str:
    """The number of malformed rows, the reason for the first, and the command that lists them."""
    return f"{rows:,} malformed{f': {reason}' if reason else ''}; 'lakehouse rows {source} --malformed' lists them"


def print_unread(lake: Lake, contract: SourceContract, days: Collection[date] | None) -> None:
    """Print the number of unreadable rows that may belong to event days (default: any), if numbers wait for them."""
    from lakehouse.dispositions import unread  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.restatement.closing import unread_text  # noqa: PLC0415

    rows, example = unread.of_source(lake, contract, days).missing_of(days)
    if rows:
        out.print(f"{unread_text(contract.dataset, rows, example)}.", style="yellow", highlight=False, soft_wrap=True)


def not_admitted_text(source: str, counts: Mapping[tuple[AdmissionStatus, str], int]) -> str:
    """The rows that the contract does not admit: how many, why, and the command that shows more; empty if there are none."""
    words = {"quarantined": "waiting for a steward"}
    parts = [f"{rows:,} {words.get(status, status)} ({cause})" for (status, cause), rows in sorted(counts.items())]
    waits = any(status == "quarantined" for status, _ in counts)
    command = (
        f"'lakehouse quarantine list {source}' lists those that wait"
        if waits
        else f"'lakehouse source account {source}' counts them"
    )
    return f"{', '.join(parts)}; {command}" if parts else ""


def not_counted_text(
    source: str, malformed: int, reason: str | None, not_admitted: Mapping[tuple[AdmissionStatus, str], int]
) -> str:
    """The rest of a sentence about rows: those that cannot be read, and those that the contract does not admit."""
    parts = [malformed_text(source, malformed, reason)] if malformed else []
    parts += [not_admitted_text(source, not_admitted)] if not_admitted else []
    return f", {'; '.join(parts)}" if parts else ""


def print_malformed(lake: Lake, source: str, **which: Any) -> None:
    """Print the first malformed rows of a source with reason and raw text; see ``unread.malformed_tables`` for the arguments."""
    from lakehouse.dispositions import unread  # noqa: PLC0415 (Arrow loads in a second)

    rows = unread.few_malformed(lake, source, _MALFORMED + 1, **which)
    for row in rows[:_MALFORMED]:
        text = f"malformed: {row['source_file']}:{row['line_number']}: {row['malformed_reason']}"
        out.print(f"{text}: {row['raw_payload'] or '(redacted)'}", highlight=False, markup=False, soft_wrap=True)
    if len(rows) > _MALFORMED:
        out.print(f"'lakehouse rows {source} --malformed' lists all malformed rows.", soft_wrap=True)


def _print_replaced(done: SingleRun) -> None:
    """Print the effect on each event day, if a delivery replaces the rows of its days."""
    replaced = done.replaced
    if replaced is None or not replaced.rows:
        return
    for day, (before, after) in sorted(replaced.rows.items())[:_SHOWN]:
        how = f"{counted(after)}, new" if not before else f"overwritten, {counted(before)} before, {after:,} now"
        out.print(f"{day}: {how}", highlight=False)
    if len(replaced.rows) > _SHOWN:
        out.print(f"and {len(replaced.rows) - _SHOWN:,} more event days", highlight=False)
    if replaced.absent:
        from lakehouse.silver import replaced_days  # noqa: PLC0415 (Arrow loads in a second)

        out.print(replaced_days.absent_text(replaced.absent), style="yellow", soft_wrap=True)
    if replaced.untouched:
        out.print(
            f"{replaced.untouched:,} other event {'day' if replaced.untouched == 1 else 'days'}: untouched", highlight=False
        )


def print_run(done: SingleRun, source: str) -> None:
    """Print the result of ingesting files: rows, and each changed number."""
    print_unfinished("held", done.held)
    print_unfinished("left for now", done.left)
    print_left_out(done.left_out)
    known = f"; {done.known:,} known already" if done.known else ""
    known += f" ({done.again:,} delivered again, which counts as a new delivery)" if done.again else ""
    known += f"; {len(done.held):,} held" if done.held else ""
    known += f"; {len(done.left):,} left for now (being written, or not readable)" if done.left else ""
    more = not_counted_text(source, done.malformed, done.unread_reason, done.not_admitted)
    out.print(f"{counted(done.rows)} ingested{known}{more}.", highlight=False, soft_wrap=True)
    _print_replaced(done)
    for change in done.changes[:_SHOWN]:
        out.print(moved_line(change.version, change.moved), highlight=False, markup=False, soft_wrap=True)
    if len(done.changes) > _SHOWN:
        out.print(f"and {len(done.changes) - _SHOWN:,} more", highlight=False)
    if not done.changes:
        out.print("No number changed.")
        return
    newest = done.changes[0].version
    out.print(f"\nIts history: lakehouse gold history {done.changes[0].metric} {newest.period}", soft_wrap=True)
    out.print("The page: lakehouse serve")
