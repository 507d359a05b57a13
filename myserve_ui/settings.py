"""Every setting of the app in one frozen object, read once from the environment and the command line."""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from myserve_ui.core.loopback import is_loopback
from myserve_ui.errors import SettingsError
from myserve_ui.setting_folders import can_be_made, is_temporary, own_folder, temporary_home
from myserve_ui.setting_sources import Given, read_options, read_variables, service_variables, unknown_variables
from myserve_ui.setting_words import expected, is_secret

PLAIN_ENVIRONMENT = {"TRUST_REMOTE_CODE": "trust_remote_code", "HF_TOKEN": "hf_token", "HUGGINGFACE_TOKEN": "hf_token"}
"""Names that people already export for other tools; they fill a setting that is not set otherwise, first come first."""

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

Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^/,\s]+)$")]
"""What a browser sends as Origin: no path, no slash at the end."""

RootPath = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]+)*$")]


def _default_cache() -> Path:
    return own_folder(platformdirs.user_cache_dir, "cache")


def _default_data() -> Path:
    return own_folder(platformdirs.user_data_dir, "data")


class Settings(BaseModel):
    """Settings of the app. `read_settings` fills them; made directly, they look at nothing but their arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    model: str = Field(
        "SmolLM2-135M-Instruct",
        min_length=1,
        description="model to serve: the default's name, a hub id, a folder or a .gguf file",
    )
    precision: Literal["full", "nf4", "int8", "int4"] = Field(
        "full", description="precision that is loaded at start; the others load when asked for"
    )
    dtype: Literal["auto", "bf16", "fp16", "fp32"] = Field(
        "auto", description="dtype of full precision; auto: fp32 on a CPU, else the checkpoint's"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="device of the weights: auto, cpu, cuda, cuda:N or mps",
        examples=["auto", "cpu", "cuda", "cuda:1", "mps"],
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address to listen on; 0.0.0.0 opens the app to the network, use an API key then",
    )
    port: int = Field(7860, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key: tuple[SecretStr, ...] = Field(
        (), description="key or keys, comma separated, that every caller must send; none: open"
    )
    root_path: RootPath = Field(
        "",
        description="path under which a proxy serves the app, with or without stripping it; default: what a trusted "
        "proxy says in X-Forwarded-Prefix",
        examples=["/llm", "/tools/llm"],
    )
    allowed_origins: tuple[Origin, ...] = Field(
        (),
        description="web origins, comma separated, that may call the API from a browser page",
        examples=["https://example.org", "http://localhost:3000", "*"],
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names, comma separated, that are served beside loopback ones; * serves any"
    )
    cache: Path = Field(
        default_factory=_default_cache, description="folder for converted weights; default: in the user's cache folder"
    )
    data: Path = Field(
        default_factory=_default_data, description="folder for benchmark runs; default: in the user's data folder"
    )
    hf_token: SecretStr | None = Field(
        None, description="access token for gated models on the hub (also HF_TOKEN, HUGGINGFACE_TOKEN)"
    )
    trust_remote_code: bool = Field(False, description="run code that comes with a model (also TRUST_REMOTE_CODE=1)")
    chat_template: str | None = Field(
        None, description="Jinja chat template, or a file with one, used in place of the model's own"
    )
    force_echo: bool = Field(
        False, description="no weights: answer with an echo of the prompt's tokens, to try the wiring"
    )
    max_num_seqs: int = Field(16, ge=1, le=1024, description="requests that generate at the same time")
    max_num_batched_tokens: int | None = Field(
        None, ge=16, le=65536, description="tokens in one step; default: 128 on a CPU, else 2048"
    )
    max_model_len: int | None = Field(
        None, ge=16, description="context length, prompt and answer together; default: the model's own"
    )
    max_waiting: int = Field(128, ge=1, le=100_000, description="requests that may wait for their turn; more get 429")
    kv_cache_gib: float | None = Field(
        None, gt=0, description="memory for keys and values in GiB; default: a share of what is free"
    )
    response_cache_entries: int = Field(
        256, ge=0, le=1_000_000, description="whole answers kept for equal greedy or seeded requests; 0 keeps none"
    )
    response_cache_mib: float = Field(16.0, ge=0, le=65536, description="memory for those answers in MiB")
    weights_gib: float | None = Field(
        None,
        gt=0,
        description="memory for the weights of all loaded precisions in GiB; the one unused for longest makes way; "
        "default: what is free",
    )
    kernels: Literal["auto", "plain"] = Field(
        "auto",
        description="layers that compute on a CPU: auto: the quickest that agree with the model's own; plain: its own",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="CPU threads of the matrix products; default: torch's choice, fewer while other programs compute",
    )
    request_timeout: float = Field(600.0, gt=0, description="seconds after which a request is ended")
    stall_seconds: float = Field(
        60.0, gt=0, description="seconds with work but no finished step after which /health says stalled"
    )
    shutdown_grace: float = Field(10.0, ge=0, description="seconds that running requests get to finish at shutdown")
    max_choices: int = Field(16, ge=1, le=128, description="answers to one prompt that a request may ask for (n)")
    max_prompts: int = Field(64, ge=1, le=4096, description="prompts in one text completion request")
    max_body_mib: float = Field(4.0, gt=0, le=1024, description="largest request body in MiB")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least important log line that is shown"
    )
    debug: bool = Field(False, description="check the engine's books at every step, which costs some speed")

    @field_validator("api_key", "allowed_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not (parts := tuple(part.strip() for part in value.split(",") if part.strip())):
            raise ValueError("empty")  # a key that got lost on its way must not open the app
        return parts

    @field_validator("cache", "data")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return Path(os.path.expanduser(value))


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


def read_settings(arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environment` (default: the process's) and command-line `arguments`, which win.

    An empty environment variable counts as unset. Raises SettingsError with one line for each problem: an unknown name
    beside the nearest valid one, a bad value beside what it must be. `--help` and `--version` print and exit with 0.
    """
    environment = os.environ if environment is None else environment
    options, problems = read_options(Settings.model_fields, arguments)
    given = read_variables(Settings.model_fields, environment, others=PLAIN_ENVIRONMENT) | options
    problems = unknown_variables(Settings.model_fields, environment) + problems
    try:
        settings = Settings.model_validate({name: entry.value for name, entry in given.items()})
    except ValidationError as error:
        names = dict.fromkeys(str(detail["loc"][0]) for detail in error.errors(include_input=False))
        problems += [_complaint(name, given[name]) for name in names]
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def kubernetes_note(environment: Mapping[str, str] | None = None) -> str | None:
    """What to tell an operator in whose cluster a service has the app's name; None if there is none."""
    names = sorted(service_variables(os.environ if environment is None else environment))
    if not names:
        return None
    return f"{', '.join(names)} tell of a Kubernetes service and are not read as settings."


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


def _complaint(name: str, given: Given) -> str:
    field = Settings.model_fields[name]
    shown = "" if is_secret(field) else f" is {str(given.value)[:60]!r}, but"
    return f"{given.origin}{shown} must be {expected(field)}."
