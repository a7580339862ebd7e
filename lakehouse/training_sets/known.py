"""The inputs of a training set: a set of inputs for each source, and the time up to which published numbers count.

Naming the sets of inputs belongs to ``snapshots.input_sets``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse.snapshots import input_sets, known_inputs, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakehouse.settings import Settings


@dataclass(frozen=True)
class SourceInputs:
    """The ids of a source's files, decisions and requests; with ``until``, only rows that had arrived by then count."""

    ids: frozenset[str]
    until: datetime | None = None


@dataclass(frozen=True)
class Knowledge:
    """The inputs of each source, by name, and the time up to which published numbers count."""

    sources: Mapping[str, SourceInputs]
    published_until: datetime

    def with_source(self, source: str, inputs: SourceInputs) -> Knowledge:
        """A copy with other inputs of ``source``."""
        return Knowledge({**self.sources, source: inputs}, self.published_until)

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """The knowledge in its stored form: the sets of inputs are recorded under their names."""
        now = settings.clock()
        inputs = {
            source: {"inputs": input_sets.record(settings, source, of_source.ids, now), "until": _text(of_source.until)}
            for source, of_source in self.sources.items()
        }
        return {"inputs": inputs, "published_until": _text(self.published_until)}


def now(settings: Settings, sources: Iterable[str], known_at: datetime | None = None) -> Knowledge:
    """The knowledge of now, or of ``known_at``."""
    if known_at is None:
        of_sources = {source: SourceInputs(frozenset(named.everything(settings, source))) for source in sources}
        return Knowledge(of_sources, settings.clock())
    of_sources = {
        source: SourceInputs(frozenset(known_inputs.known_at(settings, source, known_at)), known_at) for source in sources
    }
    return Knowledge(of_sources, known_at)


def stored(settings: Settings, about: Mapping[str, Any]) -> Knowledge:
    """Load the knowledge that :meth:`Knowledge.recorded` has stored.

    :raises UnknownInputsError: if a set of inputs is not recorded.
    """
    of_sources = {
        source: SourceInputs(frozenset(input_sets.ids_of(settings, source, entry["inputs"])), _time(entry["until"]))
        for source, entry in about["inputs"].items()
    }
    return Knowledge(of_sources, datetime.fromisoformat(about["published_until"]))


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
