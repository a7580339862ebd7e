"""Which arrival days want a run of bronze by now: those with files that have settled and may be taken. No JVM."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import readiness
from lakehouse.bronze.ingest import news
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.file_stability import Seen
    from lakehouse.bronze.landing import LandingFile, Listing
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Wish:
    """A run of bronze for some files of an arrival day: each file's state by its name.

    ``cause`` is the same for the same files in the same state. ``known`` says that some of them were held as they are: a run
    that has already come to that, for the same cause, need not be made again.
    """

    cause: str
    files: Mapping[str, str]
    known: bool


@dataclass(frozen=True)
class Look:
    """What a look at landing has found: the wishes by arrival day, the names of files not to be judged yet, and remarks."""

    wishes: dict[date, Wish]
    seen: Seen
    unsettled: list[str]
    remarks: list[str]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do, whatever the time, until a file or the ledger changes."""
        return not self.wishes and not self.unsettled


def look(settings: Settings, contract: SourceContract, listing: Listing, seen: Seen, now: datetime) -> Look:
    """Judge what lies in landing.

    :param seen: what the last look has left.
    :param now: the time of this look, by the clock of the one before.
    """
    known = ingestions.all_of(settings, contract.dataset)
    held = {(entry.source_file, entry.bytes, entry.modified) for entry in ingestions.still_held(known)}
    by_manifest = contract.source.complete_when is not None and contract.source.complete_when.manifest is not None
    waiting: dict[date, list[LandingFile]] = defaultdict(list)
    for file in news(listing.files, known):
        if by_manifest or (file.name, file.size, file.modified) not in held:
            waiting[file.arrival_date].append(file)
    watched = [file for day, files in waiting.items() for file in (*files, *listing.tellers.get(day, ()))]
    seen = seen.looked([(file.name, file.state) for file in watched], now)
    patience = timedelta(seconds=settings.settle_seconds)
    settled = {file for file in watched if seen.settled(file.name, file.state, now, patience)}
    wishes: dict[date, Wish] = {}
    remarks = list(listing.complaints)
    for day, files in sorted(waiting.items()):
        tellers = [file for file in listing.tellers.get(day, ()) if file in settled]
        if not tellers and listing.tellers.get(day):
            continue
        ready = readiness.of_day(settings, contract, day, [file for file in files if file in settled], tellers, known)
        remarks += ready.waiting
        if ready.files:
            wishes[day] = _wish(contract, day, ready.files, tellers if by_manifest else [], held)
    return Look(wishes, seen, [file.name for file in watched if file not in settled], remarks)


def left_of_day(settings: Settings, contract: SourceContract, day: date) -> list[str]:
    """Why files of an arrival day are left where they are, as far as the contract says when it is complete."""
    if contract.source.complete_when is None:
        return []
    known, listing = ingestions.all_of(settings, contract.dataset), bronze_landing.listing(settings, contract)
    files = [file for file in news(listing.files, known) if file.arrival_date == day]
    return readiness.of_day(settings, contract, day, files, listing.tellers.get(day, []), known).waiting


def _wish(
    contract: SourceContract,
    day: date,
    files: Sequence[LandingFile],
    manifests: Iterable[LandingFile],
    held: set[tuple[str, int, datetime | None]],
) -> Wish:
    """A run for these files; where manifests tell of them, another manifest is another reason."""
    states = "|".join(f"{file.name}:{file.state}" for file in (*files, *manifests))
    cause = f"{contract.dataset}:{day}:{hashlib.sha256(states.encode()).hexdigest()[:16]}"
    known = any((file.name, file.size, file.modified) in held for file in files)
    return Wish(cause, {file.name: file.state for file in files}, known)
