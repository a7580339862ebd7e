"""Lateness of rows and event-time watermarks: measurement, rules, completeness estimates, and the decisions that change a
watermark.

``rules`` and ``completeness`` are plain Python; ``watermark_per_key`` maps Arrow to Arrow. Whether a single row is admitted
belongs in ``dispositions``.
"""
