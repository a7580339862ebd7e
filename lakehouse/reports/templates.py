"""The environment of the HTML templates: their folders and filters. Everything that is not markup is escaped."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from lakehouse.reports import formatting, svg
from lakehouse.text import format_duration

#: The templates of the reports, and those of the pages, which use the reports' style sheet.
_FOLDERS = ("reports/html", "serving/templates")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("lakehouse", folder) for folder in _FOLDERS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("plain", "number", "difference", "both", "percent", "version", "versions", "reason", "cell", "moment", "counted")
    environment.filters |= {name: getattr(formatting, name) for name in names}
    environment.filters |= {"cut": svg.cut, "bound": _bound, "seconds": _seconds, "span": format_duration}
    return environment


def _bound(text: str) -> str:
    """Keep percent signs and arrows on the line of their number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace("→ ", "→\N{NO-BREAK SPACE}")


def _seconds(count: int | None) -> str:
    """Seconds as a duration."""
    return "" if count is None else "0 s" if count <= 0 else format_duration(timedelta(seconds=count))


def text(name: str) -> str:
    """A template without variables, such as the style sheet."""
    return _environment().get_template(name).render()


def page(template: str, **values: Any) -> str:
    """A rendered page; it loads nothing from other hosts."""
    return _environment().get_template(f"{template}.html.j2").render(values)
