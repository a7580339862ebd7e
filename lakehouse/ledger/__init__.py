"""The small operational tables that several layers share, written and read through delta-rs.

A log that only one capability reads belongs in that capability. Decisions, redactions and rebuild requests are input and cannot
be recreated; the other tables here are copies or can be derived from Bronze.
"""
