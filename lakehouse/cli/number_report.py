"""Published numbers as text for the terminal: values, and how they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion


def shown(value: object) -> str:
    """A value, a number with separators."""
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int | float) or hasattr(value, "quantize") else f"{value}"


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
