"""How a long text is cut into windows so that every token is scored exactly once, at every stride."""

from __future__ import annotations

from dataclasses import dataclass

from myserve_ui.errors import InvalidRequestError

DEFAULT_WINDOW, DEFAULT_STRIDE = 512, 256
MIN_WINDOW = 2
MAX_WINDOW = 2048
"""The logits of a window are kept for both models: a row of the vocabulary in float32 for each token."""


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens [start, end) go through the model; those from `first_scored` on are scored."""

    start: int
    end: int
    first_scored: int

    @property
    def num_scored(self) -> int:
        return self.end - self.first_scored


def fit_window(window: int | None, stride: int | None, *, longest: int) -> tuple[int, int]:
    """Both as asked, and what was not asked for as near its default as `longest`, the room of a context, allows.

    Raises InvalidRequestError for a window that is asked for and longer, and for what is no whole number.
    """
    for name, value in (("window", window), ("stride", stride)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidRequestError(f"{name} must be a whole number of tokens, got {value!r:.40}.", param=name)
    if window is not None and window > longest:
        raise InvalidRequestError(f"window is {window} tokens and may be {longest} at most here.", param="window")
    window = min(DEFAULT_WINDOW, longest) if window is None else window
    return window, min(DEFAULT_STRIDE, max(window // 2, 1)) if stride is None else stride


def make_windows(num_tokens: int, *, window: int, stride: int) -> list[Window]:
    """Windows over a text of `num_tokens`, which score its tokens 1..num_tokens-1 once each.

    The first scores all but its first token; each later one ends `stride` tokens after the one before it, reaches
    back as far as the window allows, and scores what is new. The smaller the stride, the more context every token
    has. A stride of the whole window advances by one token less, since a window's first token has none before it. A
    window longer than the text is one window.

    Raises InvalidRequestError for a window, stride or text that is too small, or a stride longer than the window.
    """
    _check(num_tokens, window, stride)
    step = min(stride, window - 1)
    windows = [Window(0, min(window, num_tokens), 1)]
    while (reached := windows[-1].end) < num_tokens:
        end = min(reached + step, num_tokens)
        windows.append(Window(max(0, end - window), end, reached))
    return windows


def _check(num_tokens: int, window: int, stride: int) -> None:
    if num_tokens < MIN_WINDOW:
        raise InvalidRequestError(
            f"The text has {num_tokens} tokens; {MIN_WINDOW} at least are needed, since the first has none before it.",
            param="text",
        )
    if window < MIN_WINDOW:
        raise InvalidRequestError(f"window must be at least {MIN_WINDOW} tokens, got {window}.", param="window")
    if not 1 <= stride <= window:
        raise InvalidRequestError(f"stride must be in [1, window = {window}], got {stride}.", param="stride")
