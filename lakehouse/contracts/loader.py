"""YAML in, contract out; every mistake is named by file, line and field."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract

if TYPE_CHECKING:
    from collections.abc import Iterable

Contract = SourceContract | MetricContract


class ContractError(Exception):
    """A contract that cannot be used; its text lists every mistake as ``file:line: field: what to do``."""

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


def load_contract(path: Path) -> Contract:
    """Read one contract.

    :raises ContractError: with one line per mistake.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError([f"{path}: cannot be read: {error}"]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ContractError([f"{path}:{line}: not valid YAML: {error.problem}"]) from None
    except yaml.YAMLError as error:
        raise ContractError([f"{path}: not valid YAML: {error}"]) from None
    if not isinstance(content, dict):
        raise ContractError([f"{path}:1: a contract is a mapping with 'dataset:' or 'metric:'"])
    kind: type[Contract]
    if "metric" in content:
        kind = MetricContract
    elif "dataset" in content:
        kind = SourceContract
    else:
        raise ContractError([f"{path}:1: name a 'dataset:' (a source) or a 'metric:'"])
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise ContractError(
            f"{path}:{_line(tree, problem['loc'])}: {_where(problem['loc'])}{_plain(problem['msg'])}" for problem in error.errors()
        ) from None


def load_catalog(folder: Path | None, *, bundled: bool = True) -> Catalog:
    """Read the bundled contracts and those of ``folder``; a file there replaces the bundled one of the same name.

    :raises ContractError: for a mistake in any of them, or a metric without its source.
    """
    catalog = Catalog()
    mistakes: list[str] = []
    origin: dict[str, Path] = {}
    paths = sorted(bundled_folder().glob("*.yaml")) if bundled else []
    own = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]) if folder and folder.is_dir() else []
    for path in [*paths, *own]:
        try:
            contract = load_contract(path)
        except ContractError as error:
            mistakes += error.mistakes
            continue
        name = contract.dataset if isinstance(contract, SourceContract) else contract.metric
        if name in origin and path.parent == origin[name].parent:
            mistakes.append(f"{path}: the name {name!r} is taken by {origin[name]}")
        origin[name] = path
        if isinstance(contract, SourceContract):
            catalog.sources[name] = contract
        else:
            catalog.metrics[name] = contract
    mistakes += [
        f"{origin[metric.metric]}: source: no contract has 'dataset: {metric.source}'"
        for metric in catalog.metrics.values()
        if metric.source not in catalog.sources
    ]
    if mistakes:
        raise ContractError(mistakes)
    return catalog


def bundled_folder() -> Path:
    """Where the package keeps its example contracts."""
    return Path(str(resources.files("lakehouse.contracts") / "bundled"))


def _line(tree: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line (from 1) of the deepest node on the way to ``location`` that the file has."""
    node, line = tree, 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in location) + ": " if location else ""


def _plain(message: str) -> str:
    """Pydantic's words, said as to a person who writes YAML."""
    return (
        message.removeprefix("Value error, ")
        .replace("Extra inputs are not permitted", "unknown key; see the README for the known ones")
        .replace("Field required", "is missing")
    )
