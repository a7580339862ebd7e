"""Reports as HTML, Markdown, JSON and terminal text, with their charts."""
