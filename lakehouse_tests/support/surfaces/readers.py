"""A reader for each surface: it parses what is printed or rendered, as a person or a program that has nothing else.

A reader takes the lake, its API and the number's metric and period, and gives what the surface says; None where it does not show
the number at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import duckdb
import duckdb_extension_delta
from deltalake import DeltaTable
from rich.console import Console

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.examples import demo_commands, simulation_results
from lakehouse.examples.simulation_commands import simulation_markdown
from lakehouse.gold.numbers import history as numbers_history
from lakehouse_tests.support.parsed_page import words
from lakehouse_tests.support.surfaces.said import Said

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from lakehouse_tests.support.surfaces.typed_lake import TypedLake

#: Reasons of revisions that take back nothing that was said; ``docs/publishing.md``.
_NO_RESTATEMENT = {"initial", "new_data", "daily_finalization"}
_STATES = {"Live (updating)": "live", "Preliminary": "preliminary", "Final": "final"}


@dataclass(frozen=True)
class Number:
    """A number of a lake, with what the readers need to reach it.

    :param as_of: the time as of which ``earlier_readers`` read it.
    """

    sample: TypedLake
    client: TestClient
    metric: str
    period: str
    as_of: str | None = None

    @property
    def by(self) -> Kind:
        """The kind of its period; a window belongs to a day."""
        return Kind.WEEK if "-W" in self.period else Kind.DAY

    @property
    def is_window(self) -> bool:
        """Whether it is the number of one window of a day."""
        return "T" in self.period

    @property
    def table(self) -> str:
        """The name of its table."""
        return f"{self.metric}{self.by.suffix}"

    @property
    def measures(self) -> list[str]:
        return [measure.name for measure in self.sample.catalog.metrics[self.metric].measures]

    def json(self, path: str, **parameters: Any) -> Any:
        """The JSON of a request to the API."""
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()

    def html(self, path: str, **parameters: Any) -> str:
        """A page."""
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.text

    def totals(self, rows: list[Mapping[str, Any]]) -> dict[str, Decimal]:
        """The sums over the rows of a number, of measures that add up; of one row all measures."""
        additive = self.sample.catalog.metrics[self.metric].additive
        names = [name for name in self.measures if name in additive or len(rows) == 1]
        return {name: sum((_number(row[name]) for row in rows if row[name] is not None), Decimal(0)) for name in names}


Reader = Callable[..., Said | None]


def _number(text: object) -> Decimal:
    return Decimal(f"{text}".replace(",", "").replace("+", ""))


def _without_reason(why: str | None) -> str:
    """The explanation of a restatement without the name of its reason before it."""
    return "" if why is None else re.sub(r"^[a-z_]+: ", "", why)


def _of_whole_periods(reader: Reader) -> Reader:
    """A reader of a surface that has no number of a single window."""

    @wraps(reader)
    def read(number: Number, **parameters: str) -> Said | None:
        return None if number.is_window else reader(number, **parameters)

    return read


def _minute(moment: object) -> str:
    return f"{moment}"[:16].replace("T", " ")


def delta_table(number: Number) -> Said:
    """A plain read of the table, as ``docs/reading.md`` shows it; the number of a period is what ``is_latest`` marks."""
    table = DeltaTable(f"{number.sample.lake.root}/gold/{number.table}").to_pyarrow_table()
    rows = [row for row in table.to_pylist() if row["period"] == number.period[:10]]
    if number.is_window:
        return _window_of(number, [row for row in rows if f"{row['window_start']:%Y-%m-%dT%H}" == number.period])
    newest = [row for row in rows if row["is_latest"]]
    booked = [row for row in rows if row["adjustment"] and row["revision"] == newest[0]["revision"]]
    head = newest[0]
    restated = {row["revision"] for row in rows if row["adjustment"] is None and row["reason"] not in _NO_RESTATEMENT}
    return Said(
        value=number.totals(newest),
        state=head["state"],
        reason=head["reason"],
        revision=f"r{head['revision']}",
        restated=len(restated),
        restated_on=_minute(head["restated_on"]) if head["restated_on"] else "",
        why=_without_reason(head["restatement_reason"]),
        adjusted=_added(number.totals(newest), number.totals(booked)) if booked else {},
    )


def _window_of(number: Number, rows: list[dict[str, Any]]) -> Said:
    """The table says of a window its values; the other columns are those of the day."""
    now = number.totals([row for row in rows if row["is_latest"]])
    booked = number.totals([row for row in rows if row["adjustment"]])
    return Said(value=now, adjusted=_added(now, booked) if any(row["adjustment"] for row in rows) else {})


def _added(*parts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: sum((part[name] for part in parts), Decimal(0)) for name in parts[0]}


def _values(line: str, names: list[str]) -> dict[str, Decimal]:
    """The values of a line such as ``revenue 40.00  sales 4  row_count 4``."""
    matched = {name: re.search(rf"(?:^|  ){name} (-?[\d.,]+)(?=  |$)", line.strip()) for name in names}
    return {name: _number(match[1]) for name, match in matched.items() if match}


def gold_show(number: Number, *options: str) -> Said:
    """``lakehouse gold show``."""
    lines = number.sample.typed("gold", "show", number.metric, number.period, *options).splitlines()
    name, state = lines[0].split()
    published = next(line for line in lines if line.startswith("  published "))
    restated = next((line for line in lines if re.match("  restated [0-9]", line)), "")
    adjusted = next((line for line in lines if "with its adjustments: " in line), "")
    rows = [
        matched
        for line in lines
        if re.match("  [a-z_]+ [^ ]", line) and "  row_count " in line and (matched := _values(line, number.measures))
    ]
    return Said(
        value=number.totals(list(rows)),
        state=state,
        reason=published.rpartition(": ")[2],
        revision=name.rpartition(".")[2],
        restated_on=restated[11:27],
        why=_without_reason(restated.partition(" UTC: ")[2]),
        waiting=tuple(
            line.strip().removeprefix("waits for: ") for line in lines if re.match("  (waits for|a newer number is held): ", line)
        ),
        adjusted=_values(adjusted.partition("adjustments: ")[2], number.measures),
        held=any("a newer number is held" in line for line in lines),
    )


def gold_show_json(number: Number, *options: str) -> Said:
    """``lakehouse gold show --json``."""
    shown = json.loads(number.sample.typed("gold", "show", number.metric, number.period, "--json", *options))
    return Said(
        value=number.totals(shown["rows"]),
        state=shown["state"],
        reason=shown["reason"],
        revision=f"r{shown['revision']}",
        restated_on=_minute(shown.get("restated_on", "")),
        why=_without_reason(shown.get("restatement_reason")),
        waiting=tuple(shown["waiting_for"]),
        adjusted={name: _number(value) for name, value in shown["adjusted"].items()},
        held=shown["held"] is not None,
    )


def gold_history(number: Number) -> Said:
    """``lakehouse gold history``: the version that it marks as the latest, and those before and after it."""
    text = number.sample.typed("gold", "history", number.metric, number.period)
    versions = re.findall(r"^(r[\d.a]+)  (\S+ \S+)  (\w+)(  \(latest\))?\n((?:    .*\n)+)", text, re.MULTILINE)
    versions_shown = [
        (label, when, state, bool(latest), _of_version(lines, number)) for label, when, state, latest, lines in versions
    ]
    label, _, state, _, (reason, _, value) = next(version for version in versions_shown if version[3])
    restating = [entry for entry in versions_shown if "a" not in entry[0] and entry[4][0] not in _NO_RESTATEMENT]
    booked = [entry for entry in versions_shown if entry[0].startswith(f"{label}.a")]
    return Said(
        value=value,
        state=state,
        reason=reason,
        revision=label,
        restated=len(restating),
        restated_on=restating[-1][1] if restating else "",
        why=restating[-1][4][1] if restating else "",
        adjusted=booked[-1][4][2] if booked else {},
        held="\nheld  " in text,
    )


def _of_version(lines: str, number: Number) -> tuple[str, str, dict[str, Decimal]]:
    """Of the lines below a version: its reason, what it included, and the values after it."""
    reason = re.match(r"    ([a-z_]+)(?:: (.*?))?(?:, [\d,]+ (?:changed )?rows?)?(?:, booked to \S+)?\n", lines)
    assert reason, lines
    values = re.findall(r"^    (\w+): (?:\S+ -> )?(-?[\d.,]+)(?: |$)", lines, re.MULTILINE)
    return reason[1], reason[2] or "", {name: _number(value) for name, value in values if name in number.measures}


def gold_diff(number: Number) -> Said:
    """``lakehouse gold diff METRIC PERIOD``: from the first number to the newest; what was booked elsewhere is not in it."""
    return _of_comparison(number, "diff", "value")


def gold_compare(number: Number) -> Said:
    """``lakehouse gold compare METRIC PERIOD``: from the first number to the final one with its adjustments."""
    return _of_comparison(number, "compare", "adjusted")


def _of_comparison(number: Number, command: str, field: str) -> Said:
    text = number.sample.typed("gold", command, number.metric, number.period)
    sums = re.findall(r"(\w+) (?:-?[\d.,]+ -> (-?[\d.,]+) \(|stays (-?[\d.,]+))", text.splitlines()[0])
    totals = {name: _number((moved or stays).rstrip(".")) for name, moved, stays in sums}
    if not totals:
        return Said()  # a measure that does not add up has no sum
    if field == "adjusted" and ".a" not in text:
        return Said(value=totals)
    return Said(**{field: totals})  # type: ignore[arg-type]


def api_number(number: Number, **parameters: str) -> Said:
    """``GET /metrics/{name}``."""
    shown = number.json(f"/metrics/{number.metric}", window=number.period, **parameters)
    return Said(
        value=number.totals(shown["result"]),
        state=shown["state"],
        reason=shown["reason"],
        revision=shown["version"],
        restated_on=_minute(shown["restated_on"] or ""),
        why=_without_reason(shown["restatement_reason"]),
        waiting=tuple(shown["waiting_for"]),
        adjusted={name: _number(value) for name, value in shown["adjusted"].items()},
        held=shown["held"] is not None,
    )


def api_history(number: Number) -> Said:
    """``GET /metrics/{name}/history``."""
    versions = number.json(f"/metrics/{number.metric}/history", window=number.period)["versions"]
    newest = next(version for version in versions if version["is_latest"])
    restating = [entry for entry in versions if entry["adjustment"] is None and entry["reason"] not in _NO_RESTATEMENT]
    booked = [entry for entry in versions if entry["adjustment"] and entry["revision"] == newest["revision"]]
    return Said(
        value={name: _number(sides["after"]) for name, sides in newest["moved"].items()},
        state=newest["state"],
        reason=newest["reason"],
        revision=newest["version"],
        restated=len(restating),
        restated_on=_minute(newest["restated_on"] or ""),
        why=_without_reason(newest["restatement_reason"]),
        adjusted={name: _number(sides["after"]) for name, sides in booked[-1]["moved"].items()} if booked else {},
    )


def api_compare(number: Number) -> Said:
    """``GET /metrics/{name}/compare`` without versions: the first number against the final one with its adjustments."""
    shown = number.json(f"/metrics/{number.metric}/compare", window=number.period)
    totals = {name: _number(sides["after"]) for name, sides in shown["totals"].items()} or None
    return Said(adjusted=totals) if ".a" in shown["version_b"]["version"] else Said(value=totals)


def api_first(number: Number) -> Said:
    """The side of ``/compare`` that says what was published first, against the same in the history."""
    shown = number.json(f"/metrics/{number.metric}/compare", window=number.period)
    first = number.json(f"/metrics/{number.metric}/history", window=number.period)["versions"][0]
    assert shown["version_a"]["version"] == first["version"], "it compares with what was published first"
    for name, sides in shown["totals"].items():
        assert sides["before"] == first["moved"][name]["after"], f"{name} of {number.period}: {sides}"
    return Said()


@_of_whole_periods
def api_series(number: Number, **parameters: str) -> Said | None:
    """``GET /metrics/{name}/series``."""
    asked = {"start": "2024-10-01", "end": "2024-12-31", "by": number.by.value, **parameters}
    points = number.json(f"/metrics/{number.metric}/series", **asked)["points"]
    shown = next(point for point in points if point["window"] == number.period)
    return Said(value=number.totals(shown["result"]), state=shown["state"], revision=shown["version"])


@_of_whole_periods
def api_lineage(number: Number) -> Said:
    """``GET /lineage/{name}/{period}``."""
    shown = number.json(f"/lineage/{number.metric}/{number.period}")
    return Said(state=shown["state"], revision=shown["version"])


@_of_whole_periods
def api_restatements(number: Number) -> Said:
    """``GET /data-quality/restatements``: each restatement by itself, adjustments among them."""
    span = {"start_date": "2024-10-01", "end_date": "2024-12-31", "limit": 400, "metric": number.metric, "by": number.by.value}
    every = number.json("/data-quality/restatements", **span)["restatements"]
    restating = [entry for entry in every if entry["window"] == number.period and entry["booked_on"] is None]
    newest = max(restating, key=lambda entry: entry["restated_on"], default=None)
    return Said(
        restated=len(restating),
        restated_on=_minute(newest["restated_on"]) if newest else "",
        why=_without_reason(newest["restatement_reason"]) if newest else "",
    )


def _badges(html: str) -> int:
    """How often the badge beside a state says that it was restated."""
    matched = re.search(r'class="badge" title="[^"]*">restated(?: (\d+) times)?<', html)
    return 0 if matched is None else int(matched[1] or 1)


def _state(html: str) -> str:
    matched = re.search(r'<span class="state state-\w+">([^<]+)</span>', html)
    assert matched, html
    return _STATES[matched[1]]


@_of_whole_periods
def story_page(number: Number) -> Said:
    """``/page/metrics/{name}/{period}``: its head."""
    page = number.html(f"/page/metrics/{number.metric}/{number.period}")
    head = page.partition('<div class="head">')[2].partition("<section>")[0]
    text = words(head)
    figures = re.findall(r'data-measure="(\w+)">(-?[\d.,]+)<', head)
    adjusted = re.search(r"adjustments? it amounts to (.*?)\.(?: |$)", text)
    amounts = re.findall(r"(\w+) (-?[\d.,]+)(?:,|$)", adjusted[1]) if adjusted else []
    last = re.search(r"It was restated (once|\d+ times), last (\S+ \S+)\.", text)
    counted = 0 if last is None else 1 if last[1] == "once" else int(last[1].split()[0])
    assert counted == _badges(head), f"the badge and the sentence of {number.period} say the same"
    assert (counted == 0) == ("It has not changed" in text or "was not restated" in text), text
    revision = re.search(r"(r\d+), published", text)
    assert revision
    waiting = re.search(r'(?s)<ul class="waits">(.*?)</ul>', head)
    return Said(
        value={name: _number(value) for name, value in figures},
        state=_state(head),
        revision=revision[1],
        restated=counted,
        restated_on=last[2] if last else "",
        waiting=tuple(words(item) for item in re.findall(r"(?s)<li>(.*?)</li>", waiting[1])) if waiting else (),
        adjusted={name: _number(value) for name, value in amounts},
        held="A newer number is held back" in text,
    )


@_of_whole_periods
def story_steps(number: Number) -> Said:
    """``/page/metrics/{name}/{period}``: its list of revisions, newest first."""
    page = number.html(f"/page/metrics/{number.metric}/{number.period}")
    steps = re.findall(r'(?s)<li id="(r[\d.a]+)">\n(.*?)\n</li>', page)
    versions_shown = [
        (label, words(body.partition("</h3>")[0]), words(re.sub(r"(?s)<details>.*?</details>", "", body)))
        for label, body in steps
    ]
    newest = next(entry for entry in versions_shown if ".a" not in entry[0])
    restating = [entry for entry in versions_shown if re.search(r"\brestated\b", entry[1])]
    why = (
        re.search(
            r"[a-z_ ]+: (.*?)\. (?:Signed off|Booked|What its|\d|No change|The rows)", f"{restating[0][2]} 0", re.IGNORECASE
        )
        if restating
        else None
    )
    table = page.partition("The numbers as a table")[2]
    reason = re.search(rf'<th scope="row">{newest[0]}</th>.*?<td>([^<]*)</td></tr>', table)
    when = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", restating[0][1]) if restating else None
    return Said(
        state=_STATES[next(name for name in _STATES if name in newest[1])],
        reason=reason[1].replace(" ", "_") if reason else None,
        revision=newest[0],
        restated=len(restating),
        restated_on=when[0] if when else "",
        why=why[1] if why else "" if not restating else None,
    )


@_of_whole_periods
def metric_page(number: Number) -> Said:
    """``/page/metrics/{name}``: the line of the period."""
    page = number.html(f"/page/metrics/{number.metric}", by=number.by.value)
    row = re.search(rf'(?s)<tr id="p{number.period}">(.*?)</tr>', page)
    assert row
    measures = re.findall(r'<th scope="col" class="num">([^<]+)</th>', page)[:-1]
    cells = re.findall(r'(?s)<td class="num">(.*?)</td>', row[1])
    small = {name: re.search(r"adjusted (-?[\d.,]+)<", cell) for name, cell in zip(measures, cells)}
    label = re.findall(r"<td>(r\d+)<small>", row[1])
    shown = {name: cell.partition("<")[0] for name, cell in zip(measures, cells)}
    return Said(
        value={name: _number(value) for name, value in shown.items() if value},
        state=_state(row[1]),
        revision=label[0],
        restated=_badges(row[1]),
        adjusted={name: _number(matched[1]) for name, matched in small.items() if matched},
    )


@_of_whole_periods
def version_page(number: Number) -> Said:
    """``/page/metrics/{name}/{period}/{label}`` of the newest revision."""
    label = story_page(number).revision
    page = number.html(f"/page/metrics/{number.metric}/{number.period}/{label}")
    return Said(state=_state(page), revision=re.search(r"<h1>.*?(r\d+)", page, re.DOTALL)[1])  # type: ignore[index]


@_of_whole_periods
def overview_page(number: Number) -> Said | None:
    """``/``: the card of the metric, if the period is its newest one."""
    page = number.html("/")
    matched = re.search(rf'(?s)<section class="card" id="{number.metric}">(.*?)</section>', page)
    if (
        matched is None
        or f'/page/metrics/{number.metric}/{number.period}"'
        not in matched[1].partition("</p>")[0] + matched[1].partition("<dl")[0]
    ):
        return None
    card, text = matched[1], words(matched[1])
    last = re.search(r"Restated last (\S+ \S+?)(?:: (.*?))?\. ", text)
    waiting = re.search(r'(?s)<ul class="waits">(.*?)</ul>', card)
    label = re.search(r"as (r\d+)\.", text)
    return Said(
        value={name: _number(value) for name, value in re.findall(r'data-measure="(\w+)">(-?[\d.,]+)<', card)},
        state=_state(card),
        revision=label[1] if label else None,
        restated=_badges(card),
        restated_on=last[1] if last else "",
        why=(last[2] or "") if last else "",
        waiting=tuple(words(item) for item in re.findall(r"(?s)<li>(.*?)</li>", waiting[1])) if waiting else (),
        held="A newer number is held back" in text,
    )


@_of_whole_periods
def status(number: Number) -> Said | None:
    """``lakehouse status``: the line of the metric, if the period is its newest one."""
    lines = number.sample.typed("status").splitlines()
    shown = rf"{number.metric}  {number.period}  (?P<label>[^,:]+)(?:, restated (?P<restated>\d+) times?)?: (?P<totals>.*)"
    matched = {at: found for at, line in enumerate(lines) if (found := re.fullmatch(shown, line))}
    if not matched:
        return None
    ((at, line),) = matched.items()
    below = list(takewhile(lambda text: text.startswith("  "), lines[at + 1 :]))
    values = re.findall(r"(?:^|, )(\w+)( adjusted)? (-?[\d.,]*\d)(?=,|$)", line["totals"])
    return Said(
        value={name: _number(value) for name, adjusted, value in values if not adjusted},
        state=line["label"].split()[0].lower(),
        restated=int(line["restated"] or 0),
        adjusted={name: _number(value) for name, adjusted, value in values if adjusted},
        held=any("A newer number is held back by " in text for text in below),
    )


@_of_whole_periods
def status_json(number: Number) -> Said | None:
    """``lakehouse status --json``."""
    metrics = json.loads(number.sample.typed("status", "--json"))["metrics"]
    (shown,) = (metric for metric in metrics if metric["name"] == number.metric)
    if shown["period"] != number.period:
        return None
    return Said(
        value={name: _number(value) for name, value in shown["totals"].items() if value is not None},
        state=shown["state"],
        revision=shown["version"],
        restated=shown["restated"],
        waiting=tuple(shown["waiting_for"]),
        adjusted={name: _number(value) for name, value in shown["adjusted"].items() if value is not None},
    )


@_of_whole_periods
def restated_page(number: Number) -> Said:
    """``/page/restated``: the lines about the period in all weeks."""
    matched: list[tuple[str, str, str]] = []
    for through in ("2024-11-03", "2024-11-10", "2024-11-17", "2024-11-24", "2024-12-01"):
        page = number.html("/page/restated", through=through)
        for line in re.findall(r'(?s)<tr role="row"><td role="cell">.*?</tr>', page):
            if label := re.search(rf'"/page/metrics/{number.metric}/{number.period}#(r[\d.a]+)"', line):
                why = re.search(r"(?s)<small>([^<]*)</small></td></tr>", line)
                when = re.search(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", line)
                matched.append((when[0] if when else "", label[1], words(why[1]) if why else ""))
    restating = sorted(entry for entry in matched if ".a" not in entry[1])
    return Said(
        restated=len(restating) if number.by is Kind.DAY else None,
        why=(restating[-1][2] if restating else "") if number.by is Kind.DAY else None,
    )


def duckdb_rows(number: Number, query: str) -> list[dict[str, Any]]:
    """What a query of the views gives in DuckDB."""
    folder = number.sample.folder / "views"
    if not folder.exists():  # they hold no data
        number.sample.typed("views", "--to", f"{folder}")
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    text = next(folder.glob("duckdb*")).read_text().replace("INSTALL delta;", "").replace("LOAD delta;", f"LOAD '{extension}';")
    with duckdb.connect() as connection:
        connection.execute(text)
        asked = connection.execute(query)
        names = [column[0] for column in asked.description]
        return [dict(zip(names, row)) for row in asked.fetchall()]


@_of_whole_periods
def duckdb_view(number: Number) -> Said:
    """``NAME_latest`` in DuckDB, from the file that ``lakehouse gold views`` writes."""
    rows = duckdb_rows(number, f"SELECT * FROM {number.table}_latest WHERE period = '{number.period}'")
    head = rows[0]
    return Said(
        value=number.totals(list(rows)),
        state=head["state"],
        reason=head["reason"],
        revision=f"r{head['revision']}",
        restated_on=_minute(head["restated_on"]) if head["restated_on"] else "",
        why=_without_reason(head["restatement_reason"]),
    )


@_of_whole_periods
def demo_table(number: Number) -> Said | None:
    """The demo's long table, made of this lake."""
    if number.by is not Kind.DAY or number.measures[0] != "revenue":
        return None
    lake, series = number.sample.lake, Series(number.sample.catalog.metrics[number.metric])
    known = numbers_history.history(lake, series)
    printed = StringIO()
    days = {day: numbers_history.standing(series, versions) for day, versions in sorted(known.items())}
    table = demo_commands.long_table(days)
    table.padding = (0, 2)  # narrow terminals have one blank between columns
    Console(file=printed, width=200).print(table)
    rows = [re.split(r" {2,}", line.strip()) for line in printed.getvalue().splitlines()]
    at = next(place for place, row in enumerate(rows) if row[0] == number.period)
    following = [row for row in rows[at + 1 :] if row and row[0]]
    of_day = [rows[at]]
    for row in following:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", row[0]) or row[0].startswith("─"):
            break
        of_day.append(["", "", "", "", "", *row])
    moves = [row[5:] for row in of_day if row[5] != "never"]
    restating = [" ".join(move) for move in moves if "is booked to" not in " ".join(move)]
    return Said(
        value={"revenue": _number(rows[at][3])},
        state=rows[at][1],
        restated=len(restating),
        why=re.sub(r"^[A-Z][a-z]{2} +\d+ +", "", restating[-1]) if restating else "",
    )


@_of_whole_periods
def demo_short_table(number: Number) -> Said | None:
    """The demo's first table, made of this lake: the five days that changed most."""
    if number.by is not Kind.DAY or number.measures[0] != "revenue":
        return None
    lake, series = number.sample.lake, Series(number.sample.catalog.metrics[number.metric])
    known = numbers_history.history(lake, series)
    table = demo_commands.short_table({day: numbers_history.standing(series, versions) for day, versions in known.items()})
    table.padding = (0, 2)
    printed = StringIO()
    Console(file=printed, width=200).print(table)
    rows = [re.split(r" {2,}", line.strip()) for line in printed.getvalue().splitlines()]
    of_day = next((row for row in rows if row[0] == number.period), None)
    if of_day is None:
        return None
    _, state, _, now, _, restated, *why = of_day
    return Said(value={"revenue": _number(now)}, state=state, restated=int(restated), why=why[0] if why else "")


@_of_whole_periods
def simulation_table(number: Number) -> Said | None:
    """The table of the first measure in the report of a simulation, made of this lake."""
    metric = number.sample.catalog.metrics[number.metric]
    if number.by is not Kind.DAY or metric.is_derived or metric.event_window is not None:
        return None
    lake, source = number.sample.lake, number.sample.catalog.sources[metric.source]
    made = simulation_results.simulation(lake, Series(metric), source, "report", {}, lake.now())
    measure = next((name for name in number.measures if name in made.measures), None)
    section = simulation_markdown(made).partition(f"## {measure}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| 2")]
    day = next((row for row in rows if row[0] == number.period), None)
    if measure is None or day is None:
        return None
    return Said(value={measure: _number(day[3])}, revision=f"r{day[6]}")


@_of_whole_periods
def closing_line(number: Number) -> Said | None:
    """The line that ``lakehouse run`` printed last of the number, if no later command changed it."""
    shown = re.escape(f"{number.table}_v{number.period}.")
    lines = [
        matched
        for line in number.sample.closing_lines
        if (matched := re.match(rf"{shown}(r[\d.a]+)  (\w+): (.*)  \[(\w+)(?:: (.*))?\]", line))
    ]
    if not lines:
        return None
    label, state, moved, reason, _ = lines[-1].groups()
    newest = delta_table(number)
    sums = re.findall(r"(\w+) (?:-?[\d.,]+ -> )?(-?[\d.,]+?)(?: \(|, |$)", re.sub(r"\([^)]*\)", "(", moved))
    values = {name: _number(value) for name, value in sums}
    if ".a" in label:
        return Said(adjusted=values, state=state)
    return Said(value=values, state=state, reason=reason, revision=label) if label == newest.revision else None


@_of_whole_periods
def dagster_metadata(number: Number) -> Said | None:
    """The newest materialization of the period that has a version, in Dagster."""
    key = dg.AssetKey(["gold", number.table])
    rows = DeltaTable(f"{number.sample.lake.root}/gold/{number.table}").to_pyarrow_table().to_pylist()
    first = next(row for row in rows if row["period"] == number.period)
    by = next(name for name in ("event_date", "week_start", "period_start") if name in first)
    with dg.DagsterInstance.get() as instance:
        records = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=key, asset_partitions=[f"{first[by]}"]), limit=100
        ).records
    made = [record.asset_materialization.metadata for record in records if record.asset_materialization]
    values = [{name: value.value for name, value in metadata.items()} for metadata in made]
    versions = [entry for entry in values if "version" in entry]
    newest = delta_table(number)
    shown = next((entry for entry in versions if f"{entry['version']}".endswith(f".{newest.revision}")), None)
    restating = sum(bool(entry["restated"]) for entry in versions if ".a" not in f"{entry['version']}")
    is_ours = len({f"{entry['version']}" for entry in versions if ".a" not in f"{entry['version']}"}) == int(
        f"{newest.revision}"[1:]
    )
    return Said(
        state=None if shown is None else f"{shown['state']}",
        reason=None if shown is None else f"{shown['reason']}",
        revision=None if shown is None else f"{shown['version']}".rpartition(".")[2],
        restated=restating if is_ours else None,  # a command published a revision without Dagster,
    )


@_of_whole_periods
def notices(number: Number) -> Said | None:
    """The notices about the number, as ``lakehouse alerts notices --json`` lists them: one for each restatement."""
    if not number.sample.catalog.metrics[number.metric].consumers:
        return None
    entries = [json.loads(line) for line in number.sample.typed("notices", "--json").splitlines()]
    versions_shown = [
        (notice["data"]["published_at"], entry)
        for notice in entries
        for entry in notice["data"].get("restated", ())
        if notice["data"].get("series") == number.table and entry["period"] == number.period
    ]
    restating = sorted((when, entry["explanation"]) for when, entry in versions_shown if entry["booked_on"] is None)
    booked = [entry for _, entry in versions_shown if entry["booked_on"] is not None]
    return Said(
        restated=len(restating),
        restated_on=_minute(restating[-1][0]) if restating else "",
        why=_without_reason(restating[-1][1]) if restating else "",
        adjusted={entry["measure"]: _number(entry["after"]) for entry in booked[-1]["measures"] if entry["after"]}
        if booked
        else {},
    )


def spark_view(spark: Any) -> Reader:
    """``NAME_latest`` in Spark, from the file that ``lakehouse gold views`` writes."""

    @_of_whole_periods
    def read(number: Number) -> Said:
        folder = number.sample.folder / "views"
        number.sample.typed("views", "--to", f"{folder}")
        name = f"{number.table}_latest"
        for statement in next(folder.glob("spark*")).read_text().split(";\n"):
            if re.search(rf"VIEW {name} ", statement):
                spark.sql(re.sub("^.*?CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMP VIEW", statement, flags=re.DOTALL))
        rows = [row.asDict() for row in spark.sql(f"SELECT * FROM {name} WHERE period = '{number.period}'").collect()]
        head = rows[0]
        why = _without_reason(head["restatement_reason"])
        return Said(number.totals(list(rows)), head["state"], head["reason"], f"r{head['revision']}", why=why)

    return read


READERS: dict[str, Reader] = {
    "the table": delta_table,
    "gold show": gold_show,
    "gold show --json": gold_show_json,
    "gold history": gold_history,
    "gold diff": gold_diff,
    "gold compare": gold_compare,
    "GET /metrics": api_number,
    "GET /history": api_history,
    "GET /compare": api_compare,
    "GET /compare (first)": api_first,
    "GET /series": api_series,
    "GET /lineage": api_lineage,
    "GET /restatements": api_restatements,
    "the page of the number": story_page,
    "its list of revisions": story_steps,
    "the page of the metric": metric_page,
    "the page of the revision": version_page,
    "the overview": overview_page,
    "status": status,
    "status --json": status_json,
    "the page of restatements": restated_page,
    "the DuckDB view": duckdb_view,
    "the demo's table": demo_table,
    "the demo's first table": demo_short_table,
    "the simulation's table": simulation_table,
    "run's closing line": closing_line,
    "Dagster": dagster_metadata,
    "notices": notices,
}
