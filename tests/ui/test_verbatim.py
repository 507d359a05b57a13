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
    "a\r```\r\n<b>\r```\n<b>",
    "",
]

NO_FENCES = {
    "indented by four spaces": "text\n    ```\n<b>",
    "indented at the beginning": "    ```\n\n<b>",
    "indented by a tab": "\t```\n<b>",
    "behind a closing fence that is indented too far": "```\n    ```\n```\n<b>",
    "behind one with a tab": "```\n\t```\n```\n<b>",
    "behind one with other signs": "```\n```~~\n```\nx\n```\n<b>",
    "behind a longer one": "```\n`````\n<b>",
    "an information with a backtick": "``` a`b\n<b>",
    "of two signs": "``\n<b>\n``",
    "in a quotation that ends": "> ```\n<b>",
    "in a list that ends": "1. x\n   ```\n<b>",
    "opened in the line of an item": "- ```\n  a\n  ```\n  <b>",
    "in the title of a definition": "[r]: /u 'a\n```\nb'\n<b>",
    "in the label of a definition": "- [a\n  ```\n  b]: /u\n  <b>",
    "in a formula": "$$\n```\n$$\n<b>",
    "closed in a formula that begins in code": "```\n\\[\n```\n\\]\n```\n<b>",
    "closed in a formula behind one": "$$x$$ $$\n```\n$$\n<b>",
    "behind another sign for a new line": "x\r```\n```\n<b>",
}
FENCES = [
    "text\n```\n<b>\n```",
    "   ```html\n   <b>\n   ```",
    "1. x\n   ```\n   <b>\n\n   <b>\n   ```\n2. y\n   ~~~\n   <b>",
    "```\n~~~\n<b>\n```\nx\n~~~~\n~~~\n<b>",
    "```\r\n<b>\r\n```",
    "so $$x$$, \\(x\\) and \\[x\\]\n```\n<b>\n```",
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


@pytest.mark.parametrize("text", NO_FENCES.values(), ids=NO_FENCES)
def test_what_may_be_no_fence_lets_no_tag_through(text: str) -> None:
    assert "<b>" not in protect(text)
    assert restore(protect(text)) == text


@pytest.mark.parametrize("text", FENCES)
def test_code_behind_a_fence_stays_as_it_is(text: str) -> None:
    assert protect(text) == text
