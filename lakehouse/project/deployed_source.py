"""The source given as a contract file or dataset name, with the lake and contracts of its deployment.

Belongs here: the deployment to which a contract file belongs. Loading contracts belongs to ``contracts.loader``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.contracts import SourceContract, load_catalog, load_contract
from lakehouse.contracts.loader import load_sound_catalog
from lakehouse.errors import LakehouseError
from lakehouse.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts import Catalog


class UnknownSourceError(LakehouseError):
    """No source matches. The message names the given text and the known datasets."""


@dataclass(frozen=True)
class DeployedSource:
    """A source among the contracts of a deployment.

    :param left_out: the mistakes for which unrelated contracts are left out.
    :param is_of_folder: whether the contracts in the file's folder are used, because the deployment does not have this contract.
    """

    lake: Lake
    catalog: Catalog
    dataset: str
    left_out: Sequence[str] = ()
    is_of_folder: bool = False

    @property
    def contract(self) -> SourceContract:
        """The contract of the source."""
        return self.catalog.sources[self.dataset]


def of(meant: str | Path) -> DeployedSource:
    """Resolve a contract file or a dataset name to its source.

    :raises UnknownSourceError: if ``meant`` is neither, or is a contract of another kind.
    :raises ContractError: if the contract has a mistake.
    """
    path = Path(meant)
    loaded = load_contract(path) if path.is_file() else None  # its own mistakes are reported before those of others
    lake = Lake.open()
    name = f"{meant}" if loaded is None else getattr(loaded, "dataset", "")
    catalog, left_out = load_sound_catalog(lake.settings.contracts, name, bundled=lake.settings.bundled_contracts)
    if loaded is None:
        if name in catalog.sources:
            return DeployedSource(lake, catalog, name, left_out)
        known = ", ".join(sorted(catalog.sources)) or "none"
        raise UnknownSourceError(f"{meant} is neither a file nor a dataset; known datasets are {known}")
    if not isinstance(loaded, SourceContract):
        raise UnknownSourceError(f"{meant} is not the contract of a source; name that of the source")
    if catalog.sources.get(loaded.dataset) == loaded:
        return DeployedSource(lake, catalog, loaded.dataset, left_out)
    lake = lake.with_settings(contracts=path.parent.absolute())
    return DeployedSource(lake, load_catalog(path.parent, bundled=False), loaded.dataset, left_out, is_of_folder=True)
