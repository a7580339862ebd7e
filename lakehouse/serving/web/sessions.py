"""Who looks at the pages: a token signs in once, then a cookie names the session. Forms carry the session's own secret.

The cookie is readable by no script and sent by no other site; it opens the pages alone, the API reads none. Sessions are
kept in memory under a hash, and end with the token, after some hours, and when the process does.
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

from lakehouse.serving.http.problems import Problem
from lakehouse.serving.http.tokens import Role, Token

if TYPE_CHECKING:
    from fastapi.responses import Response

    from lakehouse.serving.http.authentication import Callers

COOKIE = "lakehouse_session"
#: Seconds that a session lasts, and how many there are at once.
LASTS, _MOST = 8 * 3600, 1000
_FORM = "application/x-www-form-urlencoded"
_FIELDS = 10


@dataclass(frozen=True)
class Session:
    """Somebody who signed in; ``secret`` is what their forms carry."""

    token: Token
    secret: str
    until: float

    @property
    def decides(self) -> bool:
        """Whether they may decide on rows, and see what rows say."""
        return self.token.role is Role.STEWARD


class Sessions:
    """The sessions of this process.

    :param reading_needs_token: whether pages are shown to those alone who signed in.
    """

    def __init__(self, callers: Callers, *, reading_needs_token: bool) -> None:
        self._callers, self.closed = callers, reading_needs_token
        self._open: OrderedDict[str, Session] = OrderedDict()

    async def visitor(self, request: Request) -> None:
        """Note who asks.

        :raises Problem: where nobody signed in and reading needs that.
        """
        request.state.session = await self._of(request)
        if request.state.session is None and self.closed:
            raise Problem(401, "sign-in", "sign in to read this page")

    async def anybody(self, request: Request) -> None:
        """Note who asks; the page is for everybody."""
        request.state.session = await self._of(request)

    async def sign_in(self, request: Request, text: str) -> str:
        """Begin a session.

        :returns: what the cookie says.
        :raises Problem: for a token that may not be used.
        """
        token = await self._callers.holder_of(request, text)
        name = secrets.token_urlsafe(32)
        self._open[_hashed(name)] = Session(token, secrets.token_urlsafe(32), monotonic() + LASTS)
        while len(self._open) > _MOST:
            self._open.popitem(last=False)
        return name

    def sign_out(self, request: Request) -> None:
        """End the session that asks."""
        self._open.pop(_hashed(request.cookies.get(COOKIE, "")), None)

    async def _of(self, request: Request) -> Session | None:
        """The session of a cookie, as long as its token may be used."""
        name = _hashed(request.cookies.get(COOKIE, ""))
        found = self._open.get(name)
        if found is None:
            return None
        token = (await self._callers.lake.tokens()).get(found.token.token_id)
        if token is None or not token.holds(self._callers.lake.settings.clock()) or monotonic() > found.until:
            self._open.pop(name, None)
            return None
        return found


def session(request: Request) -> Session | None:
    """Who asks, where they signed in."""
    found: Session | None = getattr(request.state, "session", None)
    return found


async def form(request: Request) -> dict[str, str]:
    """What a form says.

    :raises Problem: for anything that our pages do not send.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Problem(415, "no-form", "this address takes the form of its page")
    try:
        text = (await request.body()).decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS, errors="strict"))
    except ValueError:
        raise Problem(400, "no-form", "the form cannot be read") from None


async def own_form(request: Request) -> tuple[Session, dict[str, str]]:
    """What a form of the one who signed in says.

    :raises Problem: where nobody did, or the form is not of their session.
    """
    found = session(request)
    if found is None:
        raise Problem(401, "sign-in", "sign in first; the session may have ended")
    said = await form(request)
    if not hmac.compare_digest(said.pop("secret", "").encode(), found.secret.encode()):
        raise Problem(403, "other-form", "this form belongs to an earlier session: load the page again")
    return found, said


def give(response: Response, request: Request, name: str) -> None:
    """Set the cookie; only over TLS where the page came that way."""
    safe = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(COOKIE, name, max_age=LASTS, path="/", secure=safe, httponly=True, samesite="strict")


def take(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
