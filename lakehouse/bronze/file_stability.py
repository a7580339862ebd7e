"""Whether a file has been left alone for a while, found out by looking at it more than once.

A file's time alone does not tell: copying tools set an old one while they write, and clocks differ. Seen twice in the same
state, so long apart, it tells by one clock, the one of whoever looks; a file that has settled is then older than that, too.

What was seen is remembered as short tokens of files and states, a few bytes each, and only of files that somebody waits for.
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
class Seen:
    """Since when each of some files has been seen in its state, look for look, by its token."""

    since: Mapping[str, datetime] = field(default_factory=dict)

    def looked(self, files: Collection[tuple[str, str]], now: datetime) -> Seen:
        """What has been seen after one more look.

        :param files: the name and the state of each file that is there now; others are forgotten.
        """
        since = {}
        for name, state in files:
            known = self.since.get(one := token(name, state))
            since[one] = known if known is not None and known <= now else now  # a clock that was put back begins anew
        return Seen(since)

    def settled(self, name: str, state: str, now: datetime, patience: timedelta) -> bool:
        """Whether the file has been in this state for so long."""
        known = self.since.get(token(name, state))
        return known is not None and now - known >= patience

    def to_json(self) -> dict[str, str]:
        """The tokens of each time, as JSON that stays small."""
        by_time: dict[datetime, list[str]] = defaultdict(list)
        for one, since in self.since.items():
            by_time[since].append(one)
        return {since.isoformat(): "".join(sorted(tokens)) for since, tokens in sorted(by_time.items())}

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Seen:
        """What :meth:`to_json` said.

        :raises ValueError: for anything else.
        """
        size = len(token("", ""))
        found: dict[str, datetime] = {}
        for since, tokens in said.items():
            at = datetime.fromisoformat(since)
            found |= {tokens[begin : begin + size]: at for begin in range(0, len(tokens), size)}
        return Seen(found)


def token(name: str, state: str) -> str:
    """Eight characters that are others for another file or state (one time in 280 million million they are not)."""
    digest = hashlib.sha256(f"{name}\0{state}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode()
