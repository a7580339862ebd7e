"""The routes of the metrics API: published numbers, their quality and their lineage over HTTP. ``serving.app`` mounts them.

One module for each resource (``metrics``, ``comparison``, ``data_quality``, ``lineage``, ``quarantine``, ``health``); ``models``,
``quality_models`` and ``openapi_examples`` describe the responses, ``openapi`` completes the document. Code shared with the pages
belongs in ``http``.
"""
