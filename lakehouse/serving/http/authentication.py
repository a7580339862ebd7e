"""Authentication of API requests by token. Tokens are read from a header only, so a page of another site cannot use one.

The token table is in ``tokens``; the sessions of the pages are in ``web.sessions``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from lakehouse.serving.http import tokens
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.http.request_guard import TokenBuckets
from lakehouse.serving.http.tokens import Role, Token

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import PublishedCache

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
        token = tokens.holder(await self.cache.tokens(), text, self.cache.lake.now())
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


def holder(request: Request) -> Token:
    """The token that authenticated a request."""
    token: Token = request.state.token
    return token


def _needed(detail: str) -> Problem:
    return Problem(401, "token-needed", detail, {"WWW-Authenticate": "Bearer"})
