"""Sessions of the pages: a token signs in once, then a cookie names the session. Forms contain a secret of the session.

Scripts cannot read the cookie and other sites cannot send it. It is valid only for the pages; the API reads no cookie. Sessions
are stored in memory under a hash of their name, not in the cookie: signing out, or revoking the token, ends a session even for a
copy of its cookie. Sessions end after a fixed time, and with the process. The alternative libraries tried are in
docs/architecture.md.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from fastapi import Request

from lakehouse.serving.responses import Problem
from lakehouse.serving.tokens import Role, Token

if TYPE_CHECKING:
    from fastapi.responses import Response

    from lakehouse.serving.tokens import Authenticator

COOKIE = "lakehouse_session"
#: The lifetime of a session in seconds, and the greatest number of sessions at once.
LASTS, _MOST = 8 * 3600, 1000
_FORM = "application/x-www-form-urlencoded"
_FIELDS = 10


@dataclass(frozen=True)
class Session:
    """A visitor who signed in; ``secret`` is the secret in the visitor's forms."""

    token: Token
    secret: str
    until: float

    @property
    def decides(self) -> bool:
        """Whether the visitor may decide on rows and see their values."""
        return self.token.role is Role.STEWARD


class Sessions:
    """The sessions of this process.

    :param reading_needs_token: whether visitors have to sign in to read.
    """

    def __init__(self, authenticator: Authenticator, *, reading_needs_token: bool) -> None:
        self._authenticator, self.closed = authenticator, reading_needs_token
        self._open: OrderedDict[str, Session] = OrderedDict()

    async def visitor(self, request: Request) -> None:
        """Attach the session to the request.

        :raises Problem: if the visitor has not signed in and reading requires it.
        """
        request.state.session = await self._of(request)
        if request.state.session is None and self.closed:
            raise Problem(401, "sign-in", "sign in to read this page")

    async def anybody(self, request: Request) -> None:
        """Attach the session to the request, if there is one."""
        request.state.session = await self._of(request)

    async def sign_in(self, request: Request, text: str) -> str:
        """Start a session.

        :returns: the value of the cookie.
        :raises Problem: if the token is not valid.
        """
        token = await self._authenticator.holder_of(request, text)
        name = secrets.token_urlsafe(32)
        self._open[_hashed(name)] = Session(token, secrets.token_urlsafe(32), monotonic() + LASTS)
        while len(self._open) > _MOST:
            self._open.popitem(last=False)
        return name

    def sign_out(self, request: Request) -> None:
        """End the session of a request."""
        self._open.pop(_hashed(request.cookies.get(COOKIE, "")), None)

    async def _of(self, request: Request) -> Session | None:
        """The session that the cookie names, while its token is valid."""
        name = _hashed(request.cookies.get(COOKIE, ""))
        current = self._open.get(name)
        if current is None:
            return None
        cache = self._authenticator.cache
        token = (await cache.tokens()).get(current.token.token_id)
        if token is None or not token.holds(cache.lake.now()) or monotonic() > current.until:
            self._open.pop(name, None)
            return None
        return current


def session(request: Request) -> Session | None:
    """The session of a request; None if the visitor has not signed in."""
    current: Session | None = getattr(request.state, "session", None)
    return current


async def form(request: Request) -> dict[str, str]:
    """The fields of a form.

    :raises Problem: if the request is not a form of the pages.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Problem(415, "no-form", "this address accepts only the form of its page")
    try:
        text = (await request.body()).decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS, errors="strict"))
    except ValueError:
        raise Problem(400, "no-form", "the form cannot be read") from None


async def own_form(request: Request) -> tuple[Session, dict[str, str]]:
    """The session of a request, and the fields of its form.

    :raises Problem: if the visitor has not signed in, or the form belongs to another session.
    """
    current = session(request)
    if current is None:
        raise Problem(401, "sign-in", "sign in first; the session may have ended")
    fields = await form(request)
    if not hmac.compare_digest(fields.pop("secret", "").encode(), current.secret.encode()):
        raise Problem(403, "other-form", "this form belongs to an earlier session: load the page again")
    return current, fields


def set_cookie(response: Response, request: Request, name: str) -> None:
    """Set the cookie; it is restricted to TLS if the page was loaded over TLS."""
    over_tls = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(COOKIE, name, max_age=LASTS, path="/", secure=over_tls, httponly=True, samesite="strict")


def delete_cookie(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
