"""Tables of numbers and lists of facts as HTML: right-aligned, and scrolled sideways where there is little room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Facts = Iterable[tuple[str, str]]


def number_table(headings: Sequence[str], lines: Iterable[str]) -> str:
    """`lines` are table rows, already HTML, below `headings`."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    return (
        f'<div class="scroller"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def tiles(facts: Facts) -> str:
    """Large numbers side by side, each over its name."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(words)}</dd></div>" for name, words in facts)
    return f'<dl class="tiles">{cells}</dl>'


def facts_list(facts: Facts) -> str:
    """Small ones, a line each."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in facts)
    return f'<dl class="environment">{rows}</dl>'
