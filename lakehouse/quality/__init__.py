"""Data quality: the result of a check, statistics, and the rules that published numbers must pass.

Which checks a layer has is in that layer's ``checks`` module.
"""
