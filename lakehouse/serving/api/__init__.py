"""The routes of the metrics API: published numbers, their quality and lineage over HTTP. ``serving.app`` mounts them.

One module for each resource (``metrics``, ``comparison``, ``data_quality``, ``lineage``, ``quarantine``, ``health``); ``models``,
``quality_models`` and ``openapi_examples`` describe the responses, ``openapi`` completes the document. Code that the
pages also need belongs in ``http``.
"""
