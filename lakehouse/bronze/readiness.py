"""Which files of an arrival day may be taken: whether the day is complete, as its contract has it, and as promised.

Whether a file has been left alone for a while is judged by the sensor, which looks more than once (``bronze.file_stability``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze.file_formats import FileProblem
from lakehouse.bronze.manifests import ManifestProblem, Promise, promises
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from lakehouse.bronze.landing import Fingerprint, LandingFile
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

_SHOWN = 5


@dataclass(frozen=True)
class Readiness:
    """The files of an arrival day that may be taken, and for people why the others may not.

    ``promised`` says of each of these files what its manifest does; nothing where the contract asks for none.
    """

    files: Sequence[LandingFile]
    waiting: list[str] = field(default_factory=list)
    promised: Mapping[str, Promise] = field(default_factory=dict)


def of_day(
    settings: Settings,
    contract: SourceContract,
    day: date,
    files: Sequence[LandingFile],
    tellers: Sequence[LandingFile],
    known: Collection[Ingestion],
) -> Readiness:
    """Judge the files of a day without reading them.

    :param files: those that Bronze has not taken as they are now.
    :param tellers: the day's markers or manifests.
    :param known: every recorded delivery; a file that was taken counts as there when it is gone from landing.
    """
    complete = contract.source.complete_when
    if complete is None or not files:
        return Readiness(files)
    if not tellers:
        kind = "manifest" if complete.manifest else "marker"
        name = complete.pattern.replace("{arrival_date}", f"{day}")
        return Readiness([], [f"{_named(files)} of {day} wait for the {kind} {name}"])
    if complete.marker:
        return Readiness(files)
    return _as_promised(settings, contract, files, tellers, known)


def _as_promised(
    settings: Settings,
    contract: SourceContract,
    files: Sequence[LandingFile],
    manifests: Sequence[LandingFile],
    known: Collection[Ingestion],
) -> Readiness:
    """Take what manifests name, once all of that is there."""
    promised: dict[str, Promise] = {}
    waiting = []
    for manifest in manifests:
        with bronze_landing.open_file(settings, contract, manifest.path) as stream:
            content = stream.read()
        try:
            promised |= {one.file: one for one in promises(manifest.name, content)}
        except ManifestProblem as problem:
            waiting.append(f"{problem}")
    there = {file.name for file in files}
    taken = {entry.source_file: entry for entry in known if entry.status != "held"}
    for one in promised.values():
        entry = taken.get(one.file)
        if one.file not in there and (entry is None or one.measures.get("sha256", entry.content_hash) != entry.content_hash):
            waiting.append(f"{one.manifest} names {one.file}, which is not there{' with that sha256' if entry else ''}")
    if waiting:
        return Readiness([], [*waiting, f"{_named(files)} wait for that"])
    unnamed = [file for file in files if file.name not in promised]
    told = [f"{_named(unnamed)}: no manifest names it"] if unnamed else []
    return Readiness([file for file in files if file.name in promised], told, promised)


def broken_promises(
    settings: Settings, contract: SourceContract, ready: Readiness, prints: Mapping[str, Fingerprint]
) -> dict[str, str]:
    """By file what it is otherwise than its manifest says, or why that cannot be told; empty where all is as promised.

    :param prints: of all files that are ready.
    """
    found = {}
    for file in ready.files:
        one = ready.promised.get(file.name)
        if one is not None and (told := _broken(settings, contract, file, one, prints[file.name])):
            found[file.name] = "; ".join(told)
    return found


def _broken(settings: Settings, contract: SourceContract, file: LandingFile, one: Promise, print_: Fingerprint) -> list[str]:
    if print_.problem:
        return [print_.problem]
    measures: dict[str, int | str] = {"bytes": print_.bytes, "sha256": print_.content_hash}
    if "rows" in one.measures:
        try:
            measures["rows"] = bronze_landing.count_records(settings, contract, file)
        except FileProblem as problem:
            return [f"{problem}"]
    return one.broken_by(measures)


def _named(files: Sequence[LandingFile]) -> str:
    return join_limited([file.name for file in files], _SHOWN, " files")
