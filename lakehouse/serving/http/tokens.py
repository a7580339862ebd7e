"""``ops/tokens``: who may read and decide through the API. Only a hash of a token is kept, and it is shown once.

Adding and revoking are rows, so that the table tells who could do what when. Unlike the other tables here it is a copy of
nothing: without it, tokens have to be given out anew.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.settings import Settings

_PREFIX = "lh"
_SCHEMA = pa.schema(
    [
        ("token_id", pa.string()),
        ("name", pa.string()),
        ("role", pa.string()),
        ("digest", pa.string()),
        ("added_at", pa.timestamp("us", "UTC")),
        ("expires_at", pa.timestamp("us", "UTC")),
        ("revoked_at", pa.timestamp("us", "UTC")),
    ]
)


class Role(str, Enum):
    """What a token allows: to read, or to read and to decide."""

    READER = "reader"
    STEWARD = "steward"


@dataclass(frozen=True)
class Token:
    """One token, without the secret. ``name`` is who decides with it."""

    token_id: str
    name: str
    role: Role
    digest: str
    added_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it may be used."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def add(settings: Settings, name: str, role: Role, expires_at: datetime | None = None) -> tuple[Token, str]:
    """Make a token.

    :returns: what is kept of it, and the text that its holder has to keep.
    """
    token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    token = Token(token_id, name, role, _digest(secret), settings.clock(), expires_at)
    _append(settings, token)
    return token, f"{_PREFIX}_{token_id}_{secret}"


def revoke(settings: Settings, token: Token) -> None:
    """End a token; again, it is a no-op."""
    _append(settings, replace(token, revoked_at=settings.clock()), f"revoked:{token.token_id}")


def all_of(settings: Settings) -> dict[str, Token]:
    """Every token by its id, also those that are over."""
    found = table_io.read(locations.tokens(settings), [item.name for item in fields(Token)], None, settings.storage_options)
    rows = [] if found is None else found.to_pylist()
    tokens = [Token(**row | {"role": Role(row["role"])}) for row in rows]
    return {one.token_id: one for one in sorted(tokens, key=lambda one: (one.revoked_at is not None, one.added_at))}


def holder(known: dict[str, Token], text: str, now: datetime) -> Token | None:
    """The token that a text is, where it may be used.

    The secret has 256 bits, so that a plain hash of it can neither be guessed nor turned round.
    """
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    token = known.get(token_id) if prefix == _PREFIX else None
    right = hmac.compare_digest(_digest(secret), token.digest if token else _digest(""))
    return token if token and right and token.holds(now) else None


def _append(settings: Settings, token: Token, app_id: str | None = None) -> None:
    table = pa.Table.from_pylist([asdict(token) | {"role": token.role.value}], schema=_SCHEMA)
    table_io.append(locations.tokens(settings), table, options=settings.storage_options, app_id=app_id)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
