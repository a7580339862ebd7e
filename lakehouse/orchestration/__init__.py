"""The Dagster layer: assets, checks, sensors and schedules built from contracts. The layers below do the work.

``build`` makes the definitions; ``assets``, ``automation`` and ``execution`` have their parts. Here is what these share:
resources, run requests, events and plans of runs, the launcher, the event storage, and all uses of Dagster's internals.
"""
