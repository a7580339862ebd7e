"""The rules between a derived metric's contract and its inputs' contracts, and the derived contract completed from the inputs.

They give the columns that a derived metric may read from an input, and those that an expression reads. Rules for a single
contract belong to ``metric``. A mistake names the field, for the loader's line numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.base import Name, Strict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract


ROW_COUNT = "row_count"
#: The first day of a row's period.
PERIOD_START = "period_start"
#: A text in an expression, and a reference written as ``input.column``.
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_REFERENCE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)")


class DerivedInput(Strict):
    """The published columns that a derived metric may read from an input metric. Part of the derived contract's text.

    Together with the revisions that a number names, they are all that is needed to compute the number again.
    """

    metric: Name
    grain: list[Name] = Field(default_factory=list)
    measures: list[Name] = Field(description="Those that may be read besides row_count.")
    adjusts: bool = Field(False, description="Whether changes of closed periods are booked as adjustments.")
    window: list[Name] = Field(
        default_factory=list, description="The columns of the grain that identify a window; longer periods than a day lack them."
    )

    def of(self, kind: Kind) -> DerivedInput:
        """Columns read from the input's periods of ``kind``."""
        grain = [name for name in self.grain if name not in self.window]
        return self if kind is Kind.DAY else self.model_copy(update={"grain": grain})

    @property
    def columns(self) -> list[str]:
        """The columns of the input that an expression may read."""
        return [*self.measures, ROW_COUNT]

    def is_summed(self, grain: Collection[str]) -> bool:
        """Whether several rows of the input may add up to one row of ``grain``."""
        return self.adjusts or not set(self.grain) <= set(grain)


def references(sql: str) -> list[tuple[str, str]]:
    """The ``input.column`` references of an expression, in lower case, in order, each once. Text literals are ignored."""
    code = _TEXT.sub("''", sql).replace("`", "")
    return list(dict.fromkeys((found[1].lower(), found[2].lower()) for found in _REFERENCE.finditer(code)))


_FISCAL = ("fiscal_quarter", "fiscal_year")


class Misfit(NamedTuple):
    """A mistake in a derived metric's contract: where it is, and what to do."""

    metric: str
    location: tuple[int | str, ...]
    text: str


def resolved(metrics: Mapping[str, MetricContract]) -> tuple[dict[str, MetricContract], list[Misfit]]:
    """The derived metrics, completed with the columns read from their inputs and the first input's source, and all mistakes.

    :param metrics: all metrics, by name.
    """
    mistakes = list(_cycles(metrics))
    within_cycles = {contract.metric for contract in mistakes}
    done: dict[str, MetricContract] = {}
    for metric in _in_order(metrics, [name for name in metrics if name not in within_cycles]):
        known = {name: done.get(name) or metrics.get(name) for name in metric.derived_from}
        unknown = [name for name, contract in known.items() if contract is None]
        if unknown:
            listed = ", ".join(sorted(metrics)) or "none"
            mistakes += [Misfit(metric.name, ("from",), f"no metric is called {name!r}; there are {listed}") for name in unknown]
            continue
        inputs = {name: contract for name, contract in known.items() if contract is not None}
        unfit = [*_unfit(metric, metrics, inputs), *_unread(metric, inputs)]
        mistakes += [Misfit(metric.name, location, text) for location, text in unfit]
        changes = {
            "source": inputs[metric.derived_from[0]].source,
            "inputs": [_read(metric, contract) for contract in inputs.values()],
        }
        done[metric.name] = metric.model_copy(update=changes)
    return done, mistakes


def downstream(metrics: Mapping[str, MetricContract], names: Collection[str]) -> list[MetricContract]:
    """The metrics derived from the metrics ``names``, directly or indirectly; each after its inputs."""
    reached, made_of_them = set(names), []
    for metric in _in_order(metrics, list(metrics)):
        if reached.intersection(metric.derived_from):
            reached.add(metric.name)
            made_of_them.append(metric)
    return made_of_them


def _in_order(metrics: Mapping[str, MetricContract], names: Sequence[str]) -> Iterator[MetricContract]:
    """The derived metrics among ``names``, each after its inputs; metrics that depend on a cycle are left out."""
    waiting = {name: metrics[name] for name in names if metrics[name].is_derived}
    while True:
        ready = [metric for metric in waiting.values() if not waiting.keys() & set(metric.derived_from)]
        if not ready:
            return
        yield from ready
        for metric in ready:
            del waiting[metric.name]


def _cycles(metrics: Mapping[str, MetricContract]) -> Iterator[Misfit]:
    """A mistake for each metric on a cycle, with the cycle's path."""
    for name, metric in metrics.items():
        paths = [[name, contract] for contract in metric.derived_from]
        seen: set[str] = set()
        while paths:
            path = paths.pop(0)
            if path[-1] == name:
                yield Misfit(name, ("from",), f"{' -> '.join(path)}: a metric cannot be made of itself; take one of them out")
                break
            if path[-1] not in seen and path[-1] in metrics:
                seen.add(path[-1])
                paths += [[*path, contract] for contract in metrics[path[-1]].derived_from]


def _unfit(
    metric: MetricContract, metrics: Mapping[str, MetricContract], inputs: Mapping[str, MetricContract]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Grains and roll-ups that do not fit an input, in any dataset version that readers may see."""
    for name, contract in inputs.items():
        for version in _versions(metrics, contract):
            called = version.name
            missing = [column for column in metric.grain if column not in version.grain]
            if missing:
                of_input = ", ".join(version.grain) or "none"
                yield (
                    ("grain",),
                    f"{', '.join(missing)} is not in the grain of {called}, which is {of_input}; add it there, or leave it out",
                )
            without = [kind for kind in metric.publication.rollups if kind not in version.publication.rollups]
            if without:
                listed = ", ".join(without)
                yield ("publication", "rollups"), f"{called} has no numbers per {listed}; add {listed} to its rollups"
            of_window = [column for column in metric.grain if version.event_window and column in version.event_window.columns]
            if of_window and metric.publication.rollups:
                text = (
                    f"longer periods are not divided into the windows of {called}; leave {', '.join(of_window)} out of the grain"
                )
                yield ("publication", "rollups"), text
        years = {part.publication.fiscal_year_starts for part in (metric, contract)}
        if len(years) > 1 and set(_FISCAL).intersection(metric.publication.rollups):
            text = f"the fiscal year of {name} begins with month {contract.publication.fiscal_year_starts}; give the same month"
            yield ("publication", "fiscal_year_starts"), text


def _unread(metric: MetricContract, inputs: Mapping[str, MetricContract]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Expressions that read columns that no input has, or columns whose rows do not add up."""
    for measure in metric.measures:
        read = references(measure.sql)
        if not any(name in inputs for name, _ in read):
            yield ("measures",), f"{measure.name} reads no input; write 'input.measure', as in {_example(inputs)}"
        for name, column in read:
            if name not in inputs:
                yield ("measures",), f"{measure.name} reads {name}.{column}, and {name!r} is not named by 'from'"
                continue
            contract = inputs[name]
            types = {part.name: part for part in contract.measures}
            if column != ROW_COUNT and column not in types:
                known = ", ".join([*types, ROW_COUNT])
                yield ("measures",), f"{measure.name} reads {name}.{column}; {name} has the measures {known}"
            elif column != ROW_COUNT and column not in _read(metric, contract).measures:
                why = (
                    "books adjustments"
                    if contract.publication.after_close == "adjust"
                    else f"has one row per {', '.join(contract.grain)}"
                )
                yield (
                    ("measures",),
                    f"{measure.name} reads {name}.{column}, which is not additive, and {name} {why}; read additive ones",
                )


def _read(metric: MetricContract, contract: MetricContract) -> DerivedInput:
    """The columns that a derived metric may read from an input; additive measures only, where several rows make one."""
    names = [measure.name for measure in contract.measures]
    read = DerivedInput(
        metric=contract.name,
        grain=contract.grain,
        measures=names,
        adjusts=contract.publication.after_close == "adjust",
        window=contract.event_window.columns if contract.event_window else [],
    )
    return read.model_copy(update={"measures": contract.additive}) if read.is_summed(metric.grain) else read


def _versions(metrics: Mapping[str, MetricContract], contract: MetricContract) -> list[MetricContract]:
    """The dataset versions that readers of a metric's table may see: all of them; for a later version, only itself."""
    if contract.dataset_version > 1:
        return [contract]
    return [other for other in metrics.values() if other.metric == contract.metric]


def _example(inputs: Mapping[str, MetricContract]) -> str:
    name, contract = next(iter(inputs.items()))
    return f"{name}.{contract.measures[0].name}"
