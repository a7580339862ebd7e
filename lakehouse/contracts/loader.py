"""Contracts from YAML files, with the file, line and field of every mistake.

The keys of a contract and their meaning are in the modules of its parts (``source``, ``metric``, ...).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from lakehouse.contracts.joins.fit import misfits
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

Contract = SourceContract | MetricContract
Model = TypeVar("Model", bound=BaseModel)
_FIELD = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): ")


class ContractError(LakehouseError):
    """A contract that cannot be used. The text lists every mistake as ``file:line: field: what to do``."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


@dataclass(frozen=True)
class Catalog:
    """All contracts of a deployment, by name."""

    sources: dict[str, SourceContract] = field(default_factory=dict)
    metrics: dict[str, MetricContract] = field(default_factory=dict)

    def metrics_of(self, source: str) -> list[MetricContract]:
        """The metrics that read the silver table of ``source``."""
        return [metric for metric in self.metrics.values() if metric.source == source]

    def metrics_following(self, source: str) -> list[MetricContract]:
        """The metrics whose numbers change with a source: those that read it, and those that join it as a dimension."""
        return [metric for metric in self.metrics.values() if metric.source == source or source in metric.dimensions]


def load_contract(path: Path) -> Contract:
    """Read one contract.

    :raises ContractError: with one line per mistake.
    """
    content, tree = _parsed(path)
    if not isinstance(content, dict):
        raise ContractError([f"{path}:1: a contract is a mapping with 'dataset:' or 'metric:'"])
    kind: type[Contract]
    if "metric" in content:
        kind = MetricContract
    elif "dataset" in content:
        kind = SourceContract
    else:
        raise ContractError([f"{path}:1: name a 'dataset:' (a source) or a 'metric:'"])
    return _validated(path, content, tree, kind)


def load_model(path: Path, kind: type[Model], known_keys: str) -> Model:
    """Read another YAML file of a deployment as strictly as a contract.

    :param known_keys: the page that lists the keys of such a file.
    :raises ContractError: with one line per mistake.
    """
    content, tree = _parsed(path)
    return _validated(path, {} if content is None else content, tree, kind, known_keys)


def _validated(
    path: Path, content: Any, tree: yaml.Node | None, kind: type[Model], known_keys: str = "docs/contracts.md"
) -> Model:
    """:raises ContractError: with one line per mistake."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        problems = [_located(problem, known_keys) for problem in error.errors()]
        mistakes = [(_in_file(tree, location), text) for location, text in problems]
        raise ContractError(f"{path}:{_line(tree, where)}: {_where(where)}{text}" for where, text in mistakes) from None


def _parsed(path: Path) -> tuple[Any, yaml.Node | None]:
    """The content of a YAML file, and its node tree, which has the line numbers.

    :raises ContractError: if the file is not valid YAML or a mapping repeats a key.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContractError([f"{path}: cannot be read: {error.strerror}"]) from None
    try:
        text = data.decode()
        tree = yaml.compose(text, Loader=ContractYaml)
        content = yaml.load(text, Loader=ContractYaml)  # noqa: S506 (a SafeLoader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ContractError([f"{path}:{line}: not valid UTF-8; save the file as UTF-8"]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ContractError([f"{path}:{line}: not valid YAML: {error.problem or error.context}"]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ContractError([f"{path}:{line}: not valid YAML: {error.reason}"]) from None
    except (RecursionError, ValueError, yaml.YAMLError) as error:
        raise ContractError([f"{path}:1: not valid YAML: {error}"]) from None
    repeated = _repeated_keys(tree)
    if repeated:
        raise ContractError(f"{path}:{key.start_mark.line + 1}: {key.value}: is given twice; keep one" for key in repeated)
    return content, tree


class ContractYaml(yaml.SafeLoader):
    """The YAML of contracts. Dates stay text: the models parse them and name the field that holds an impossible one.

    So do ``on`` and ``off``: ``on`` is a key of joins, and the models read both as booleans where one is wanted.
    """


ContractYaml.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if not (tag.endswith(":timestamp") or (tag.endswith(":bool") and first in {"o", "O"}))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _repeated_keys(tree: yaml.Node | None) -> list[yaml.ScalarNode]:
    repeated: list[yaml.ScalarNode] = []
    pending = [tree]
    seen: set[int] = set()  # an alias leads to a node that was visited, possibly in a cycle
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            pending += [value for _, value in node.value]
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            first = {key.value: key for key in reversed(keys)}
            repeated += [key for key in keys if key is not first[key.value]]
    return sorted(repeated, key=lambda key: key.start_mark.line)


def load_catalog(folder: Path | None, *, bundled: bool = True) -> Catalog:
    """Read the bundled contracts and those of ``folder``; a file there replaces the bundled one of the same name.

    :raises ContractError: for a mistake in any of them, or a metric without its source.
    """
    catalog = Catalog()
    mistakes: list[str] = []
    origin: dict[str, Path] = {}
    paths = sorted(bundled_folder().glob("*.yaml")) if bundled else []
    deployed = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]) if folder and folder.is_dir() else []
    for path in [*paths, *deployed]:
        try:
            contract = load_contract(path)
        except ContractError as error:
            mistakes += error.mistakes
            continue
        name = contract.dataset if isinstance(contract, SourceContract) else contract.name
        if name in origin and path.parent == origin[name].parent:
            key = "dataset" if isinstance(contract, SourceContract) else "metric"
            mistakes.append(f"{path}:{_line_of(path, key)}: {key}: the name {name!r} is taken by {origin[name]}")
        origin[name] = path
        catalog.sources.pop(name, None)
        catalog.metrics.pop(name, None)
        if isinstance(contract, SourceContract):
            catalog.sources[name] = contract
        else:
            catalog.metrics[name] = contract
    mistakes += [
        f"{origin[metric.name]}:{_line_of(origin[metric.name], 'source')}: source: no contract has 'dataset: {metric.source}'"
        for metric in catalog.metrics.values()
        if metric.source not in catalog.sources
    ]
    mistakes += [
        f"{origin[metric.name]}:{_line_of(origin[metric.name], 'rows')}: rows: {metric.source} has one row per key; leave the "
        "key out, it is for metrics of sources under 'reprocess_policy: append'"
        for metric in catalog.metrics.values()
        if metric.rows is not None and metric.source in catalog.sources and not _is_append(catalog.sources[metric.source])
    ]
    mistakes += [
        f"{origin[metric.name]}:{_line(_parsed(origin[metric.name])[1], where)}: {_where(where)}{text}"
        for metric in catalog.metrics.values()
        if metric.source in catalog.sources
        for where, text in misfits(metric, catalog.sources)
    ]
    if mistakes:
        raise ContractError(mistakes)
    for name, metric in catalog.metrics.items():
        catalog.metrics[name] = completed(metric, catalog.sources)
    return catalog


def completed(metric: MetricContract, sources: Mapping[str, SourceContract]) -> MetricContract:
    """A metric's contract with what follows from its source, among all ``sources``, and with the contracts of its dimensions."""
    metric, source = metric.with_dimensions(sources), sources[metric.source]
    if metric.publication.timezone is None:
        publication = metric.publication.model_copy(update={"timezone": source.clocks.timezone})
        metric = metric.model_copy(update={"publication": publication})
    return metric.model_copy(update={"rows": "newest"}) if metric.rows is None and _is_append(source) else metric


def _is_append(source: SourceContract) -> bool:
    return source.materialization.reprocess_policy == "append"


def bundled_folder() -> Path:
    """Where the package keeps its example contracts."""
    return Path(str(resources.files("lakehouse.contracts") / "bundled"))


def _line_of(path: Path, key: str) -> int:
    return _line(_parsed(path)[1], (key,))


def _line(tree: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line (from 1) of the deepest node on the path ``location`` that exists in the file."""
    node, line = tree, 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(step)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _in_file(tree: yaml.Node | None, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """A location without the words by which pydantic tells the forms of a section apart, such as its ``strategy``.

    These words are values in the file, not keys.
    """
    node, steps = tree, list[int | str]()
    for place, step in enumerate(location):
        values = {key.value: value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}
        is_value = any(isinstance(value, yaml.ScalarNode) and value.value == step for value in values.values())
        if is_value and step not in values and place < len(location) - 1:
            continue
        steps.append(step)
        if isinstance(node, yaml.SequenceNode):
            node = node.value[step] if isinstance(step, int) and step < len(node.value) else None
        else:
            node = values.get(step)
    return tuple(steps)


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in location) + ": " if location else ""


def _located(problem: ErrorDetails, known_keys: str) -> tuple[tuple[int | str, ...], str]:
    """The location of a mistake and its message. Validators of several fields name the field at the start of the message."""
    message = _plain(problem["msg"], known_keys)
    field_name = _FIELD.match(message)
    if field_name:
        return (*problem["loc"], *field_name[1].split(".")), message[field_name.end() :]
    return problem["loc"], message


def _plain(message: str, known_keys: str) -> str:
    """A message of pydantic, worded for the author of a YAML file."""
    return (
        message.removeprefix("Value error, ")
        .replace("Extra inputs are not permitted", f"unknown key; {known_keys} lists the known ones")
        .replace("Field required", "is missing")
    )
