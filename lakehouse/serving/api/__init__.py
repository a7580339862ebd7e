"""The metrics API: published numbers, their quality and lineage over HTTP. The application is made in ``serving.app``.

One module a resource (``metrics``, ``comparing``, ``quality``, ``lineage``, ``quarantine``, ``health``). What they share:
``lake`` (what is read, kept fresh in memory), ``asked`` (what a request means), ``answers`` (how a version is told),
``models`` and ``quality_models`` (the OpenAPI document), ``problems`` (errors), ``guard`` and
``callers`` (who may ask, and how often).
"""
