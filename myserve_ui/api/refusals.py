"""Refusals that only an HTTP door can give; each says its status and code like every other error of the project."""

from __future__ import annotations

from myserve_ui.errors import InvalidRequestError


class PathNotFoundError(InvalidRequestError):
    """No route has this path."""

    status = 404
    code = "not_found"


class MethodNotAllowedError(InvalidRequestError):
    """The path exists, the method does not; `allow` lists those that do."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class BodyTooLargeError(InvalidRequestError):
    """The body is over the limit."""

    status = 413
    code = "body_too_large"


class HeadersTooLargeError(InvalidRequestError):
    """The headers are over the limit."""

    status = 431
    code = "headers_too_large"


class UnsupportedMediaTypeError(InvalidRequestError):
    """The body is not declared as JSON."""

    status = 415
    code = "unsupported_media_type"


class HostNotAllowedError(InvalidRequestError):
    """The Host header names a host that this server does not stand for."""

    status = 403
    type = "permission_error"
    code = "host_not_allowed"


class ClientGoneError(Exception):
    """The client left before its answer was complete; there is nobody to tell."""
