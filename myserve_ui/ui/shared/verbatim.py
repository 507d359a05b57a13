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
_LINE_END = re.compile(r"(\r\n|\r|\n)")
_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)")
_FENCE_ANYWHERE = re.compile(r"```|~~~")
_FORMULA = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)")
_OPEN_FORMULA = re.compile(r"\$\$|\\[\[(]")
"""The page cuts formulas out before it looks for fences, those inside included."""
_MAY_DEFINE = re.compile(r"[\s>*+\d.)-]*\[")
"""Where `[label]: address "title"` may begin, which is not shown; label and title may be lines with fences."""
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
    fences = _Fences()
    pieces = _LINE_END.split(text)
    pieces[::2] = [change(line, fences.place_of(line)) for line in pieces[::2]]
    return "".join(pieces)


class _Fences:
    """Follows the fences of a text, line by line, as long as every reading of markdown agrees on where they are.

    What is taken for code would become a part of the page if the renderer saw no fence there; the other way round only
    the colours of some tags are lost. So at the first doubt all that follows is text.
    """

    def __init__(self) -> None:
        self._indent = self._fence = ""
        self._place = _TEXT
        self._is_sure = True

    def place_of(self, line: str) -> _Place:
        """Where the next line stands."""
        if not self._is_sure or _OPEN_FORMULA.search(_FORMULA.sub("", line)):
            self._give_up()
        elif self._fence:
            self._go_on(line)
        elif mark := _FENCE.match(line):
            self._indent, self._fence = mark[1], mark[2]
            self._place = _DIAGRAM if mark[3].startswith("mermaid") else _CODE
        elif _FENCE_ANYWHERE.search(line) or _MAY_DEFINE.match(line):
            self._give_up()  # in a list or a quotation, too far to the right, or a part of something else
        return self._place

    def _go_on(self, line: str) -> None:
        """A line after an opening fence. What is less indented may be behind the list that the fence is in."""
        if re.fullmatch(rf"{self._indent}{self._fence}[`~]* *", line):
            self._fence, self._place = "", _TEXT
            return
        bare = line.strip(" \t")
        may_close = bare.startswith(self._fence) and not bare.strip("`~")
        if may_close or (bare and not line.startswith(self._indent)):
            self._give_up()

    def _give_up(self) -> None:
        self._place, self._is_sure = _TEXT, False
