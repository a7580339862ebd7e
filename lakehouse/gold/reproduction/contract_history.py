"""The contracts under which a number was computed: stored when it is published, read when it is reproduced (rule R10).

A revision names its metric's contract by hash. The contract of the source is the one under which silver was built at that time;
it is recorded with the metric's contract. The rows are in ``ops/contracts`` (``ledger.contract_archive``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table
from lakehouse.ledger import contract_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.lake import Lake

#: The contracts that this process stored last, by table and metric, so that the next commits of a run do not store them again.
_kept: dict[tuple[str, str], tuple[str, str, str | None]] = {}


class ForgottenContractError(LakehouseError):
    """A contract of which only the hash is stored, or that this code cannot read. The message names it and what to do."""


@dataclass(frozen=True)
class HistoricalContracts:
    """The contracts of a metric and its source; ``certain`` if the source's contract is known to be the one of that time."""

    metric: MetricContract
    source: SourceContract
    certain: bool = True


def remember(lake: Lake, metric: MetricContract, contract: SourceContract) -> None:
    """Store both contracts, and those of further sources and dimensions, once per process and change, before publishing.

    The metric's contract is stored with the hash of the source's contract in Silver's newest commit. This is not ``contract``
    if the source's contract has changed and Silver was not built since.
    """
    archive = locations.contract_archive(lake).address
    others = [*metric.further_sources.values(), *metric.dimensions.values()]
    source = "+".join(provenance.of_contract(one) for one in (contract, *others))
    metric_version, in_silver = (
        provenance.of_contract(metric),
        provenance.newest_in_silver(lake, contract.dataset)["contract"],
    )
    if _kept.get((archive, metric.name)) == (metric_version, source, in_silver):
        return
    now = lake.now()
    for stored in (contract, *others):
        version = provenance.of_contract(stored)
        contract_archive.record(lake, "source", stored.dataset, version, stored.model_dump_json(), now)
    contract_archive.record(
        lake,
        "metric",
        metric.name,
        metric_version,
        metric.model_dump_json(),
        now,
        source_version=in_silver or provenance.of_contract(contract),
    )
    _kept[archive, metric.name] = (metric_version, source, in_silver)


def of_then(
    lake: Lake, now: HistoricalContracts, revision: Mapping[str, Any], sources: Mapping[str, SourceContract]
) -> HistoricalContracts:
    """The contracts under which a revision was computed; the metric's includes those of its further sources and dimensions.

    :param now: the present contracts; they are used if they have not changed.
    :param revision: the published columns of a row of the revision.
    :param sources: the present contracts of all sources.
    :raises ForgottenContractError: if the metric's contract was a different one and is not stored.
    """
    metric, version = now.metric, revision["contract_version"]
    name = metric.model_copy(update={"dataset_version": revision["dataset_version"] or 1}).name
    if version != provenance.of_contract(metric):
        stored = contract_archive.find(lake, "metric", name, version)
        if stored is None:
            msg = (
                f"{name} was published under the contract {version}, which is not stored in "
                f"{locations.contract_archive(lake)}; restore the contract's file of that time to reproduce the number"
            )
            raise ForgottenContractError(msg)
        metric = _read(MetricContract, stored, f"{name} ({version})")
    metric = metric.with_contracts({**sources, **_others_of_then(lake, revision, sources)})
    if version == provenance.of_contract(metric.as_in_utc):  # earlier releases computed numbers of every zone in UTC
        metric = metric.as_in_utc
    source_version = contract_archive.source_version(lake, name, version, revision["published_at"])
    if source_version in {None, provenance.of_contract(now.source)}:
        return HistoricalContracts(metric, now.source, certain=source_version is not None)
    source = contract_archive.find(lake, "source", metric.source, str(source_version))
    if source is None:
        return HistoricalContracts(metric, now.source, certain=False)
    return HistoricalContracts(metric, _read(SourceContract, source, f"{metric.source} ({source_version})"))


def _others_of_then(lake: Lake, revision: Mapping[str, Any], sources: Mapping[str, SourceContract]) -> dict[str, SourceContract]:
    """The contracts of the further sources and dimensions that a revision names, as far as they were different and are stored."""
    earlier = {}
    for name, entry in published_table.parse(revision.get("dimension_inputs")).items():
        if name not in sources or provenance.of_contract(sources[name]) != entry["contract"]:
            stored = contract_archive.find(lake, "source", name, entry["contract"])
            if stored is not None:
                earlier[name] = _read(SourceContract, stored, f"{name} ({entry['contract']})")
    return earlier


def _read(kind: type[Any], stored: dict[str, Any], name: str) -> Any:
    try:
        return kind.model_validate(contract_archive.readable(stored))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        msg = f"this code cannot read the former contract {name}: {where}: {first['msg']}; run the code version of that time"
        raise ForgottenContractError(msg) from None
