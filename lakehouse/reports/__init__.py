"""Reports as HTML, Markdown, JSON and terminal text, with their charts.

What a report says about a result belongs here where several layers write it; what the result is belongs to its capability.
"""
