"""The small operational tables that several layers share, written and read through delta-rs.

A log that only one capability reads stands with that capability. Decisions, redactions and rebuild requests are input, which
nothing can recreate; the other tables here are copies or derive from Bronze.
"""
