"""What the process is given to live in, made fit for the libraries before they are imported."""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from myserve_ui.settings.folders import can_be_made, temporary_home

QUIET_ENVIRONMENT = {
    "GRADIO_ANALYTICS_ENABLED": "False",  # only the exact word "True" switches it on; read when gradio is imported
    "GRADIO_ANALYTICS_CACHE_FREQUENCY": "1000",  # a summary of past events every so many, not at each
    "GRADIO_ANALYTICS_MAX_EVENTS": "500",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "DO_NOT_TRACK": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",  # otherwise a thread asks the hub to convert weights in other formats
    "USE_HUB_KERNELS": "NO",  # no code from the hub unless the operator says so
    "TOKENIZERS_PARALLELISM": "false",
    "BITSANDBYTES_NOWELCOME": "1",
}
"""Libraries that would call home, fetch code or chat on the console are told not to, unless the user says otherwise."""

PATIENT_ENVIRONMENT = {"GOMP_SPINCOUNT": "20000"}
"""How often a thread of a product looks for the next one before it sleeps: for a fraction of a millisecond, longer
than what comes between two products. By default it is for milliseconds, taken from whatever else there is to do."""

DROPS_DOCSTRINGS = 2
"""Of Python's levels of optimization."""
OPTIMIZE = re.compile("-O+")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def prepare_environment() -> None:
    """Keep the libraries quiet, off the network and off idle cores. Only works before torch and gradio are imported."""
    for name, value in QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if "OMP_WAIT_POLICY" not in os.environ:
        for name, value in PATIENT_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    _be_somebody()
    _stay_on_this_machine()
    os.umask(os.umask(0o077) & 0o077)  # whatever is kept from others: what this process makes, it can read


def keep_docstrings() -> None:
    """Start this process anew if Python was told to drop docstrings (-OO), which transformers builds its own from."""
    if sys.flags.optimize < DROPS_DOCSTRINGS:
        return
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONOPTIMIZE"}
    first = next(index for index, word in enumerate([*sys.orig_argv[1:], ""], start=1) if not OPTIMIZE.fullmatch(word))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[first:]], environment)


def _be_somebody() -> None:
    """Give a process without a name, a home or a working folder what libraries take for granted."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = f"user-{os.getuid()}"
    home = os.path.expanduser("~")
    if home == "~" or not (os.path.isdir(home) or can_be_made(Path(home))):
        os.environ["HOME"] = str(temporary_home())
    try:
        os.getcwd()
    except OSError:  # deleted, or not to be read
        os.chdir(temporary_home())


def _stay_on_this_machine() -> None:
    """Let no request to this machine itself go by a proxy; others may."""
    for name in ("NO_PROXY", "no_proxy"):
        kept = [part for part in os.environ.get(name, "").split(",") if part.strip()]
        os.environ[name] = ",".join(dict.fromkeys([*kept, *LOOPBACK]))


@contextmanager
def without_unusable_proxies() -> Iterator[None]:
    """Hide proxies that httpx cannot use while a library is imported that makes clients of it, and then calls nobody.

    Any other request by such a proxy still fails, for it must not go out by another way.
    """
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if _is_unusable_proxy(name, os.environ[name])}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _is_unusable_proxy(name: str, value: str) -> bool:
    if name.lower() not in ("all_proxy", "http_proxy", "https_proxy") or not value:
        return False
    kind = value.partition("://")[0].lower() if "://" in value else "http"
    speaks_socks = importlib.util.find_spec("socksio") is not None
    return kind not in (("http", "https", "socks5", "socks5h") if speaks_socks else ("http", "https"))
