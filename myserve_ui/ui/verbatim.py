"""Text that a markdown renderer shows as it was written: tags and entities stay letters, and the way back is exact.

The chat renders markdown, which takes `<left>` for HTML and `&lt;` for an entity. An invisible WORD JOINER after the
`<` or `&` stops that; an entity would do so too, but would show up in the edit box and in the clipboard.
"""

from __future__ import annotations

import re
from collections.abc import Callable

JOINER = "\u2060"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_OPENS_MARKUP = re.compile(rf"([<&])(?=[A-Za-z/!?#{JOINER}])")
_JOINED_MARKUP = re.compile(rf"([<&]){JOINER}(?=[A-Za-z/!?#{JOINER}])")


def protect(text: str) -> str:
    """`text` for the renderer; fenced code is left alone, since it is shown as written anyway."""
    return _outside_fences(text, lambda line: _OPENS_MARKUP.sub(rf"\1{JOINER}", line))


def restore(text: str) -> str:
    """The inverse of `protect`, for every text."""
    return _outside_fences(text, lambda line: _JOINED_MARKUP.sub(r"\1", line))


def well_formed(text: str) -> str:
    """`text` with the sign that a browser shows for half of a surrogate pair in place of it; nothing can send one."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to the lines of `text` that are in no fenced code block."""
    fence = ""
    lines = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            line = change(line)
        lines.append(line)
    return "\n".join(lines)
