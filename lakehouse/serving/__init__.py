"""The metrics API, the pages and the reports. Tables are read through delta-rs.

``app`` is the ASGI application: ``web`` and ``api`` are its routes, ``http`` is what they share. ``reports`` writes documents and
draws charts, for the commands as well.
"""
