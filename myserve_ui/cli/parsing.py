"""What the command lines have in common: complaints in one sentence."""

from __future__ import annotations

import argparse
from typing import NoReturn

from myserve_ui.errors import InvalidRequestError
from myserve_ui.settings.words import program

SETTINGS_HELP = "Any setting of serve may follow too, such as --model or --threads."


class CommandParser(argparse.ArgumentParser):
    """Raises InvalidRequestError where argparse would exit; --help still prints and exits."""

    def error(self, message: str) -> NoReturn:
        raise InvalidRequestError(f"{message[0].upper()}{message[1:]}. --help lists what can be said.")


def make_parser(command: str, description: str, *, epilog: str = SETTINGS_HELP) -> CommandParser:
    """A parser of the options of `command`."""
    return CommandParser(prog=program(command), description=description, epilog=epilog, allow_abbrev=False)
