"""HTML from the templates under assets/: what is put in is escaped, and a name that was not put in is an error."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from myserve_ui.paths import asset

_BREAK_BETWEEN_TAGS = re.compile(r"(?<=[>}])[ \t]*\n\s*(?=[<{])|\s*\n\s*(?=</)")
_BREAK = re.compile(r"\s*\n\s*")


class _ForReadersAlone(Extension):
    """Line breaks of a template are its readers': none is left between tags, and one inside a text is a space."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return _BREAK.sub(" ", _BREAK_BETWEEN_TAGS.sub("", source.strip()))


def render(name: str, **values: Any) -> Markup:
    """HTML of the template `name`, a path under assets/templates without its ending: "status/page".

    Strings among `values` are escaped wherever a template puts them; Markup, which this makes, is HTML already.
    Raises jinja2.UndefinedError for a name that the template uses and `values` lack.
    """
    return Markup(_environment().get_template(f"{name}.html").render(values))


@cache
def _environment() -> Environment:
    """Made once: a template is read and compiled when it is first asked for, then kept."""
    return Environment(
        loader=FileSystemLoader(asset("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        extensions=[_ForReadersAlone],
    )
