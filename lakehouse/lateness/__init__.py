"""How late rows arrive: measurement, rules, completeness estimates, and decisions that move a watermark.

Plain Python: ``rules``, ``completeness``. Whether a single row is admitted belongs in ``dispositions``.
"""
