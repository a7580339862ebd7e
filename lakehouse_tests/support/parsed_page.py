"""HTML as a browser would find it, and a text that a page must escape."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

HOSTILE_TEXT = (
    "</title><script>alert(1)</script>\"'><img src=x onerror=1> --> $x^$ | [a](http://evil.example) \x1b[31m\n# `{{ 7*7 }}"
)
VOID = {"meta", "br", "use", "path"}


class ParsedPage(HTMLParser):
    """What a browser would find: every tag closed, texts and attributes decoded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def words(html: str) -> str:
    """The text of a page on one line, without that of its drawings."""
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<svg.*?</svg>", "", html))).split())
    return re.sub(" ([.,:;)])", r"\1", text)
