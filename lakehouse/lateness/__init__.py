"""Lateness of rows and event-time watermarks: measurement, rules, completeness estimates, and the decisions that change a
watermark.

``rules`` and ``completeness`` are plain Python; ``keyed_watermark`` maps Arrow to Arrow. Whether a single row is admitted belongs
in ``dispositions``.
"""
