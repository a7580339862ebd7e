"""Changed inputs, computed apart from the tables that readers see: a corrected feed, a new reading of Bronze, a changed contract.

A stage has a lake of its own in ``stages/<name>``, with the staged rows, the silver rows and the numbers computed from them.
Nothing of it is visible to readers until it is promoted. Running a promotion belongs to ``orchestration.execution``.
"""
