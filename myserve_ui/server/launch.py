"""From settings to a running process: takes the port, builds the app, serves until told to stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from myserve_ui.errors import SettingsError
from myserve_ui.models.cache_folder import remove_own_unfinished
from myserve_ui.server.app_server import OPEN_PAGE_SECONDS, AppServer
from myserve_ui.server.log_lines import set_up_logging
from myserve_ui.server.process import take_signals
from myserve_ui.server.proxies import behind_proxies
from myserve_ui.server.service_builder import WILDCARDS, build_services
from myserve_ui.settings import Settings


def run_app(settings: Settings, *, announce: Callable[[str], None], complain: Callable[[str], None]) -> int:
    """Serve until a signal comes; the process's exit code. Raises SettingsError if the port cannot be had.

    `announce` gets the address once the default model is ready, `complain` the reason if it cannot be loaded.
    """
    set_up_logging(settings.log_level)
    listener = listen(settings.host, settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    services = build_services(settings)
    gc.freeze()  # what was imported stays, and need not be looked through when the load drops what it read
    services.begin_loading()
    from myserve_ui.server.composition import create_app  # late: it takes a while, and meanwhile the weights load

    app = create_app(settings, services, when_settled=resume_collection)
    server = AppServer(
        _server_config(app, settings.root_path),
        app.state.service,
        on_ready=lambda: announce(f"myserve-ui is ready: {_address(listener)}"),
        on_failure=complain,
        on_drain=app.state.page.turn_away,
    )
    take_signals(server.handle_exit)
    # Not asyncio.run: it would wait for a load that goes on in a worker thread, which nothing can stop.
    asyncio.new_event_loop().run_until_complete(server.serve(sockets=[listener]))
    remove_own_unfinished(settings.cache)
    return server.exit_code


def _server_config(app: ASGIApp, root_path: str) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=OPEN_PAGE_SECONDS,
    )
    config.app = behind_proxies(app, root_path, trusted=config.forwarded_allow_ips)
    return config


def resume_collection() -> None:
    """Collect garbage from now on, and none of what the start has made, which stays."""
    gc.freeze()
    gc.enable()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises SettingsError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends small writes at once: otherwise each waits for the last one's receipt, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen()
        return listener
    except OSError as error:
        listener.close()
        raise SettingsError(_why_not(error, host, port)) from None


def _why_not(error: OSError, host: str, port: int) -> str:
    """One sentence in our own words: the system's own are wrapped by Python's."""
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use: choose another one with --port or MYSERVE_PORT; 0 takes a free one."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Port {port} may not be opened by this user: choose one above 1023 with --port or MYSERVE_PORT."
    if error.errno is None or error.errno < 0 or error.errno == errno.EADDRNOTAVAIL:  # below 0: names, not sockets
        return f"{host} is no address of this machine: choose one with --host or MYSERVE_HOST, such as 127.0.0.1."
    return f"Cannot listen on {host}, port {port} ({os.strerror(error.errno)}): choose others with --host and --port."


def _address(listener: socket.socket) -> str:
    """The address for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = "127.0.0.1" if host in WILDCARDS else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
