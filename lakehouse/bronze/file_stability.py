"""Whether a file is still being written, judged by observing it more than once.

A file counts as stable when two observations at least ``settle_seconds`` apart show the same size and modification time; only
the observer's clock is used. The modification time alone proves nothing: copying tools set an old one while they write, and
clocks differ. Observations are stored as tokens of file and state, a few bytes each, and only for pending files.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_TOKEN_BYTES = 6


@dataclass(frozen=True)
class Observations:
    """The time since which each file has been observed in its present state, by the token of file and state."""

    since: Mapping[str, datetime] = field(default_factory=dict)

    def record(self, files: Collection[tuple[str, str]], now: datetime) -> Observations:
        """The observations after a further one.

        :param files: the name and the state of each file that exists now; other files are dropped.
        """
        since = {}
        for name, state in files:
            key = token(name, state)
            earlier = self.since.get(key)
            since[key] = earlier if earlier is not None and earlier <= now else now  # starts over if a clock was set back
        return Observations(since)

    def is_stable(self, name: str, state: str, now: datetime, patience: timedelta) -> bool:
        """Whether the file has been observed in this state for at least ``patience``."""
        since = self.since.get(token(name, state))
        return since is not None and now - since >= patience

    def to_json(self) -> dict[str, str]:
        """The tokens by time, in compact JSON."""
        by_time: dict[datetime, list[str]] = defaultdict(list)
        for key, since in self.since.items():
            by_time[since].append(key)
        return {since.isoformat(): "".join(sorted(tokens)) for since, tokens in sorted(by_time.items())}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Observations:
        """The observations that :meth:`to_json` has written.

        :raises ValueError: for anything else.
        """
        size = len(token("", ""))
        since: dict[str, datetime] = {}
        for time, tokens in document.items():
            observed = datetime.fromisoformat(time)
            since |= {tokens[begin : begin + size]: observed for begin in range(0, len(tokens), size)}
        return Observations(since)


def token(name: str, state: str) -> str:
    """Eight characters for a file and its state; two tokens collide once in 280 million million times."""
    digest = hashlib.sha256(f"{name}\0{state}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode()
