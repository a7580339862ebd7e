"""The small operational tables, written and read through delta-rs without a JVM.

Everything here can be made again from the data tables: Bronze is the truth, these are copies for fast reading.
"""
