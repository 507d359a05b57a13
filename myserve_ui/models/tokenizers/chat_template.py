"""Reads the operator's chat template: Jinja written out in the setting, or a file with it."""

from __future__ import annotations

from pathlib import Path

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from myserve_ui.errors import ModelLoadError


class GenerationBlock(Extension):
    """{% generation %}: transformers' own tag around what the assistant says, for training; it renders its inside."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it as a plain set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def read_chat_template(setting: str) -> str:
    """The Jinja text. Raises ModelLoadError if the file is missing or the template cannot be parsed."""
    text = setting if _is_jinja(setting) else _read_file(setting)
    try:
        environment = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols", GenerationBlock])
        environment.parse(text)
    except jinja2.TemplateSyntaxError as error:
        raise ModelLoadError(
            f"--chat-template or MYSERVE_CHAT_TEMPLATE is no Jinja template: {error.message} in line {error.lineno}."
        ) from None
    return text


def _is_jinja(setting: str) -> bool:
    return "{{" in setting or "{%" in setting


def _read_file(setting: str) -> str:
    try:
        return Path(setting).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise ModelLoadError(
            "--chat-template or MYSERVE_CHAT_TEMPLATE is no readable file and no Jinja template: "
            "give a path, or the template itself."
        ) from None
