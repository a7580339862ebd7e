"""The state of a source for requests: known missing data, the watermark, and the recorded deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakehouse.gold.restatement import closing
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakehouse.contracts import SourceContract
    from lakehouse.gold.restatement.closing import SourceState
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion


@dataclass(frozen=True)
class ObservedSource:
    """The state of a source at one moment.

    :param deliveries: all recorded deliveries, by arrival day and file.
    """

    state: SourceState
    deliveries: Sequence[Ingestion]

    @cached_property
    def newest_arrival(self) -> datetime | None:
        """The arrival time of the source's newest row; None before the first."""
        return max((entry.newest_arrival for entry in self.deliveries if entry.newest_arrival is not None), default=None)


def read(lake: Lake, contract: SourceContract, _: ObservedSource | None) -> ObservedSource:
    """Read the current state of a source.

    :param lake: keeps tables open, so that a table without new commits is not read again.
    """
    state = closing.read_source(lake, contract)
    return ObservedSource(state, ingestions.all_of(lake, contract.dataset))
