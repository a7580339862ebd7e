"""The metrics API, the pages and the reports. Tables are read through delta-rs.

``app`` is the ASGI application: ``web`` and ``api`` are its routes, ``http`` is shared by both. ``reports`` writes documents and
draws charts, also for the commands.
"""
