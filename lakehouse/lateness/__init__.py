"""How late rows arrive, and until when everything has: measurement, rules, completeness estimates, event-time watermarks, and the
decisions that move a watermark.

Plain Python: ``rules``, ``completeness``; Arrow in, Arrow out: ``keyed_watermark``. Whether a single row is admitted belongs in
``dispositions``.
"""
