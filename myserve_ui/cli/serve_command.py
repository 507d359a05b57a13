"""`serve`: settings, then the app, until a signal ends it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from myserve_ui.core.machine import is_loopback
from myserve_ui.server.process import discard_output, forgive_warnings, say, secure_streams
from myserve_ui.settings import Settings, read_settings
from myserve_ui.settings.environment import prepare_environment
from myserve_ui.settings.folders import is_temporary
from myserve_ui.settings.kubernetes import kubernetes_note

INTERRUPTED = 130
SWITCH_SECONDS = 0.00005
"""How long a thread may keep Python's lock while another wants it: each of a step's hundreds of calls gives it back."""


def serve(arguments: Sequence[str]) -> int:
    """Run the app with `arguments`; the process's exit code. Raises SettingsError and MyServeError."""
    secure_streams()
    forgive_warnings()
    try:
        settings = read_settings(arguments)
        for remark in filter(None, (exposure_warning(settings), kubernetes_note(), folder_note(settings))):
            complain(remark)
        prepare_environment()
        gc.disable()  # until the page stands: importing makes a million objects and next to no garbage
        sys.setswitchinterval(SWITCH_SECONDS)
        # Imported late: torch and gradio take seconds, and --help or a mistyped setting should not wait for them.
        from myserve_ui.server.launch import run_app

        exit_code = run_app(settings, announce=lambda line: say(line, sys.stdout), complain=complain)
    except KeyboardInterrupt:  # before there is a server to take the signal
        exit_code = INTERRUPTED
    discard_output()  # each line was said when there was something to say; who took it is no matter of the app's
    return exit_code


def complain(message: str) -> None:
    """One message to the operator."""
    say(message, sys.stderr)


def folder_note(settings: Settings) -> str | None:
    """What to tell an operator whose converted weights may be gone at the next start; None if they stay."""
    if not is_temporary(settings.cache):
        return None
    return (
        f"There is no home folder to write to: converted weights are kept in {settings.cache}. "
        "Choose a folder that lasts with --cache or MYSERVE_CACHE."
    )


def exposure_warning(settings: Settings) -> str | None:
    """What to tell an operator whose app answers strangers; None if it does not."""
    if settings.api_key or is_loopback(settings.host):
        return None
    return (
        f"WARNING: listening on {settings.host} with no API key: everybody who reaches this address can use the model. "
        f"Set MYSERVE_API_KEY (or --api-key), or listen on 127.0.0.1 only."
    )
