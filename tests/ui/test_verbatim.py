import pytest

from myserve_ui.ui.shared.verbatim import JOINER, protect, restore

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
    f"![x](http://a.example/p.png) and !{JOINER}[y][z] wow![1]!",
    "```rust\nvec![1]; // ![x](http://a.example)\n```",
    f"```mermaid\nA[one<br/>two] --> B[<{JOINER}br/>] <img src=x>\n```",
    "![dot](data:image/png;base64,iVBORw0KGgo=)",
    "",
]

IMAGES = [
    "![x](http://a.example/p.png?q=secret)",
    "![x](//a.example/p.png)",
    "![](http://a.example/p.png 'title')",
    "![x][r]\n\n[r]: http://a.example/p.png",
    "![r]\n\n[r]: http://a.example/p.png",
    "| a |\n|---|\n| ![x](http://a.example/p.png) |",
    "[![x](http://a.example/p.png)](http://a.example)",
    "> - ![x](http://a.example/p.png)",
    "![x](http://a.exam",
    "![x",
    "```\n![x](http://a.example/p.png)\n```",
    "![x](data:image/svg+xml,<svg/>)",
    "![a](data:image/png;base64,AAAA?) ![b](http://a.example/p.png)",
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


@pytest.mark.parametrize("text", IMAGES)
def test_no_text_makes_the_renderer_fetch_an_image(text: str) -> None:
    assert "![" not in protect(text)
    assert restore(protect(text)) == text


def test_an_image_that_is_all_there_is_shown() -> None:
    text = "![dot](data:image/png;base64,iVBORw0KGgo=)"
    assert protect(text) == text


def test_a_diagram_keeps_its_line_breaks_and_no_other_tag() -> None:
    lines = protect("```mermaid\nA[one<br/>two<br>three] --> B[<img src=x>]\n```").split("\n")
    assert lines[1] == f"A[one<br/>two<br>three] --> B[<{JOINER}img src=x>]"


def test_a_line_with_backticks_in_it_opens_no_fence() -> None:
    assert JOINER in protect("``` a`b\n<img src=x>")
