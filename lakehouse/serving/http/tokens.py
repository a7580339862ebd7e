"""``ops/tokens``: the tokens for reading and deciding through the API. A token is shown once, and only its hash is stored.

Adding and revoking tokens append rows, so the table records permissions over time. It cannot be rebuilt from other tables: if it
is lost, new tokens must be issued.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake

_PREFIX = "lh"


class Role(str, Enum):
    """The permissions of a token: reading, or reading and deciding."""

    READER = "reader"
    STEWARD = "steward"


@dataclass(frozen=True)
class Token:
    """A token without its secret. ``name`` is the person who decides with it."""

    token_id: str
    name: str
    role: Role
    digest: str
    added_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether the token is valid."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def log(lake: Lake) -> LogTable[Token]:
    """The table of tokens."""
    return LogTable(Token, lake, locations.tokens(lake), journaled=True)


def add(lake: Lake, name: str, role: Role, expires_at: datetime | None = None) -> tuple[Token, str]:
    """Create a token.

    :returns: the token as stored, and the text for its holder.
    """
    token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    token = Token(token_id, name, role, _digest(secret), lake.now(), expires_at)
    log(lake).append([token])
    return token, f"{_PREFIX}_{token_id}_{secret}"


def revoke(lake: Lake, token: Token) -> None:
    """Revoke a token. Idempotent."""
    log(lake).append([replace(token, revoked_at=lake.now())], app_id=f"revoked:{token.token_id}")


def all_of(lake: Lake) -> dict[str, Token]:
    """All tokens, by id, including expired and revoked ones."""
    tokens = sorted(log(lake).read(), key=lambda token: (token.revoked_at is not None, token.added_at))
    return {token.token_id: token for token in tokens}


def holder(issued: dict[str, Token], text: str, now: datetime) -> Token | None:
    """The token represented by ``text``, if it is valid.

    The secret has 256 random bits, so a plain hash can neither be guessed nor inverted.
    """
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    token = issued.get(token_id) if prefix == _PREFIX else None
    right = hmac.compare_digest(_digest(secret), token.digest if token else _digest(""))
    return token if token and right and token.holds(now) else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
