"""Reports as HTML, Markdown, JSON and terminal text, with their charts.

The presentation of results that several layers report belongs here; computing a result belongs to its capability.
"""
