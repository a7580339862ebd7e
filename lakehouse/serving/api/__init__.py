"""The frame of the metrics API: the models of responses, and the OpenAPI document.

``models``, ``quality_models``, ``released_models`` and the modules of examples describe the responses; ``openapi`` completes
the document. The routes of a capability are its module ``routes``, which ``serving.app`` mounts. Code shared with the pages
belongs in ``http``.
"""
