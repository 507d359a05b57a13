"""Text that a markdown renderer shows as it was written: tags and entities stay letters, an image becomes a link to it.

The chat renders markdown, which takes `<left>` for HTML, `&lt;` for an entity, and fetches `![x](http://…)` from
wherever it says, as soon as it is written and at every reload. An invisible WORD JOINER after the `<`, `&` or `!` stops
that; an entity would do so too, but would show up in the edit box and in the clipboard. The way back is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable

JOINER = "\u2060"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"^[ \t]*(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)")
_NO_LINE_BREAK = "(?!<br ?/?>)"
_MARKUP = rf"[<&](?=[A-Za-z/!?#{JOINER}])"
_IMAGE_INSIDE = r"\[[^\[\]]*\]\(data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*\)"
"""An image that is all there: nobody is asked for it."""
_IMAGE = rf"!(?=[\[{JOINER}])(?!{_IMAGE_INSIDE})"
_JOINED_MARKUP = rf"(?<=[<&]){JOINER}(?=[A-Za-z/!?#{JOINER}])"
_JOINED_IMAGE = rf"(?<=!){JOINER}(?=[\[{JOINER}])"

_Place = tuple[re.Pattern[str], re.Pattern[str]]
"""Where a line stands: what is to be joined there, and what has been."""
_TEXT = (re.compile(f"{_MARKUP}|{_IMAGE}"), re.compile(f"{_JOINED_MARKUP}|{_JOINED_IMAGE}"))
_CODE = (re.compile(_IMAGE), re.compile(_JOINED_IMAGE))
_DIAGRAM = (re.compile(f"{_NO_LINE_BREAK}(?:{_MARKUP})|{_IMAGE}"), re.compile(f"{_JOINED_MARKUP}|{_JOINED_IMAGE}"))
"""The page draws what is fenced as "mermaid", tags included; that for a new line in a label fetches nothing."""


def protect(text: str) -> str:
    """`text` for the renderer. Fenced code keeps its tags, which are shown as written anyway, and highlighted."""
    return _line_by_line(text, lambda line, place: place[0].sub(rf"\g<0>{JOINER}", line))


def restore(text: str) -> str:
    """The inverse of `protect`, for every text."""
    return _line_by_line(text, lambda line, place: place[1].sub("", line))


def well_formed(text: str) -> str:
    """`text` with the sign that a browser shows for half of a surrogate pair in place of it; nothing can send one."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def _line_by_line(text: str, change: Callable[[str, _Place], str]) -> str:
    """Apply `change` to the lines of `text`, which stand in text, code or a diagram."""
    fence, place = "", _TEXT
    lines = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" \t`~"):
                fence, place = "", _TEXT
        elif mark:
            fence, place = mark[1], _DIAGRAM if mark[2].startswith("mermaid") else _CODE
        lines.append(change(line, place))
    return "\n".join(lines)
