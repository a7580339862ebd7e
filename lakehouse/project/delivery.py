"""Copies given files to the landing folder of a source, as files of an arrival day.

The source is given as a contract file or a dataset name; its deployment, with the lake and the contracts, is found from it.
Loading contracts belongs to ``contracts``, reading and ingesting the files to ``bronze``.
"""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze import pending_files
from lakehouse.contracts import SourceContract, load_catalog, load_contract
from lakehouse.contracts.inputs import DAY
from lakehouse.contracts.loader import load_sound_catalog, with_examples
from lakehouse.errors import LakehouseError
from lakehouse.lake import Lake
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog


_COPIES = 1_000


class UndeliveredFileError(LakehouseError):
    """Files that cannot be delivered; no file was. The message names the file and the remedy."""


def deliver(lake: Lake, contract: SourceContract, files: Sequence[Path], day: date) -> list[Path]:
    """Copy files to the landing folder as files of an arrival day; a file that is already in place is not copied again.

    A file takes the place of a held file of its name: a person has mended it.

    Together the files are one delivery, see ``bronze.pending_files``.

    :returns: the paths in the landing folder.
    :raises UndeliveredFileError: for a file that is missing or cannot be read, a landing folder that is not local, or a different
        file where the pattern takes one file a day.
    """
    landing = lake.landing_of(contract.dataset)
    if "://" in landing:
        msg = (
            f"the files of {contract.dataset} arrive in {landing}: upload yours there, or set LAKEHOUSE_LANDING to a local folder"
        )
        raise UndeliveredFileError(msg)
    for file in files:
        if reason := unreadable(file):
            msg = f"{file}: {reason}"
            raise UndeliveredFileError(msg)
    held = {Path(landing, entry.source_file) for entry in ingestions.still_held(ingestions.all_of(lake, contract.dataset))}
    targets: list[Path] = []
    for file in files:
        targets.append(_target(Path(landing), contract.source.landing, file, day, targets, held))
    pending_files.record_run(lake, contract, day, [target.relative_to(landing).as_posix() for target in targets])
    for file, target in zip(files, targets):
        if not _has_content(target, file):
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.part")  # no pattern matches a name that starts with a dot
            try:
                shutil.copyfile(file, partial)
            except OSError as problem:
                partial.unlink(missing_ok=True)
                msg = f"{file}: it cannot be copied to {target.parent} ({problem.strerror or problem}); the same command goes on"
                raise UndeliveredFileError(msg) from None
            partial.replace(target)
    return targets


def unreadable(file: Path) -> str | None:
    """The reason why a file cannot be read, and the remedy; None if it can be."""
    try:
        f"{file.name}".encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8: rename it"
    if not file.exists():
        return "there is no such file"
    if file.is_dir():
        return "it is a folder: name the files in it"
    if not file.is_file():
        return "it is a pipe, a socket or a device: write what it gives to a file first, and name that"
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as problem:
        return f"it cannot be read ({problem.strerror or problem})"
    return None


def _has_content(target: Path, file: Path) -> bool:
    return target.exists() and filecmp.cmp(file, target, shallow=False)


def _target(landing: Path, pattern: str, file: Path, day: date, taken: Sequence[Path], held: Collection[Path]) -> Path:
    """The name of a file in the landing folder: the pattern, with the file's own name in place of the first star.

    :param taken: the names of other files of the delivery.
    :param held: the held files in landing, which it may replace.
    """
    before, star, after = pattern.replace(DAY, f"{day}").partition("*")
    ending = after.replace("*", "")
    stem = ("" if before.endswith("/") or not before else ".") + file.name.removesuffix(ending)
    for copy in range(1, _COPIES) if star else (1,):
        name = f"{before}{stem if star else ''}{'' if copy == 1 else f'.{copy}'}{ending}"
        target = landing / name
        if target not in taken and (not target.exists() or target in held or _has_content(target, file)):
            return target
    takes = "has a thousand files of this name" if star else "takes one file a day, and has another one"
    msg = f"{file}: the landing folder of {day} ({pattern}) {takes}"
    raise UndeliveredFileError(msg)


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


def deployed_source(meant: str | Path) -> DeployedSource:
    """Resolve a contract file or a dataset name to its source.

    :raises UnknownSourceError: if ``meant`` is neither, or is a contract of another kind.
    :raises ContractError: if the contract has a mistake.
    """
    path = Path(meant)
    loaded = load_contract(path) if path.is_file() else None  # its own mistakes are reported before those of others
    lake = Lake.open()
    name = f"{meant}" if loaded is None else getattr(loaded, "dataset", "")
    catalog, left_out = load_sound_catalog(lake.settings.contracts, name, bundled=with_examples(lake.settings))
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
