"""The backtest of a model version: the selection of the rows, the record of the result, and the report with its charts.

The rows are computed like those of a training set, in both readings: with features as known at the event, and as corrected since.
The labels are those known now, or those known at a given time. The report is Markdown, an HTML page, and JSON; its charts show a
measure of both versions month by month, with intervals. The comparison of the versions belongs to ``comparison``, the evaluation
of the acceptance rules to ``backtest_log``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from math import isnan
from typing import TYPE_CHECKING, Any

from lakehouse import locations, object_store
from lakehouse.calendar.days import span
from lakehouse.errors import LakehouseError
from lakehouse.models import backtest_log, scores
from lakehouse.models.backtest_log import READINGS, Backtest, BacktestResult, reading_result
from lakehouse.models.comparison import LEVEL, RESAMPLES, scored_pair
from lakehouse.reports import formatting
from lakehouse.reports.formatting import escape, table
from lakehouse.reports.templates import COLOURS, HEIGHT, Chart, chart, frame, label, page, short, values
from lakehouse.text import format_moment
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import ReadingResult
    from lakehouse.models.comparison import ComparedMeasure, ComparedPart, IntervalEstimate
    from lakehouse.models.scores import LoadedVersion


#: All backtests use the same seed, so that the same command gives the same report.
SEED = 20_241
_MONTH = re.compile(r"((?:19|20|21)\d\d)-(0[1-9]|1[0-2])")


class BacktestError(LakehouseError):
    """A backtest that is not possible. The message names the remedy."""


@dataclass(frozen=True)
class BacktestRequest:
    """The versions to compare, and the months of the events; months are such as ``2024-10``, and the last one is included."""

    version: str
    against: str
    first_month: str
    last_month: str


def backtest(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    request: BacktestRequest,
    *,
    by: str,
    known_at: datetime | None = None,
) -> Backtest:
    """Compare two versions on the events of a range of months, store the report with ``version``, and record the result.

    A repeated call returns the recorded backtest, unless the rows have changed.

    :param known_at: the time whose knowledge the rows contain; default: now.
    :raises BacktestError: if a text is not a month, both versions are the same, or the months have no labelled event.
    :raises ReleaseError: for a version that does not exist.
    """
    from lakehouse.training_sets import events, records  # noqa: PLC0415 (Spark loads in a second)

    months = checked_request(lake, contract, request)
    versions = [scores.load(lake, catalog, contract, name) for name in (request.against, request.version)]
    of_set = catalog.training_sets[contract.training_set]
    days = records.Span(_first_day(request.first_month), _day_after(request.last_month))
    rows = {
        reading: events.labelled(spark, lake, catalog, of_set, days, reading, known_at)
        for reading in ("as_known", "as_corrected")
    }
    result = compared(catalog, contract, rows, versions[0], versions[1], months)
    return recorded(lake, result, months, by=by, known_at=known_at or lake.now())


def checked_request(lake: Lake, contract: ModelContract, request: BacktestRequest) -> list[str]:
    """Validate a request for a backtest and return its months, without Spark and MLflow.

    :raises BacktestError: if a text is not a month, or both versions are the same.
    :raises ReleaseError: for a version that does not exist.
    """
    months = months_between(request.first_month, request.last_month)
    if request.version == request.against:
        msg = f"{request.version} cannot be compared with itself; name another version with --against"
        raise BacktestError(msg)
    for name in (request.version, request.against):
        releases.find(lake, ReleaseKind.MODEL, contract.name, name)
    return months


def compared(
    catalog: Catalog,
    contract: ModelContract,
    rows: Mapping[str, pa.Table],
    champion: LoadedVersion,
    challenger: LoadedVersion,
    months: list[str],
    *,
    resamples: int = RESAMPLES,
) -> BacktestResult:
    """Compare two versions on the rows of each reading.

    :param rows: by reading, as ``events.labelled`` gives them.
    :raises BacktestError: if there are no rows.
    :raises MissingFeatureError: if a version was trained on a column that the rows do not have.
    """
    of_set = catalog.training_sets[contract.training_set]
    if not len(rows[of_set.reading]):
        maturity = of_set.label.maturity.days
        msg = (
            f"no event of {of_set.entity.source} from {months[0]} to {months[-1]} has a label that is believed "
            f"({maturity} days after the event): there is nothing to compare {challenger.version} and {champion.version} on"
        )
        raise BacktestError(msg)
    zone = catalog.sources[of_set.entity.source].clocks.timezone
    features = [rule.by for rule in contract.acceptance if rule.by is not None]
    readings = {}
    for name in READINGS:
        pair = scored_pair(rows[name], champion.scores(rows[name]), challenger.scores(rows[name]), zone, features)
        readings[name] = reading_result(contract, contract.acceptance, pair, months, resamples=resamples, seed=SEED)
    seen = {version.version: version.rows_learned(rows[of_set.reading]) for version in (champion, challenger)}
    return BacktestResult(
        model=contract.name,
        version=challenger.version,
        against=champion.version,
        judged=of_set.reading,
        readings=readings,
        resamples=resamples,
        seed=SEED,
        rules=contract.rules,
        seen={version: count for version, count in seen.items() if count},
    )


def recorded(lake: Lake, result: BacktestResult, months: list[str], *, by: str, known_at: datetime) -> Backtest:
    """Store the report and record a backtest. If the newest backtest of the same months has the same result, return that one."""
    log = backtest_log.log(lake)
    while True:
        known = [entry for entry in backtest_log.backtests_of(lake, result.model) if _is_of(entry, result, months)]
        same = [entry for entry in known if entry.results == result.stored() and entry.recorded_at == known[-1].recorded_at]
        if same:
            return same[0]
        entry = _entry(lake, result, months, by, known_at)
        _keep(lake, entry, result)
        log.append([entry], app_id=f"{_name(result, months)}:{len(known)}")  # of two concurrent backtests, the first counts


def months_between(first_month: str, last_month: str) -> list[str]:
    """The months from ``first_month`` to ``last_month``.

    :raises BacktestError: if a text is not a month, or the last month is before the first.
    """
    first, until = _first_day(first_month), _day_after(last_month)
    if first >= until:
        msg = f"the months end before they begin: {first_month} to {last_month}; exchange --from and --to"
        raise BacktestError(msg)
    return list(dict.fromkeys(f"{day:%Y-%m}" for day in span(first, until) if day < until))


def _first_day(month: str) -> date:
    matched = _MONTH.fullmatch(month)
    if matched is None:
        msg = f"{month!r} is no month; write it as 2024-10"
        raise BacktestError(msg)
    return date(int(matched[1]), int(matched[2]), 1)


def _day_after(month: str) -> date:
    first = _first_day(month)
    return date(first.year + first.month // 12, first.month % 12 + 1, 1)


def _is_of(entry: Backtest, result: BacktestResult, months: list[str]) -> bool:
    recorded_as = (entry.version, entry.against, entry.first_month, entry.last_month)
    return recorded_as == (result.version, result.against, months[0], months[-1])


def _name(result: BacktestResult, months: list[str]) -> str:
    return f"backtest:{result.model}:{result.version}:{result.against}:{months[0]}:{months[-1]}"


def _entry(lake: Lake, result: BacktestResult, months: list[str], by: str, known_at: datetime) -> Backtest:
    folder = locations.model_reports(lake, result.model, result.version)
    return Backtest(
        model=result.model,
        version=result.version,
        against=result.against,
        first_month=months[0],
        last_month=months[-1],
        known_at=known_at,
        passed=result.passed,
        failed=[verdict.text for verdict in result.failed],
        results=result.stored(),
        report=f"{folder}/backtests/{result.against}_{months[0]}_{months[-1]}_{result.content}",
        by=by,
        recorded_at=lake.now(),
    )


def _keep(lake: Lake, entry: Backtest, result: BacktestResult) -> None:
    """Write the report in its three formats. This precedes the log entry, so that no entry names a missing report."""
    title = f"{entry.model} {entry.title}"
    made = (
        f"Made at {format_moment(entry.recorded_at)} by {entry.by}, on {result.rows:,} events with what was known at "
        f"{format_moment(entry.known_at)}."
    )
    about: dict[str, Any] = {
        "first_month": entry.first_month,
        "last_month": entry.last_month,
        "known_at": entry.known_at.isoformat(),
        "passed": entry.passed,
        "failed": entry.failed,
        "by": entry.by,
        "recorded_at": entry.recorded_at.isoformat(),
    }
    forms = {
        "md": as_markdown(result, title, made),
        "html": as_html(result, title, made),
        "json": as_json(result, about),
    }
    for form, text in forms.items():
        object_store.write_text(lake.storage_options, f"{entry.report}/report.{form}", text)


#: The horizontal offset of the two versions from the middle of their month, in months.
_APART = 0.06
#: The margin before the first and after the last month, in months.
_MARGIN = 0.6


def chart_by_month(parts: Sequence[ComparedPart], measure: str) -> Chart:
    """The measure of champion and challenger with their intervals; a month without a value stays empty."""
    compared = [part.measure(measure) for part in parts]

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        _points(axes, [sides.champion for sides in compared], -_APART, "before", "s")
        _points(axes, [sides.challenger for sides in compared], _APART, "after", "o")
        axes.yaxis.set_major_formatter(short)
        frame(axes)
        label(axes, [part.name for part in parts], labels)
        axes.set_xlim(-_MARGIN, len(parts) - 1 + _MARGIN)  # two months fill the chart as well as twelve

    return chart(draw, height=HEIGHT)


def _points(axes: Axes, estimates: Sequence[IntervalEstimate], apart: float, colour: str, marker: str) -> None:
    at = [place + apart for place in range(len(estimates))]
    middle, low, high = (values([getattr(entry, side) for entry in estimates]) for side in ("value", "low", "high"))
    # An interval from resamples need not contain the value measured on all rows.
    down = [max(0.0, point - least) for point, least in zip(middle, low)]
    up = [max(0.0, most - point) for point, most in zip(middle, high)]
    axes.errorbar(at, middle, yerr=[down, up], fmt=marker, color=COLOURS[colour], ecolor=COLOURS[colour], capsize=3, markersize=5)


_HEADS = ("month", "rows", "labels 1", "measure")


def verdict_sentence(result: BacktestResult) -> str:
    """The outcome in a sentence."""
    verdicts = result.readings[result.judged].verdicts
    if not verdicts:
        return f"{result.model} has no acceptance rules; the numbers are for people to judge."
    missed = len(result.failed)
    if not missed:
        return f"{result.version} meets the acceptance rules against {result.against}."
    return f"{result.version} does not meet {formatting.counted(missed, 'acceptance rule')} against {result.against}."


def as_json(result: BacktestResult, about: dict[str, Any]) -> str:
    """The whole result for programs.

    :param about: further recorded facts about the backtest.
    """
    values = {"model": result.model, "version": result.version, "against": result.against, **about, **result.stored()}
    return json.dumps(values, indent=2, default=str, allow_nan=False) + "\n"


def as_markdown(result: BacktestResult, title: str, made: str) -> str:
    """The report as Markdown, for a pull request, a wiki or a plain text mail.

    :param made: a sentence with the time, the author and the rows of the backtest.
    """
    lines = [f"# {escape(title)}", "", escape(made), "", f"**{escape(verdict_sentence(result))}**", ""]
    lines += [line for remark in result.remarks for line in (f"Note: {escape(remark)}.", "")]
    for name, reading in result.readings.items():
        lines += [f"## Rows with {READINGS[name]}", ""]
        if name == result.judged:
            lines += ["The acceptance rules are judged on these rows.", ""]
        lines += [f"- {escape(verdict.text)}" for verdict in reading.verdicts] + ([""] if reading.verdicts else [])
        heads = [*_HEADS, result.against, result.version, "difference"]
        lines += table(heads, [row for part in _parts(reading) for row in _rows(part)], right=(heads[1], heads[2], *heads[4:]))
    lines += [escape(_about_intervals(result))]
    return "\n".join(lines).rstrip() + "\n"


def as_html(result: BacktestResult, title: str, made: str) -> str:
    """The report as a page in a single file, which loads nothing from elsewhere."""
    judged = result.readings[result.judged]
    drawn = [
        {
            "name": measure.name.replace("_", " "),
            "chart": chart_by_month(judged.comparison.months, measure.name),
            "alternative": f"{measure.name} by month: {_in_words(result, judged, measure.name)}.",
        }
        for measure in judged.comparison.total.measures
    ]
    readings = [
        {"words": READINGS[name], "is_judged": name == result.judged, "verdicts": reading.verdicts, "parts": _shown(reading)}
        for name, reading in result.readings.items()
    ]
    return page(
        "backtest",
        it=result,
        title=title,
        made=made,
        sentence=verdict_sentence(result),
        charts=drawn,
        readings=readings,
        about_intervals=_about_intervals(result),
    )


def with_interval(estimate: IntervalEstimate) -> str:
    """A number with its interval: ``0.8123 (0.7910 to 0.8345)``."""
    return " ".join(filter(None, _texts(estimate)))


def _texts(estimate: IntervalEstimate, sign: str = "") -> tuple[str, str]:
    """A number, and its interval in parentheses; the interval is empty if there is none."""
    if isnan(estimate.value):
        return "none", ""
    bounds = "" if isnan(estimate.low) else f"({estimate.low:{sign}.4f} to {estimate.high:{sign}.4f})"
    return f"{estimate.value:{sign}.4f}", bounds


def _parts(reading: ReadingResult) -> list[ComparedPart]:
    return [*reading.comparison.months, reading.comparison.total]


def _rows(part: ComparedPart) -> list[list[str]]:
    counts = [part.name, f"{part.rows:,}", "" if part.positives is None else f"{part.positives:,}"]
    return [
        [
            *(*counts, measure.name, with_interval(measure.champion), with_interval(measure.challenger)),
            " ".join(filter(None, _texts(measure.difference, "+"))),
        ]
        for measure in part.measures
    ]


def _shown(reading: ReadingResult) -> list[dict[str, Any]]:
    """The rows of the page's table, by part; ``better`` is True or False if the interval of the difference decides it."""
    return [
        {
            "part": part,
            "measures": [
                {
                    "name": measure.name.replace("_", " "),
                    "sides": [_texts(measure.champion), _texts(measure.challenger)],
                    "difference": _texts(measure.difference, "+"),
                    "better": _is_better(measure),
                }
                for measure in part.measures
            ],
        }
        for part in _parts(reading)
    ]


def _is_better(measure: ComparedMeasure) -> bool | None:
    apart = measure.difference
    if isnan(apart.low) or apart.low <= 0 <= apart.high:
        return None
    return measure.gain > 0


def _in_words(result: BacktestResult, reading: ReadingResult, name: str) -> str:
    of_months = [(part.name, part.measure(name)) for part in reading.comparison.months]
    return "; ".join(
        f"{month} {result.against} {with_interval(measure.champion)}, {result.version} {with_interval(measure.challenger)}"
        for month, measure in of_months
    )


def _about_intervals(result: BacktestResult) -> str:
    return (
        f"In brackets are {LEVEL:.0%} intervals from {result.resamples:,} resamples of the rows (seed {result.seed}); "
        "those of a difference are from the same resamples of both versions."
    )
