"""Tuning of ``max_lateness``, the bound of the event-time watermark: proposals, decisions, and which value is in force.

``rules`` and ``history`` are plain Python. The watermark itself belongs to ``lateness.event_watermark``; the bound on single rows
(``lateness.cutoff``), which is changed in the contract, to ``lateness.watermark_log``.
"""
