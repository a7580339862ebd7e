"""Another watermark written into a contract's file, with every other line, comment and order left as it is."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from lakehouse.contracts.loader import ContractError, load_contract
from lakehouse.contracts.source import SourceContract
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, timedelta
    from pathlib import Path


class PatchError(LakehouseError):
    """A file that cannot be patched. Its text says why, and what to write by hand."""


def file_of(folder: Path | None, dataset: str) -> Path | None:
    """The file of a source's contract in a folder."""
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]) if folder and folder.is_dir() else []:
        try:
            found = load_contract(path)
        except ContractError:
            continue
        if isinstance(found, SourceContract) and found.dataset == dataset:
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
    """A contract's text with another watermark for rows that arrive on a day or later.

    :param event_type: one that the contract has bounds of its own for; None: all that it has none for.
    :raises PatchError: where that cannot be said in this file.
    """
    entry = f"{{since: {since}, watermark: {duration(watermark)}}}"
    keys = ["lateness"] if event_type is None else ["lateness", "by", "values", event_type]
    try:
        before = SourceContract.model_validate(_content(text))
        patched = _patched(text, keys, entry)
        after = SourceContract.model_validate(_content(patched))
    except (yaml.YAMLError, ValidationError) as problem:
        msg = f"{entry} cannot be added to {'.'.join(keys)}.changes: {_first(problem)}"
        raise PatchError(msg) from None
    moved = after.lateness.as_of(event_type, since).watermark == watermark
    if not moved or _without_changes(before.model_dump()) != _without_changes(after.model_dump()):
        msg = f"this file is written in a way that is not understood; add by hand to {'.'.join(keys)}.changes: {entry}"
        raise PatchError(msg)
    return patched


@contextmanager
def replacing(path: Path, text: str) -> Iterator[None]:
    """Put a text in the place of a file, whole; what is done inside comes between the writing of the text and its taking effect.

    :raises OSError: where it cannot be written; then nothing inside is done.
    """
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    try:
        yield
        os.replace(beside, path)  # noqa: PTH105 (says that it replaces)
    finally:
        beside.unlink(missing_ok=True)


def _content(text: str) -> object:
    return yaml.load(text, Loader=_Text)  # noqa: S506 (a SafeLoader)


class _Text(yaml.SafeLoader):
    """Dates stay text, as the loader of contracts has it."""


_Text.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _patched(text: str, keys: Sequence[str], entry: str) -> str:
    root = yaml.compose(text, Loader=_Text)
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
            return _inside(text, node, f"changes: [{entry}]")
        indent = " " * node.start_mark.column
        return _behind(text, node, f"{indent}changes:\n{indent}  - {entry}")
    if not isinstance(changes, yaml.SequenceNode):
        msg = f"{'.'.join(keys)}.changes is no list in this file; make it one: [{entry}]"
        raise PatchError(msg)
    if changes.flow_style:
        return _inside(text, changes, entry)
    return _behind(text, changes, " " * changes.start_mark.column + f"- {entry}")


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _inside(text: str, node: yaml.Node, more: str) -> str:
    """In front of the bracket that closes the node."""
    end = node.end_mark.index - 1
    return text[:end].rstrip(" ") + (", " if node.value else "") + more + text[end:]


def _behind(text: str, node: yaml.Node, line: str) -> str:
    """On a line of its own behind the last one that the node has something on."""
    last = node
    while not last.flow_style if isinstance(last, yaml.CollectionNode) else False:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    lines = text.split("\n")
    at = last.end_mark.line + 1
    return "\n".join([*lines[:at], line, *lines[at:]])


def _without_changes(said: Any) -> Any:
    """What a contract says but for its watermarks' changes."""
    if isinstance(said, dict):
        return {key: _without_changes(value) for key, value in said.items() if not (key == "changes" and isinstance(value, list))}
    return [_without_changes(one) for one in said] if isinstance(said, list) else said


def _first(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        return "; ".join(str(one["msg"]).removeprefix("Value error, ") for one in problem.errors()[:2])
    return str(problem).splitlines()[0]
