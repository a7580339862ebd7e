"""Makes a small project in a folder: contracts of an example, two of its files, settings, and the files for Dagster.

Here is also the text of contracts for people: an inferred source, and a first metric over it, as YAML with doubts as comments.
The files of a new project belong to the user; nothing reads them from here. Inferring a source belongs to ``inference``.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse.contracts.metric import Measure
from lakehouse.contracts.series import RESERVED
from lakehouse.errors import LakehouseError
from lakehouse.project import number_columns as measures_of
from lakehouse.project.column_types import field_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lakehouse.contracts.inputs import Source
    from lakehouse.project.inference import InferredSource

_ENV = """\
# The settings of this project; docs/settings.md lists all of them.
LAKEHOUSE_ROOT=lakehouse_data
LAKEHOUSE_CONTRACTS=contracts
LAKEHOUSE_BUNDLED_CONTRACTS=false
"""
_IGNORED = "lakehouse_data/\ndagster_home/*\n!dagster_home/dagster.yaml\n"
_DEFINITIONS = '''\
"""What the command dg loads: the tables of the contracts, and the definitions of your own in the folder defs."""

from pathlib import Path

import dagster as dg

from lakehouse.definitions import defs as lake


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions."""
    return dg.Definitions.merge(lake, dg.load_from_defs_folder(path_within_project=Path(__file__).parent))
'''
_ORDERS = """\
order_id,store,ordered_at,amount,op
1001,north,2024-11-04T09:12:00Z,120.00,insert
1002,north,2024-11-04T17:40:00Z,80.00,insert
1003,south,2024-11-05T10:05:00Z,45.50,insert
1004,south,2024-11-05T18:30:00Z,210.00,insert
1005,north,2024-11-06T11:00:00Z,99.90,insert
"""
_CORRECTED = """\
order_id,store,ordered_at,amount,op
1002,north,2024-11-04T17:40:00Z,112.00,correct
1006,south,2024-11-04T20:15:00Z,30.00,insert
1004,south,,,delete
"""


class ProjectError(LakehouseError):
    """The project cannot be created in the folder; nothing was written. The message names the conflicting file."""


#: Worked examples, by name: their folders among the templates, with the first commands.
EXAMPLES = {
    "orders": "lakehouse run contracts/orders.yaml samples/orders.csv",
    "late_arriving_reprocess": "lakehouse run contract.yaml events_run1.csv",
}


def create(folder: Path, example: str = "orders") -> list[Path]:
    """Write the files of a new project, or of a worked example.

    :param example: one of :data:`EXAMPLES`.
    :returns: the files, in reading order for a newcomer.
    :raises ProjectError: if one of the files exists, or the example is unknown.
    """
    if example not in EXAMPLES:
        raise ProjectError(f"there is no example {example!r}; known examples are {', '.join(EXAMPLES)}; nothing was written")
    templates = resources.files("lakehouse.project") / "templates"
    if example != "orders":
        own = sorted((file.name, file.read_text(encoding="utf-8")) for file in (templates / example).iterdir())
        env = _ENV.replace("LAKEHOUSE_CONTRACTS=contracts", "LAKEHOUSE_CONTRACTS=.")
        dagster = {"dagster_home/dagster.yaml": (templates / "dagster.yaml").read_text(encoding="utf-8")}
        return _written(folder, {**dict(own), ".env": env, **dagster, ".gitignore": _IGNORED})
    texts = {
        "contracts/orders.yaml": (templates / "orders.yaml").read_text(encoding="utf-8"),
        "contracts/orders_daily.yaml": (templates / "orders_daily.yaml").read_text(encoding="utf-8"),
        "samples/orders.csv": _ORDERS,
        "samples/orders_corrected.csv": _CORRECTED,
        ".env": _ENV,
        "workspace.yaml": (templates / "workspace.yaml").read_text(encoding="utf-8"),
        "dagster_home/dagster.yaml": (templates / "dagster.yaml").read_text(encoding="utf-8"),
        "dg.toml": (templates / "dg.toml").read_text(encoding="utf-8"),
        "deployment/definitions.py": _DEFINITIONS,
        "deployment/defs/__init__.py": '"""Definitions of your own, such as assets that follow the numbers."""\n',
        ".gitignore": _IGNORED,
    }
    return _written(folder, texts)


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    in_the_way = [name for name in texts if (folder / name).exists()]
    if in_the_way:
        msg = f"{folder / in_the_way[0]} exists: make the project in an empty folder; nothing was written"
        raise ProjectError(msg)
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


_UNBOUNDED = 10_000
_AFTER_CLOSE = "a final number stays; what changes it later is booked as an adjustment in the open day"
#: Keys of ``source`` that ``inference`` detects besides the format and the delimiter.
_WRITTEN = ("skip_lines", "comment", "array")


def dataset_of(file: str) -> str:
    """A dataset name for a file: ``sales`` for ``Sales_2024-11-05.csv.gz``."""
    stem = re.sub(r"^[\d\W_]+", "", file.rsplit("/", 1)[-1].split(".", maxsplit=1)[0])
    name = re.sub(r"_?\d+(_\d+)*$", "", field_names([stem])[stem]) if stem else ""
    return name or "events"


def source_text(dataset: str, files: Sequence[str], inferred: InferredSource, read_as: Source) -> str:
    """The contract of the source."""
    lines = [_comment(f"Inferred from {', '.join(files)} by 'lakehouse infer'. Check what is marked with a question mark.")]
    lines += [_comment(f"? {doubt}") for doubt in inferred.doubts]
    for question in inferred.questions:
        lines += [_comment(f"? {line}") for line in question.lines]
        lines += [_comment(f"? --yes took the default: {question.default}")]
    lines += [f"dataset: {dataset}"]
    if inferred.key:
        lines += [f"primary_key: {_flow(list(inferred.key))}"]
    else:
        lines += [f"synthetic_key: {_flow({'fields': [column.name for column in inferred.columns]})}"]
    if inferred.each_line:
        lines += ["", "materialization: {reprocess_policy: append, repeated_content: ignored}"]
    lines += ["", "source:", f"  format: {read_as.format}"]
    lines += [f"  delimiter: {_flow(read_as.delimiter)}"] if read_as.format == "csv" and read_as.delimiter != "," else []
    lines += [f"  {name}: {_flow(value)}" for name in _WRITTEN if (value := getattr(read_as, name))]
    lines += [f"  null_values: {_flow(list(inferred.null_words))}"] if inferred.null_words else []
    lines += [f"  joined: {_flow({name: list(parts) for name, parts in inferred.joined.items()})}"] if inferred.joined else []
    lines += [f"  formats: {_flow(dict(inferred.formats))}"] if inferred.formats else []
    lines += ["", "clocks:", f"  event: {_flow(inferred.event)}" if inferred.event else "  # event: the column of the event time"]
    lines += [f"  arrival: {_flow(inferred.arrival)}"] if inferred.arrival else []
    lines += [f"  timezone: {_flow(inferred.zone or 'UTC')}"] if inferred.zone or inferred.naive else []
    lines += ["  naive_times: in_timezone"] if inferred.naive else []
    lines += [f"  start_date: {inferred.first_day}  # rows of earlier days are malformed"] if inferred.first_day else []
    if inferred.days_to_wait is not None:
        lines += [f"  watermark: {{strategy: bounded, max_lateness: P{inferred.days_to_wait}D}}"]
    is_integer = inferred.order_type == "integer"
    order = inferred.order if is_integer else {"column": inferred.order, "type": inferred.order_type}
    lines += ["", "order:", f"  sequence: {_flow(order)}"] if inferred.order else []
    lines += ["", "changes:", f"  op: {_flow(inferred.op)}"] if inferred.op else []
    lines += [f"  {name}: {_flow(list(words))}" for name, words in inferred.op_words.items()]
    lines += ["", "model:", "  fields:"]
    for column in inferred.columns:
        fields: dict[str, Any] = {"name": column.name, "type": column.type}
        fields |= {"required": True} if column.name in inferred.key else {}
        fields |= {"column": column.column} if column.column != column.name else {}
        lines.append(f"    - {_flow(fields)}")
    return "\n".join([*lines, ""])


def metric_text(dataset: str, inferred: InferredSource) -> str:
    """The contract of a first metric: the number of records per day, and the sum or mean of each quantity."""
    counted = f" FILTER (WHERE {inferred.condition})" if inferred.condition else ""
    measures: list[dict[str, Any]] = [{"name": "records", "sql": f"count(*){counted}", "type": "long", "additive": True}]
    taken = {"records", *RESERVED}
    parts = {part for of in inferred.joined.values() for part in of}
    for column in inferred.columns:
        measure = measures_of.of_column(column, inferred.formats.get(column.column))
        if column.name in inferred.key or column.column == inferred.order or column.column in parts or measure is None:
            continue
        name = column.name
        while name in taken:
            name += "_sum"
        taken.add(name)
        # A measure that adds up has a total of the day, which those of several currencies do not have.
        adds_up = measure["additive"] and not inferred.units
        measures.append({"name": name, **measure, "sql": f"{measure['sql']}{counted}", "additive": adds_up})
    lines = [
        f"# A first metric over {dataset}: change the measures to what you publish.",
        f"metric: {dataset}_daily",
        f"source: {dataset}",
        *(["rows: all  # each line, also equal ones"] if inferred.each_line else []),
        *([f"grain: {_flow([*inferred.units])}  # what is not additive has no total over them"] if inferred.units else []),
        "measures:",
        *(f"  - {_flow(measure)}" for measure in measures),
    ]
    # What does not add up is in no longer period that an adjustment is booked in.
    if all(Measure.model_validate(measure).is_exact for measure in measures) and not inferred.units:
        lines += ["publication:", f"  after_close: adjust  # {_AFTER_CLOSE}"]
    return "\n".join([*lines, ""])


def _flow(value: Any) -> str:
    """A value as one line of YAML, with escapes where YAML would read it differently."""
    texts = (
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=_UNBOUNDED, allow_unicode=readable)
        for readable in (True, False)
    )
    plain, escaped = (text.strip().removesuffix("...").strip() for text in texts)
    return plain if yaml.safe_load(plain) == value else escaped


def _comment(text: str) -> str:
    """A comment of one line, whatever characters the names of files and columns have."""
    return f"# {''.join(letter if letter.isprintable() else ' ' for letter in text)}"
