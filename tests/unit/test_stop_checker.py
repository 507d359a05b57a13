"""Stop strings end the text before themselves, whole, and hold nothing back for ever."""

import itertools

import pytest

from myserve_ui.engine.stop_checker import StopChecker


def feed(text, stop, size):
    checker = StopChecker(stop)
    sent = []
    for start in range(0, len(text), size):
        sent.append(checker.add(text[start : start + size]))
        if checker.matched is not None:
            return sent, checker.matched
    return [*sent, checker.flush()], None


@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("text", "stop", "kept", "matched"),
    [
        ("one two three", ("two",), "one ", "two"),
        ("one two three", ("zzqq",), "one two three", None),
        ("ends in z", ("zzqq",), "ends in z", None),
        ("line\nnext", ("\n",), "line", "\n"),
        ("aabaab", ("aab",), "", "aab"),
        ("aaab", ("aab",), "a", "aab"),
        ("abcabd", ("abd",), "abc", "abd"),
        ("日本語です", ("語",), "日本", "語"),
    ],
)
def test_text_ends_before_the_stop_string(text, stop, kept, matched, size):
    sent, found = feed(text, stop, size)
    assert ("".join(sent), found) == (kept, matched)


def test_the_shorter_of_two_stops_that_share_a_start_wins():
    assert feed("say END\n more", ("END", "END\n"), 1) == (feed("say END\n more", ("END",), 1)[0], "END")


def test_nothing_of_a_possible_stop_is_sent_early():
    checker = StopChecker(("<end>",))
    assert [checker.add(character) for character in "a<en"] == ["a", "", "", ""]
    assert checker.add("x") == "<enx"


def test_without_stops_text_passes_at_once():
    assert StopChecker(()).add("anything") == "anything"


def test_every_cut_of_a_text_gives_the_same_result():
    text, stop = "xyzxyzw!", ("zw", "yzxq")
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        checker, sent, start = StopChecker(stop), "", 0
        for end in [i + 1 for i, cut in enumerate(cuts) if cut] + [len(text)]:
            sent += checker.add(text[start:end])
            start = end
            if checker.matched:
                break
        assert (sent, checker.matched) == ("xyzxy", "zw")
