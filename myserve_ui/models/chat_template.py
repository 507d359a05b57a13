"""Reads the operator's chat template: Jinja written out in the setting, or a file with it."""

from __future__ import annotations

from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from myserve_ui.errors import ModelLoadError


def read_chat_template(setting: str) -> str:
    """The Jinja text. Raises ModelLoadError if the file is missing or the template cannot be parsed."""
    text = setting if _is_jinja(setting) else _read_file(setting)
    try:
        ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(text)
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
