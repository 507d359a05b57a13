"""The files under assets/ that the page is made of, read when the page is built."""

from __future__ import annotations

from markupsafe import Markup

from myserve_ui.paths import asset
from myserve_ui.ui.shared.templates import render

EXAMPLES = {"gradio_client": "examples/gradio_client.py.txt", "openai": "examples/openai_sdk.py.txt"}
EXAMPLE_URL = "http://127.0.0.1:7860"
EXAMPLE_MODEL = "SmolLM2-135M-Instruct"
KEY_PLACEHOLDER = "YOUR_KEY"


def evidence_script() -> str:
    """What the token chips do in the browser; `element` and `trigger` are Gradio's."""
    return asset("evidence.js").read_text(encoding="utf-8")


def held_out_text() -> str:
    """The project's own text for reports."""
    return asset("held_out.txt").read_text(encoding="utf-8")


def logo() -> Markup:
    return Markup(asset("logo.svg").read_text(encoding="utf-8"))


def page_head() -> str:
    """The page's own script, for the head of the document; plain, as Gradio may add to it."""
    return str(render("page/head", script=Markup(asset("page.js").read_text(encoding="utf-8"))))


def example_script(name: str, *, url: str, model: str, needs_key: bool) -> str:
    """A script as it works against this server; the file itself works with the default settings."""
    text = asset(EXAMPLES[name]).read_text(encoding="utf-8").strip()
    text = text.replace(EXAMPLE_URL, url.rstrip("/")).replace(EXAMPLE_MODEL, model)
    if needs_key:
        text = text.replace("not-needed", KEY_PLACEHOLDER)
        text = text.replace("verbose=False", f'verbose=False, auth=("me", "{KEY_PLACEHOLDER}")')
    return text


def examples_markdown(*, url: str, model: str, needs_key: bool) -> str:
    """Both scripts as markdown with code blocks that have a copy button."""
    titles = {"openai": "The OpenAI SDK", "gradio_client": "gradio_client"}
    sections = []
    for name, title in titles.items():
        script = example_script(name, url=url, model=model, needs_key=needs_key)
        sections.append(f"**{title}** (`pip install {name}`)\n\n```python\n{script}\n```")
    return "\n\n".join(sections)
