"""``/page/datasets/{name}/{version}``: the manifest of released labels or of a training set, with a summary of each column.

The distribution of a column is a small drawing, as SVG without a style; the page also gives the numbers in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.contracts import TrainingSetContract
from lakehouse.serving.page import PREFIX, respond
from lakehouse.serving.parameters import NoParameters
from lakehouse.training_sets.routes import DatasetName, ReleasedVersion, described

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import APIRouter

    from lakehouse.serving.published_cache import PublishedCache


_WIDTH, _HEIGHT, _GAP, _BARS, _NAMED = 160, 28, 2, 16, 3


@dataclass(frozen=True)
class ShownDistribution:
    """The summary of a column: a drawing, which may be empty, and a description."""

    drawing: str
    words: str


def shown_distribution(column: Mapping[str, Any]) -> ShownDistribution:
    """The distribution of a column from a training set's manifest."""
    if column.get("quantiles"):
        quantiles = [float(value) for value in column["quantiles"]]
        words = f"{column['min']:,.6g} to {column['max']:,.6g}, mean {column['mean']:,.4g}"
        return ShownDistribution(_bars(histogram(quantiles)), words)
    counts: Mapping[str, int] = column.get("frequent") or {}
    frequent = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    if not frequent:
        return ShownDistribution("", "no values")
    first = [f"{value} {count:,}" for value, count in list(frequent.items())[:_NAMED]]
    more = int(column.get("distinct", len(frequent))) - len(first)
    words = ", ".join(first) + (f" and {more:,} more" if more > 0 else "")
    return ShownDistribution(_bars(list(frequent.values())[:_BARS]), words)


def histogram(quantiles: Sequence[float], bars: int = _BARS) -> list[float]:
    """The share of values in intervals of equal width, between the second and the last but one of equally spaced quantiles.

    Between two quantiles, values count as evenly spread. Outliers beyond the range would compress all other values into one bar.
    """
    inner = quantiles[1:-1] if len(quantiles) > len("min, max, and one between") - 1 else list(quantiles)
    low, high = inner[0], inner[-1]
    if low == high:
        return [1.0]
    width, shares = (high - low) / bars, [0.0] * bars
    for first, last in pairwise(inner):
        begin, end = (min(int((value - low) / width), bars - 1) for value in (first, last))
        for place in range(begin, end + 1):
            left, right = low + place * width, low + (place + 1) * width
            overlap = 1.0 if first == last else (min(last, right) - max(first, left)) / (last - first)
            shares[place] += max(overlap, 0.0) / (len(inner) - 1)
    return shares


def _bars(heights: Sequence[float]) -> str:
    most = max(heights) or 1.0
    width = min(_WIDTH / len(heights), _HEIGHT)
    drawn = []
    for place, height in enumerate(heights):
        tall = max(round(_HEIGHT * height / most, 1), 0.5 if height else 0.0)
        drawn.append(f'<rect x="{place * width:.1f}" y="{_HEIGHT - tall:.1f}" width="{width - _GAP:.1f}" height="{tall:.1f}"/>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false" fill="var(--after)">{"".join(drawn)}</svg>'
    )


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/datasets/{name}/{version}")
    async def dataset(request: Request, name: DatasetName, version: ReleasedVersion, _: NoParameters) -> Response:
        values = await run_in_threadpool(described, cache.lake, name, version)
        manifest = values["manifest"]
        shown = {"it": values, "manifest": manifest, "columns": _columns(manifest), "times": in_time(manifest.get("time"))}
        return respond(request, "dataset", "overview", shown)


def in_time(parts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parts of a set with their time ranges, in order of time."""
    spans = {name: part for name, part in (parts or {}).items() if isinstance(part, dict)}
    return dict(sorted(spans.items(), key=lambda item: str(item[1].get("from"))))


def definition(feature: Mapping[str, Any] | None) -> str:
    """The definition of a feature, in words."""
    if not feature:
        return ""
    if "metric" in feature:
        return f"{feature['measure']} of the metric {feature['metric']}"
    if "dimension" in feature:
        return f"{feature['column']} of {feature['dimension']}"
    return f"{feature['sql']}, of {feature['source']}"


def _columns(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns for the page, in the order of the set; the label is last."""
    columns = manifest.get("columns") or {}
    if not columns:
        return []
    names = TrainingSetContract.model_validate(manifest["contract"]).features.names
    return [_column(name, columns[name], manifest) for name in [*names, "label"] if name in columns]


def _column(name: str, column: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    feature = manifest.get("features", {}).get(name)
    return {
        "name": name,
        "definition": definition(feature) or "the label",
        "contract_version": (feature or {}).get("contract_version"),
        "nulls": column["nulls"],
        "shown": shown_distribution(column),
    }
