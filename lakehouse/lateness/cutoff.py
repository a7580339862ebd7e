"""``ops/watermarks``: the decisions that changed a source's watermark: who, when, why, and the proposal at that time.

The contract decides which watermark is in force; this log records how it was chosen. Proposals are computed in ``rules``. A
decision is entered into the contract's file: another cutoff is added, and every other line is unchanged.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from lakehouse import locations
from lakehouse.contracts.loader import load_contract
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.yaml_file import ContractError, ContractYaml
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime, timedelta
    from pathlib import Path

    from lakehouse.lake import Lake


class PatchError(LakehouseError):
    """A file that cannot be edited. The text gives the reason and what to write by hand."""


def file_of(folder: Path | None, dataset: str) -> Path | None:
    """The file in a folder that holds the contract of a source; files with mistakes are skipped."""
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]) if folder and folder.is_dir() else []:
        try:
            contract = load_contract(path)
        except ContractError:
            continue
        if isinstance(contract, SourceContract) and contract.dataset == dataset:
            return path
    return None


def duration(span: timedelta) -> str:
    """A span in ISO 8601, as contracts write it: P3D, PT36H15M."""
    days, seconds = divmod(int(span.total_seconds()), 86_400)
    if days and not seconds:
        return f"P{days}D"
    hours, rest = divmod(int(span.total_seconds()), 3_600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if count]
    return "PT" + ("".join(parts) or "0S")


def with_watermark(text: str, watermark: timedelta, since: date, event_type: str | None = None) -> str:
    """The text of a contract with another cutoff for rows that arrive on ``since`` or later.

    :param event_type: an event type that has its own bounds in the contract; None: all others.
    :raises PatchError: if the file has no place for the entry.
    """
    entry = f"{{since: {since}, cutoff: {duration(watermark)}}}"
    keys = ["lateness"] if event_type is None else ["lateness", "by", "values", event_type]
    try:
        before = SourceContract.model_validate(_content(text))
        patched = _patched(text, keys, entry)
        after = SourceContract.model_validate(_content(patched))
    except (yaml.YAMLError, ValidationError) as problem:
        msg = f"{entry} cannot be added to {'.'.join(keys)}.changes: {_first(problem)}"
        raise PatchError(msg) from None
    holds = after.lateness.as_of(event_type, since).watermark == watermark
    if not holds or _without_changes(before.model_dump()) != _without_changes(after.model_dump()):
        msg = f"the layout of this file is not supported; add by hand to {'.'.join(keys)}.changes: {entry}"
        raise PatchError(msg)
    return patched


@contextmanager
def replacing(path: Path, text: str) -> Iterator[None]:
    """Replace the content of a file atomically when the body of the ``with`` statement succeeds.

    :raises OSError: if the text cannot be written; the body is not executed then.
    """
    written = path.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    try:
        yield
        os.replace(written, path)  # noqa: PTH105 (the name states that a file is replaced)
    finally:
        written.unlink(missing_ok=True)


def _content(text: str) -> object:
    return yaml.load(text, Loader=ContractYaml)  # noqa: S506 (a SafeLoader)


def _patched(text: str, keys: Sequence[str], entry: str) -> str:
    root = yaml.compose(text, Loader=ContractYaml)
    node: yaml.Node | None = root
    for key in keys:
        node = _value(node, key)
    if node is None and len(keys) == 1:
        return text.rstrip("\n") + f"\n\n{keys[0]}:\n  changes:\n    - {entry}\n"
    if not isinstance(node, yaml.MappingNode):
        msg = f"{'.'.join(keys)} is no mapping in this file; add to it: changes: [{entry}]"
        raise PatchError(msg)
    changes = _value(node, "changes")
    if changes is None:
        if node.flow_style:
            return _before_bracket(text, node, f"changes: [{entry}]")
        indent = " " * node.start_mark.column
        return _line_after(text, node, f"{indent}changes:\n{indent}  - {entry}")
    if not isinstance(changes, yaml.SequenceNode):
        msg = f"{'.'.join(keys)}.changes is no list in this file; make it one: [{entry}]"
        raise PatchError(msg)
    if changes.flow_style:
        return _before_bracket(text, changes, entry)
    return _line_after(text, changes, " " * changes.start_mark.column + f"- {entry}")


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _before_bracket(text: str, node: yaml.Node, more: str) -> str:
    """Insert text before the bracket that closes a flow collection."""
    end = node.end_mark.index - 1
    return text[:end].rstrip(" ") + (", " if node.value else "") + more + text[end:]


def _line_after(text: str, node: yaml.Node, line: str) -> str:
    """Insert a line after the last one that belongs to the node; comments that follow the node stay after the new line."""
    last = node
    while not last.flow_style if isinstance(last, yaml.CollectionNode) else False:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    lines = text.split("\n")
    at = last.end_mark.line + 1
    return "\n".join([*lines[:at], line, *lines[at:]])


def _without_changes(content: Any) -> Any:
    """The content of a contract without the lists of changed watermarks."""
    if isinstance(content, dict):
        kept = {key: value for key, value in content.items() if not (key == "changes" and isinstance(value, list))}
        return {key: _without_changes(value) for key, value in kept.items()}
    return [_without_changes(element) for element in content] if isinstance(content, list) else content


def _first(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        return "; ".join(str(mistake["msg"]).removeprefix("Value error, ") for mistake in problem.errors()[:2])
    return str(problem).splitlines()[0]


@dataclass(frozen=True)
class WatermarkDecision:
    """A decision that changed a watermark.

    ``seconds`` is the watermark for rows that arrive on ``since`` or later, of one ``event_type``, or of all event types without
    bounds of their own; ``because`` and ``evidence`` (JSON) are those of the proposal.
    """

    source: str
    event_type: str | None
    seconds_before: int | None
    seconds: int
    since: date
    by: str
    reason: str
    because: str
    evidence: str
    decided_at: datetime


def log(lake: Lake) -> LogTable[WatermarkDecision]:
    """The table."""
    return LogTable(WatermarkDecision, lake, locations.watermarks(lake), partition_by="source", journaled=True)


def record(lake: Lake, entry: WatermarkDecision) -> bool:
    """Append a decision; the same one is written once.

    :returns: whether it was written.
    """
    decision = (entry.source, entry.event_type, entry.seconds_before, entry.seconds, entry.since, entry.by, entry.reason)
    app_id = "watermark:" + hashlib.sha256(repr(decision).encode()).hexdigest()[:16]
    return log(lake).append([entry], app_id=app_id)


def of(lake: Lake, source: str) -> list[WatermarkDecision]:
    """Every decision on a source, oldest first."""
    entries = log(lake).read({"source": [source]})
    return sorted(entries, key=lambda entry: (entry.decided_at, entry.since))
