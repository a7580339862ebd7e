"""The page for people, in the same process as the API: ``routes`` is mounted beside it, and reads through ``api.lake``.

Pages set a Content-Security-Policy of their own; the API's forbids everything.
"""

from __future__ import annotations

from fastapi import APIRouter

routes = APIRouter(include_in_schema=False)
