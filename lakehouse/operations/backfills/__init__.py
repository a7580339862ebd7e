"""Backfills: the plan, its creation, the verification of its outcome, and its log.

Plain Python: ``plan``. Running a plan belongs in ``orchestration.execution``.
"""
