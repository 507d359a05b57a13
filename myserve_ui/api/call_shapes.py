"""Calls in the two shapes of OpenAI's reference: whole in a message, and as they come in the deltas of a stream."""

from __future__ import annotations

from collections.abc import Iterable

from myserve_ui.core.tools import ToolCallDelta

Call = dict[str, object]


def call_delta(news: ToolCallDelta) -> Call:
    """News of one call; id, type and name stand in its first only."""
    if news.id is None:
        return {"index": news.index, "function": {"arguments": news.arguments}}
    function = {"name": news.name, "arguments": news.arguments}
    return {"index": news.index, "id": news.id, "type": "function", "function": function}


def whole_calls(news: Iterable[ToolCallDelta]) -> list[Call]:
    """The calls that all `news` of one message add up to."""
    firsts: dict[int, ToolCallDelta] = {}
    arguments: dict[int, str] = {}
    for delta in news:
        firsts.setdefault(delta.index, delta)
        arguments[delta.index] = arguments.get(delta.index, "") + delta.arguments
    return [
        {"id": first.id, "type": "function", "function": {"name": first.name, "arguments": arguments[index]}}
        for index, first in firsts.items()
    ]
