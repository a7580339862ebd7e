"""The metrics API: published numbers, their quality and lineage over HTTP. ``app.create`` makes it; reads need no JVM.

One module a resource (``metrics``, ``comparing``, ``quality``, ``lineage``, ``quarantine``, ``health``). What they share:
``lake`` (what is read, kept fresh in memory), ``asked`` (what a request means), ``answers`` (how a version is told),
``models`` and ``quality_models`` (the OpenAPI document), ``problems`` (errors), ``guard`` and
``callers`` (who may ask, and how often).
"""
