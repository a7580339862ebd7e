"""Backfills: the plan, how it is made, how its outcome is verified, and its log.

Plain Python: ``plan``. Running a plan belongs in ``orchestration.execution``.
"""
