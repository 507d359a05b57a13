"""Every page's HTML comes from templates, in which nothing that anybody wrote is taken for HTML."""

import jinja2
import pytest
from markupsafe import Markup

from myserve_ui.paths import PACKAGE, asset
from myserve_ui.ui.shared import templates
from myserve_ui.ui.shared.events import problem


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a template into a folder of its own and gives its name."""

    def write(source):
        (tmp_path / "one.html").write_text(source, encoding="utf-8")
        return "one"

    monkeypatch.setattr(templates, "asset", lambda _name: tmp_path)
    templates._environment.cache_clear()
    yield write
    templates._environment.cache_clear()


def test_what_is_put_in_is_escaped_and_html_that_was_made_here_is_not():
    assert problem('<b> & "quotes"') == '<p class="problem" role="alert">&lt;b&gt; &amp; &#34;quotes&#34;</p>'
    assert problem(Markup("<b>made here</b>")) == '<p class="problem" role="alert"><b>made here</b></p>'


def test_a_name_that_was_not_put_in_is_an_error(written):
    with pytest.raises(jinja2.UndefinedError, match="words"):
        templates.render(written("<p>{{ words }}</p>"))


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("<ul>\n  {% for n in (1, 2) %}\n  <li>{{ n }}</li>\n  {% endfor %}\n</ul>\n", "<ul><li>1</li><li>2</li></ul>"),
        ("<p>\n  <b>a</b>\n  and more\n  words\n</p>", "<p><b>a</b> and more words</p>"),
        ('<p class="a"\n   title="b">c</p>', '<p class="a" title="b">c</p>'),
        ("<b>a</b> <i>b</i>", "<b>a</b> <i>b</i>"),
    ],
)
def test_line_breaks_of_a_template_are_not_in_the_page(written, source, html):
    assert templates.render(written(source)) == html


def test_every_template_can_be_read_and_is_used():
    folder = asset("templates")
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.html")]
    for name in names:
        templates._environment().get_template(f"{name}.html")
    text = "".join(path.read_text(encoding="utf-8") for path in (*PACKAGE.rglob("*.py"), *folder.rglob("*.html")))
    assert [name for name in names if f'"{name}"' not in text and f'"{name}.html"' not in text] == []
