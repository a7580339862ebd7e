"""``ops/tokens``: the tokens for reading and deciding through the API, and the authentication of requests by token.

A token is shown once, and only its hash is stored. Adding and revoking tokens append rows, so the table records permissions over
time. It cannot be rebuilt from other tables: if it is lost, new tokens must be issued.

Tokens are read from a header only, so a page of another site cannot use them. The sessions of the pages are in ``sessions``.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable
from lakehouse.serving.request_guard import TokenBuckets
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake
    from lakehouse.serving.published_cache import PublishedCache

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


_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="From `lakehouse admin token add`.")
#: Wrong tokens accepted from one address: per second in the long run, and at once.
_WRONG = (0.2, 10)
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


@dataclass
class Authenticator:
    """FastAPI dependencies that require a token."""

    cache: PublishedCache

    def __post_init__(self) -> None:
        self._wrong = TokenBuckets(*_WRONG)

    async def reader(self, request: Request, given: Given) -> None:
        """Require any token.

        :raises Problem: if the request has no valid token.
        """
        request.state.token = await self._holder(request, given)

    async def steward(self, request: Request, given: Given) -> None:
        """Require a steward's token.

        :raises Problem: if the request has no valid token, or it is not a steward's.
        """
        token = request.state.token = await self._holder(request, given)
        if token.role is not Role.STEWARD:
            raise Problem(403, "not-a-steward", f"the token of {token.name} allows reading; a steward's token is needed")

    async def holder_of(self, request: Request, text: str) -> Token:
        """The token represented by ``text``.

        :raises Problem: if the token is not valid; after too many such attempts, the address has to wait.
        """
        token = holder(await self.cache.tokens(), text, self.cache.lake.now())
        if token is None:
            wait = self._wrong.wait(request.client.host if request.client else "")
            if wait:
                raise Problem(429, "too-many", "too many wrong tokens", {"Retry-After": f"{int(wait) + 1}"})
            raise _needed("the token is unknown, expired or revoked")
        return token

    async def _holder(self, request: Request, given: HTTPAuthorizationCredentials | None) -> Token:
        if given is None:
            raise _needed("send 'Authorization: Bearer <token>'; 'lakehouse admin token add' creates one")
        return await self.holder_of(request, given.credentials)


def holder_of_request(request: Request) -> Token:
    """The token that authenticated a request."""
    token: Token = request.state.token
    return token


def _needed(detail: str) -> Problem:
    return Problem(401, "token-needed", detail, {"WWW-Authenticate": "Bearer"})
