"""Variables by which Kubernetes tells of a service that is named like this app: none is a setting."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping

from myserve_ui.settings.words import ENV_PREFIX


def service_variables(environment: Mapping[str, str]) -> set[str]:
    """Variables by which Kubernetes tells every container of a service that is named like this app.

    Of a service "myserve": MYSERVE_SERVICE_HOST, MYSERVE_PORT=tcp://10.0.0.1:80, MYSERVE_PORT_80_TCP_ADDR and such.
    """
    return {key for key, value in environment.items() if key.startswith(ENV_PREFIX) and _is_of_a_service(key, value)}


def kubernetes_note(environment: Mapping[str, str] | None = None) -> str | None:
    """What to tell an operator in whose cluster a service has the app's name; None if there is none."""
    names = sorted(service_variables(os.environ if environment is None else environment))
    if not names:
        return None
    return f"{', '.join(names)} tell of a Kubernetes service and are not read as settings."


def _is_of_a_service(key: str, value: str) -> bool:
    return any(re.fullmatch(form, key) is not None and fits(value) for form, fits in _SERVICE_FORMS)


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", value) is not None


def _is_protocol(value: str) -> bool:
    return value in ("tcp", "udp", "sctp")


def _is_endpoint(value: str) -> bool:
    return re.fullmatch(r"(tcp|udp|sctp)://(\[[0-9a-fA-F:.]+\]|[0-9a-fA-F:.]+):[0-9]{1,5}", value) is not None


_SERVICE = r"MYSERVE(_[A-Z0-9_]+)?"
_NUMBERED = rf"{_SERVICE}_PORT_[0-9]+_(TCP|UDP|SCTP)"
_SERVICE_FORMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (rf"{_SERVICE}_SERVICE_HOST", _is_address),
    (rf"{_SERVICE}_SERVICE_PORT(_[A-Z0-9_]+)?", _is_number),
    (rf"{_SERVICE}_PORT", _is_endpoint),
    (_NUMBERED, _is_endpoint),
    (rf"{_NUMBERED}_PROTO", _is_protocol),
    (rf"{_NUMBERED}_PORT", _is_number),
    (rf"{_NUMBERED}_ADDR", _is_address),
)
