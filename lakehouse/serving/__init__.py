"""The metrics API and the pages. Tables are read through delta-rs.

``app`` is the ASGI application: ``web`` and ``api`` are its routes, ``http`` is shared by both. Reports are in ``reports``.
"""
