"""The exception tree. Each class carries what the wire says of it: HTTP status, type and code.

A message names the value, the bound and the way out, and is safe to show to anybody: no path of this machine,
no class name, no traceback.
"""


class MyServeError(Exception):
    """Base of every error that this project raises on purpose."""

    status = 500
    type = "server_error"
    code: str | None = None
    retry_after: int | None = None
    """Seconds after which asking again makes sense; sent as Retry-After."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequestError(MyServeError):
    """The request cannot be served as asked; asking again unchanged will not help."""

    status = 400
    type = "invalid_request_error"


class ContextLengthExceededError(InvalidRequestError):
    """The prompt, or the prompt with max_tokens, does not fit the context."""

    code = "context_length_exceeded"


class ModelNotFoundError(InvalidRequestError):
    """The name is not in the catalog."""

    status = 404
    code = "model_not_found"


class AuthenticationError(MyServeError):
    """The API key is missing or wrong."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class OverloadedError(MyServeError):
    """The queue is full."""

    status = 429
    type = "rate_limit_error"
    code = "overloaded"
    retry_after = 2


class UnavailableError(MyServeError):
    """The service, or the engine asked for, cannot answer now."""

    status = 503
    retry_after = 5


class ModelLoadingError(UnavailableError):
    """The weights are still loading; the load goes on in the background."""

    code = "model_loading"


SHUTTING_DOWN = "The app is shutting down and takes no new requests."


class ShuttingDownError(UnavailableError):
    """The process drains and takes no new work."""

    code = "shutting_down"


class EngineDeadError(UnavailableError):
    """The engine has ended; only a restart helps."""

    code = "engine_dead"


class GenerationFailedError(MyServeError):
    """A step failed; only the requests of that step are lost."""


class ModelLoadError(MyServeError):
    """The model cannot be loaded: wrong name, no weights, unsupported architecture, not enough memory."""

    code = "model_load_failed"


class NotEnoughMemoryError(ModelLoadError):
    """The weights, or any keys and values beside them, do not fit what is free now."""


class PrecisionUnavailableError(ModelLoadError):
    """The precision is not possible on this machine; the message says why."""

    status = 400
    type = "invalid_request_error"
    code = "precision_unavailable"


class SettingsError(MyServeError):
    """A setting is unknown or out of its range; the message names the nearest valid one."""
