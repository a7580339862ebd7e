"""Contracts from YAML files, with the file, line and field of every mistake.

The keys of a contract and their meaning are in the modules of its parts (``source``, ``metric``, ...).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from lakehouse.contracts import derived, effect, fit, record_changes, yaml_file
from lakehouse.contracts import metric_sources as of_joins
from lakehouse.contracts import publication as late_events
from lakehouse.contracts import windows as of_windows
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.model import ModelContract
from lakehouse.contracts.series import days_reached
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.training_set import TrainingSetContract, training_misfits
from lakehouse.contracts.yaml_file import ContractError
from lakehouse.text import join_limited, suggestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    import yaml

    from lakehouse.settings import Settings

Contract = SourceContract | MetricContract | TrainingSetContract | ModelContract
Model = TypeVar("Model", bound=BaseModel)
_DATASET = re.compile(r"^dataset: *['\"]?(\w+)", re.MULTILINE)
_NAMED = re.compile(r"^(?:dataset|metric|training_set|model): *['\"]?(\w+)", re.MULTILINE)
#: The values of the keys by which a contract names others.
_REFERENCE = re.compile(r"(?:^|[\s{,\[-])(?:sources?|from|dimension|metric|training_set):(?! *\{)(.*(?:\n *- .*)*)", re.MULTILINE)
_SHOWN = 20
#: The kinds of contracts, each by the key that names it; sources also have a key 'model', and models a key 'training_set'.
_KINDS: dict[str, type[Contract]] = {
    "metric": MetricContract,
    "dataset": SourceContract,
    "model": ModelContract,
    "training_set": TrainingSetContract,
}
#: A file that may hold a source; other files need not be parsed to find sources.
_NAMES_A_SOURCE = re.compile(rb"^['\"{ ]*dataset\b", re.MULTILINE)


@dataclass(frozen=True)
class Catalog:
    """All contracts of a deployment, by name."""

    sources: dict[str, SourceContract] = field(default_factory=dict)
    metrics: dict[str, MetricContract] = field(default_factory=dict)
    training_sets: dict[str, TrainingSetContract] = field(default_factory=dict)
    models: dict[str, ModelContract] = field(default_factory=dict)

    def add(self, name: str, contract: Contract) -> None:
        """Add a contract under ``name``; it replaces any contract of that name."""
        for known in (self.sources, self.metrics, self.training_sets, self.models):
            cast("dict[str, Contract]", known).pop(name, None)
        if isinstance(contract, SourceContract):
            self.sources[name] = contract
        elif isinstance(contract, MetricContract):
            self.metrics[name] = contract
        elif isinstance(contract, TrainingSetContract):
            self.training_sets[name] = contract
        else:
            self.models[name] = contract

    def metrics_of(self, source: str) -> list[MetricContract]:
        """The metrics that read a silver table of ``source``, alone or with other sources. Derived metrics read none."""
        return [metric for metric in self.metrics.values() if source in metric.sources_read]

    def sources_of(self, metric: MetricContract) -> list[SourceContract]:
        """The contracts of a metric's sources; for a derived metric, of its first input's source."""
        return [self.sources[name] for name in dict.fromkeys([metric.source, *metric.sources_read])]

    def first_day(self, metric: MetricContract) -> date:
        """The first day that a metric may have a number for; for a derived metric, the earliest first day of its inputs.

        Overlapping windows may begin on the day before a source's first event day.
        """
        if metric.is_derived:
            return min(self.first_day(self.metrics[name]) for name in metric.derived_from)
        return min(days_reached(metric, [contract.first_event_day for contract in self.sources_of(metric)]))

    def derived_from(self, metric: str) -> list[MetricContract]:
        """The metrics that have ``metric`` as a direct input."""
        return [other for other in self.metrics.values() if metric in other.derived_from]

    def derived_of(self, source: str) -> list[MetricContract]:
        """The metrics derived from the source's metrics, directly or indirectly; each after its inputs."""
        return derived.downstream(self.metrics, [metric.name for metric in self.metrics_of(source)])

    def metrics_from(self, source: str) -> list[MetricContract]:
        """The metrics that read ``source``, and those derived from them."""
        return [*self.metrics_of(source), *self.derived_of(source)]

    def metrics_joining(self, dimension: str) -> list[MetricContract]:
        """The metrics that join a dimension."""
        return [metric for metric in self.metrics.values() if dimension in metric.dimensions]

    def metrics_following(self, source: str) -> list[MetricContract]:
        """The metrics whose numbers change with a source: the metrics that read or join it, and those derived from them."""
        read = [*self.metrics_of(source), *self.metrics_joining(source)]
        return [*read, *derived.downstream(self.metrics, [metric.name for metric in read])]


def load_contract(path: Path, sources: Mapping[str, SourceContract] | None = None) -> Contract:
    """Read one contract.

    :param sources: the sources that the contract may read, by name; the contract is compared only with these.
    :raises ContractError: with one line per mistake.
    """
    contract = _read(path)
    mistakes = [*_in_expressions(path, contract, sources or {})]
    if isinstance(contract, MetricContract) and sources and {*contract.sources_named} <= sources.keys():
        unfit = [*_misfits(contract, sources), *effect.of_tiers(contract, sources)]
        mistakes += [_located(path, where, text) for where, text in unfit]
    if mistakes:
        raise ContractError(mistakes)
    return contract


def _read(path: Path) -> Contract:
    """Read a single contract without checking its expressions.

    :raises ContractError: with one line per mistake.
    """
    content, tree = yaml_file.parsed(path)
    if not isinstance(content, dict):
        raise ContractError([f"{path}:1: a contract is a mapping with 'dataset:' or 'metric:'"])
    key = next((key for key in _KINDS if key in content), None)
    if key is None:
        raise ContractError([f"{path}:1: name a 'dataset:' (a source), a 'metric:', a 'training_set:' or a 'model:'"])
    mistakes = _of_keys(content) if key == "metric" else {}
    if mistakes:
        raise ContractError(f"{path}:{yaml_file.line_of(tree, (key,))}: {key}: {text}" for key, text in mistakes.items())
    contract = _validated(path, content, tree, _KINDS[key])
    if isinstance(contract, SourceContract | MetricContract):
        unused = [
            f"{path}:{yaml_file.line_of(tree, where)}: {yaml_file.as_prefix(where)}{text}"
            for where, text in effect.without_effect(contract, content)
        ]
        if unused:
            raise ContractError(unused)
    return contract


def _of_keys(content: Mapping[str, Any]) -> dict[str, str]:
    """The mistakes in the top-level keys of a metric's file, by key."""
    mistakes = {}
    if "source" in content and "from" in content:
        mistakes["from"] = "a metric reads one source or is made of other metrics; keep 'source' or 'from'"
    if "source" in content and content.get("sources"):
        mistakes["sources"] = "names all sources that the metric reads; leave 'source' out"
    if content.get("inputs"):
        mistakes["inputs"] = "follows from 'from'; leave the key out"
    if content.get("derived_from"):
        mistakes["derived_from"] = "is written 'from'"
    return mistakes


def load_model(path: Path, kind: type[Model], known_keys: str) -> Model:
    """Read another YAML file of a deployment as strictly as a contract.

    :param known_keys: the page that lists the keys of such a file.
    :raises ContractError: with one line per mistake.
    """
    content, tree = yaml_file.parsed(path)
    return _validated(path, {} if content is None else content, tree, kind, known_keys)


def _validated(
    path: Path, content: Any, tree: yaml.Node | None, kind: type[Model], known_keys: str = "docs/contracts.md"
) -> Model:
    """:raises ContractError: with one line per mistake."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        problems = [yaml_file.located(problem, known_keys) for problem in error.errors()]
        mistakes = [(yaml_file.in_file(tree, location), text) for location, text in problems]
        raise ContractError(
            f"{path}:{yaml_file.line_of(tree, where)}: {yaml_file.as_prefix(where)}{text}" for where, text in mistakes
        ) from None


def load_sound_catalog(folder: Path | None, source: str, *, bundled: bool = True) -> tuple[Catalog, list[str]]:
    """Read the contracts like :func:`load_catalog`, but leave out broken contracts that do not concern ``source``.

    :returns: the well-formed contracts, and the mistakes in the others.
    :raises ContractError: for a mistake in a contract that names ``source``.
    """
    left_out: set[Path] = set()
    mistakes: list[str] = []
    while True:
        try:
            return load_catalog(folder, bundled=bundled, without=left_out), mistakes
        except ContractError as error:  # noqa: PERF203 (as often as contracts are broken)
            broken = {path for path in _deployed(folder) for text in error.mistakes if text.startswith(f"{path}:")} - left_out
            if not broken or any(re.search(rf"\b{re.escape(source)}\b", _text_of(path)) for path in broken):
                raise
            left_out |= broken
            mistakes += error.mistakes


def _text_of(path: Path) -> str:
    with suppress(OSError):
        return path.read_bytes().decode(errors="replace")
    return ""


def _deployed(folder: Path | None) -> list[Path]:
    return _contract_files(folder) if folder and folder.is_dir() else []


def with_examples(settings: Settings) -> bool:
    """Whether the examples are loaded: as the setting says, or, if it is left out in this release, where they are needed."""
    if "bundled_contracts" in settings.model_fields_set:
        return settings.bundled_contracts
    texts = [_text_of(path) for path in _deployed(settings.contracts)]
    named = {name for text in texts for part in _REFERENCE.findall(text) for name in re.findall(r"\w+", part)}
    defined = {name for text in texts for name in _NAMED.findall(text)}
    return not texts or not named.isdisjoint({path.stem for path in bundled_folder().glob("*.yaml")} - defined)


def load_catalog(folder: Path | None, *, bundled: bool = True, without: Collection[Path] = ()) -> Catalog:
    """Read the bundled contracts and those of ``folder``; a file there replaces the bundled one of the same name.

    :param without: files to leave out.
    :raises ContractError: for a mistake in any contract, or a metric whose source is missing.
    """
    catalog = Catalog()
    mistakes: list[str] = []
    broken: set[str] = set()  # the mistake to fix is in the source's file, not in its metric's
    origin: dict[str, Path] = {}
    paths = sorted(bundled_folder().glob("*.yaml")) if bundled else []
    deployed = [path for path in _deployed(folder) if path not in without]
    for path in [*paths, *deployed]:
        try:
            contract = _read(path)
        except ContractError as error:
            mistakes += error.mistakes
            broken |= set(_DATASET.findall(_text_of(path)))
            continue
        name = _name_of(contract)
        if name in origin and path.parent == origin[name].parent:
            mistakes.append(_taken(path, contract, origin[name]))
        origin[name] = path
        catalog.add(name, contract)
    resolved, unresolved = derived.resolved(catalog.metrics)
    unfit = [*_misfits_of_set(catalog, origin, paths, broken), *unresolved]
    mistakes += [_located(origin[name], where, text) for name, where, text in unfit]
    mistakes += [text for _, text in _expressions(catalog, origin, paths)]
    if mistakes:
        raise ContractError(mistakes)
    catalog.metrics.update(resolved)
    for name, metric in catalog.metrics.items():
        catalog.metrics[name] = completed(metric, catalog.sources)
    return catalog


def _misfits_of_set(
    catalog: Catalog, origin: Mapping[str, Path], bundled: Collection[Path], broken: Collection[str]
) -> Iterator[tuple[str, tuple[int | str, ...], str]]:
    """References between contracts that are missing or do not match: the contract's name, where in its file, and what to do.

    Derived metrics and their inputs are compared in ``derived``.

    :param origin: the file of each contract, by its name.
    :param bundled: the files that a deployment may replace.
    :param broken: the names of sources whose file has a mistake, which must be fixed first.
    """
    for name, metric in catalog.metrics.items():
        if not (metric.is_derived or metric.sources) and metric.source not in {*catalog.sources, *broken}:
            known = f"{suggestion(metric.source, catalog.sources)}; there are {join_limited(sorted(catalog.sources), _SHOWN)}"
            yield name, ("source",), f"no contract has 'dataset: {metric.source}'{known if catalog.sources else ''}"
    for name, metric in catalog.metrics.items():
        if metric.rows is not None and _never_append(metric, catalog.sources):
            text = f"{metric.source} has one row per key; leave the key out, it is for metrics of sources under "
            yield name, ("rows",), f"{text}'reprocess_policy: append'"
    for name, metric in catalog.metrics.items():
        yield from ((name, where, text) for where, text in _misfits(metric, catalog.sources))
    yield from training_misfits(catalog.training_sets, catalog.models, catalog.sources, catalog.metrics)
    for name, metric in catalog.metrics.items():
        if origin[name] not in bundled or origin.get(metric.source) in bundled:  # a deployment may replace a bundled source
            yield from ((name, where, text) for where, text in effect.of_tiers(metric, catalog.sources))


def _expressions(catalog: Catalog, origin: Mapping[str, Path], bundled: Collection[Path]) -> Iterator[tuple[str, str]]:
    """The mistakes in the SQL of all contracts, each with the name of its contract."""
    written: dict[str, Contract] = {**catalog.sources, **catalog.metrics, **catalog.training_sets}
    unfit = {name for name, metric in catalog.metrics.items() if any(_misfits(metric, catalog.sources))}
    for name, contract in written.items():
        # A bundled metric refers to the bundled source, not to another source of that name.
        sources = {of: catalog.sources[of] for of in catalog.sources if origin[name] not in bundled or origin[of] in bundled}
        yield from (
            (name, text) for text in _in_expressions(origin[name], contract, {} if name in unfit else sources, catalog.metrics)
        )


def _located(path: Path, where: tuple[int | str, ...], text: str) -> str:
    """A mistake in a contract, with its line and field."""
    return f"{path}:{_line_of(path, *where)}: {yaml_file.as_prefix(where)}{text}"


def _taken(path: Path, contract: Contract, by: Path) -> str:
    key = next(key for key, kind in _KINDS.items() if isinstance(contract, kind))
    return _located(path, (key,), f"the name {_name_of(contract)!r} is taken by {by}")


def _name_of(contract: Contract) -> str:
    return contract.dataset if isinstance(contract, SourceContract) else contract.name


@dataclass(frozen=True)
class CheckedFiles:
    """The result of checking contract files together with the contracts in the same folders.

    :param contracts: the contracts without a mistake, by file.
    :param notes: comparisons that were not possible, because no contract in the folder has the referenced name.
    :param advice: consequences of keys that are left out.
    """

    contracts: Mapping[Path, Contract]
    mistakes: Sequence[str]
    notes: Sequence[str]
    advice: Sequence[str]


def check_files(files: Sequence[Path]) -> CheckedFiles:
    """Read contracts, and compare them with those in the same folders as :func:`load_catalog` does.

    A contract is compared as far as possible if a contract that it names is bundled, or if no contract in its folder could have
    that name.
    """
    catalog, contracts, mistakes, broken = Catalog(), dict[Path, Contract](), list[str](), set[str]()
    origin: dict[str, Path] = {}
    neighbours = [path for folder in dict.fromkeys(path.parent for path in files) for path in _contract_files(folder)]
    for path in dict.fromkeys([*neighbours, *files]):
        try:
            contract = _read(path)
        except ContractError as error:
            mistakes += error.mistakes if path in files else []
            broken |= set(_NAMED.findall(_text_of(path)))
            continue
        name = _name_of(contract)
        if path in files:
            contracts[path] = contract
        if name in origin and path.parent == origin[name].parent and {path, origin[name]} & {*files}:
            mistakes.append(_taken(path, contract, origin[name]))
        origin[name] = path
        catalog.add(name, contract)
    elsewhere = {_name_of(contract): _elsewhere(contract, catalog, broken) for contract in contracts.values()}
    unfit = [*_misfits_of_set(catalog, origin, (), broken), *derived.resolved(catalog.metrics)[1]]
    mistakes += [_located(origin[name], where, text) for name, where, text in unfit if elsewhere.get(name) == []]
    mistakes += [text for name, text in _expressions(catalog, origin, ()) if name in elsewhere]
    notes = [
        f"{origin[name]}: no contract in its folder has {', '.join(missing)}; what it names of this is not checked"
        for name, missing in elsewhere.items()
        if missing
    ]
    sound = {path: contract for path, contract in contracts.items() if not any(text.startswith(f"{path}:") for text in mistakes)}
    metrics = {path: contract for path, contract in sound.items() if isinstance(contract, MetricContract)}
    known = (catalog.sources, catalog.metrics)
    follows = [f"{path}: {text}" for path, metric in metrics.items() for text in effect.on_metric(metric, *known)]
    follows += [f"{path}: {text}" for path, metric in metrics.items() for text in fit.advice(metric, *known)]
    sources = {path: contract for path, contract in sound.items() if isinstance(contract, SourceContract)}
    follows += [f"{path}: {text}" for path, source in sources.items() for text in effect.on_source(source)]
    return CheckedFiles(sound, mistakes, notes, follows)


def _elsewhere(contract: Contract, catalog: Catalog, broken: Collection[str]) -> list[str]:
    """A contract's references that are not compared: to a bundled or broken contract, or one of a kind that no other file has."""
    if isinstance(contract, SourceContract):
        return []
    known: list[tuple[Collection[str], Mapping[str, Contract]]]
    if isinstance(contract, MetricContract):
        known = [(contract.sources_named, catalog.sources), (contract.derived_from, catalog.metrics)]
    elif isinstance(contract, TrainingSetContract):
        known = [(contract.sources, catalog.sources), ([entry.metric for entry in contract.features.metrics], catalog.metrics)]
    else:
        known = [([contract.training_set], catalog.training_sets)]
    elsewhere = {*broken, *(path.stem for path in bundled_folder().glob("*.yaml"))}
    return [
        name
        for names, of_kind in known
        for name in dict.fromkeys(names)
        if name not in of_kind and (name in elsewhere or not of_kind.keys() - {contract.name})
    ]


def completed(metric: MetricContract, sources: Mapping[str, SourceContract]) -> MetricContract:
    """Complete a metric's contract from its source, found in ``sources``, and with the contracts of its dimensions."""
    metric, source = metric.with_contracts(sources), sources[metric.source]
    if metric.publication.timezone is None:
        publication = metric.publication.model_copy(update={"timezone": source.clocks.timezone})
        metric = metric.model_copy(update={"publication": publication})
    if metric.event_window:
        window = metric.event_window.model_copy(update={"timezone": source.clocks.timezone})
        metric = metric.model_copy(update={"window": window})
    if metric.sources:
        entries = [
            entry.model_copy(
                update={"rows": (entry.rows or metric.rows or "newest") if _is_append(sources[entry.source]) else None}
            )
            for entry in metric.sources
        ]
        return metric.model_copy(update={"sources": entries})
    return metric.model_copy(update={"rows": "newest"}) if metric.rows is None and _is_append(source) else metric


def _misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes between a metric and the sources that it reads and joins: where in the metric's file, and what to do."""
    yield from of_joins.misfits(metric, sources)
    if metric.source in sources:
        yield from of_joins.join_misfits(metric, sources)
        yield from of_windows.misfits(metric, sources)
    yield from late_events.late_events_misfits(metric, sources)
    yield from record_changes.misfits(metric, sources)


def _never_append(metric: MetricContract, sources: Mapping[str, SourceContract]) -> bool:
    """Whether all sources of a metric are known, and none keeps several rows per key."""
    known = [sources[entry.source] for entry in metric.read if entry.source in sources]
    return bool(known) and not any(map(_is_append, known))


def _is_append(source: SourceContract) -> bool:
    return source.materialization.reprocess_policy == "append"


def _in_expressions(
    path: Path, contract: Contract, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract] | None = None
) -> Iterator[str]:
    """The mistakes in the SQL of a contract."""
    for where, text in fit.sql_misfits(contract, sources, metrics):
        yield f"{path}:{_line_of(path, *where)}: {yaml_file.as_prefix(where)}{text}"


def sources_beside(paths: Iterable[Path]) -> dict[str, SourceContract]:
    """The sources, by name, that the contracts in ``paths`` may read: from these files and their folders."""
    files = list(paths)
    known = {}
    neighbours = [path for folder in dict.fromkeys(path.parent for path in files) for path in _contract_files(folder)]
    for path in dict.fromkeys([*neighbours, *files]):
        try:
            contract = _read(path) if _NAMES_A_SOURCE.search(path.read_bytes()) else None
        except (ContractError, OSError):
            continue
        if isinstance(contract, SourceContract):
            known[contract.dataset] = contract
    return known


def _contract_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def place_of(folder: Path | None, contract: SourceContract | MetricContract, key: str) -> str:
    """The location of a contract's key, as ``contracts/sales.yaml:4: primary_key``; only the key if no file in ``folder`` has it.

    :param key: as a :class:`~lakehouse.contracts.changed_keys.ChangedKey` names it.
    """
    kind = "dataset" if isinstance(contract, SourceContract) else "metric"
    for path in _deployed(folder):
        content, tree = yaml_file.parsed(path)
        if isinstance(content, dict) and content.get(kind) == getattr(contract, kind):
            if kind == "metric" and content.get("dataset_version", 1) != getattr(contract, "dataset_version", 1):
                continue
            return f"{path}:{yaml_file.line_of(tree, tuple(key.split('.')))}: {key}"
    return key


def bundled_folder() -> Path:
    """The package's folder of example contracts."""
    return Path(str(resources.files("lakehouse.contracts") / "bundled"))


def _line_of(path: Path, *location: int | str) -> int:
    return yaml_file.line_of(yaml_file.parsed(path)[1], location)
