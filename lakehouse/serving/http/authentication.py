"""Who asks: tokens and what they allow. A token comes in a header only, so that no page of another site can use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from lakehouse.serving.http import tokens
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.http.request_guard import Buckets
from lakehouse.serving.http.tokens import Role, Token

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import Lake

_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="From `lakehouse token add`.")
#: Wrong tokens of one address: so many a second in the long run, and so many at once.
_WRONG = (0.2, 10)
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


@dataclass
class Callers:
    """The dependencies that ask for a token."""

    lake: Lake

    def __post_init__(self) -> None:
        self._wrong = Buckets(*_WRONG)

    async def reader(self, request: Request, given: Given) -> None:
        """Any token.

        :raises Problem: without one.
        """
        request.state.token = await self._holder(request, given)

    async def steward(self, request: Request, given: Given) -> None:
        """A steward's token.

        :raises Problem: without one.
        """
        token = request.state.token = await self._holder(request, given)
        if token.role is not Role.STEWARD:
            raise Problem(403, "not-a-steward", f"the token of {token.name} allows reading; a steward's is needed")

    async def holder_of(self, request: Request, text: str) -> Token:
        """The token that a text is.

        :raises Problem: where it is none that may be used; too often, and the address has to wait.
        """
        token = tokens.holder(await self.lake.tokens(), text, self.lake.settings.clock())
        if token is None:
            wait = self._wrong.wait(request.client.host if request.client else "")
            if wait:
                raise Problem(429, "too-many", "too many wrong tokens", {"Retry-After": f"{int(wait) + 1}"})
            raise _needed("the token is unknown, expired or revoked")
        return token

    async def _holder(self, request: Request, given: HTTPAuthorizationCredentials | None) -> Token:
        if given is None:
            raise _needed("send 'Authorization: Bearer <token>'; 'lakehouse token add' makes one")
        return await self.holder_of(request, given.credentials)


def holder(request: Request) -> Token:
    """The token that a request was let in with."""
    token: Token = request.state.token
    return token


def _needed(detail: str) -> Problem:
    return Problem(401, "token-needed", detail, {"WWW-Authenticate": "Bearer"})
