"""Every token is scored exactly once, whatever the window and the stride."""

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.windows import Window, make_windows


@pytest.mark.parametrize("num_tokens", [2, 3, 63, 64, 65, 128, 1000])
@pytest.mark.parametrize(("window", "stride"), [(64, 64), (64, 63), (64, 32), (64, 1), (2, 1), (2, 2), (2000, 7)])
def test_every_token_but_the_first_is_scored_once(num_tokens, window, stride):
    windows = make_windows(num_tokens, window=window, stride=stride)
    scored = [index for w in windows for index in range(w.first_scored, w.end)]
    assert scored == list(range(1, num_tokens))
    assert all(w.end - w.start <= window and w.start < w.first_scored for w in windows)


def test_a_window_longer_than_the_text_is_one_window():
    assert make_windows(10, window=512, stride=256) == [Window(0, 10, 1)]


def test_the_last_window_reaches_back_as_far_as_it_may():
    assert make_windows(100, window=64, stride=32)[-1] == Window(36, 100, 96)


def test_a_smaller_stride_gives_every_token_at_least_as_much_context():
    def contexts(stride):
        windows = make_windows(500, window=64, stride=stride)
        return [index - w.start for w in windows for index in range(w.first_scored, w.end)]

    assert all(small >= large for small, large in zip(contexts(1), contexts(64), strict=True))


@pytest.mark.parametrize(
    ("num_tokens", "window", "stride", "param"),
    [
        (0, 64, 32, "text"),
        (1, 64, 32, "text"),
        (9, 1, 1, "window"),
        (9, 8, 0, "stride"),
        (9, 8, 9, "stride"),
        (9, 8, -1, "stride"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(num_tokens, window, stride, param):
    with pytest.raises(InvalidRequestError) as caught:
        make_windows(num_tokens, window=window, stride=stride)
    assert caught.value.param == param
