"""The metrics API and the pages. Tables are read through delta-rs.

``app`` is the ASGI application; ``request_guard``, ``tokens`` and ``sessions`` protect it. The routes and pages of a capability
are its modules ``routes`` and ``pages``. They share the modules here: ``published_cache`` and ``snapshot`` have the data,
``responses``, ``parameters``, ``page`` and the response models the form of the answers. Reports are in ``reports``.
"""
