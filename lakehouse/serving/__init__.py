"""The metrics API and the pages. Tables are read through delta-rs.

``app`` is the ASGI application. The routes and pages of a capability are its modules ``routes`` and ``pages``; ``api`` has the
models of responses, ``web`` the frame of the pages, and ``http`` is shared by both. Reports are in ``reports``.
"""
