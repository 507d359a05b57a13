import pytest

from myserve_ui.ui.verbatim import JOINER, protect, restore

TEXTS = [
    "plain",
    "<left> middle </left> a<b && c>d",
    "&lt; is an entity, &#65; too",
    f"already joined <{JOINER}b> and &{JOINER}{JOINER}amp;",
    "```html\n<b>code</b>\n```\nthen <b>text</b>",
    f"```\n<{JOINER}b>\n```",
    "```\nnever closed <b>",
    "~~~\n```\n<i>\n~~~\n<u>",
    "  leading spaces\n\ttab <x>\n\n",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_protected_comes_back_as_it_was(text: str) -> None:
    assert restore(protect(text)) == text


@pytest.mark.parametrize("text", ["<b>", "</b>", "<!-- x -->", "&amp;", "&#65;", "`<b>`"])
def test_markup_is_kept_from_the_renderer(text: str) -> None:
    assert JOINER in protect(text)
    assert protect(text).replace(JOINER, "") == text


@pytest.mark.parametrize("text", ["a < b", "a && b", "1 <2", "```\n<b>\n```", "x > y"])
def test_what_is_no_markup_stays_untouched(text: str) -> None:
    assert protect(text) == text


def test_a_fence_inside_a_longer_fence_does_not_close_it() -> None:
    text = "````\n```\n<b>\n````\n<b>"
    assert protect(text).split("\n")[2] == "<b>"
    assert JOINER in protect(text).split("\n")[4]
