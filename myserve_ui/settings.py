"""Every setting of the app in one frozen object, read once from the environment and the command line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, CliSettingsSource, NoDecode, SettingsConfigDict

from myserve_ui.errors import SettingsError

ENV_PREFIX = "MYSERVE_"
PLAIN_ENVIRONMENT = {"TRUST_REMOTE_CODE": "trust_remote_code", "HF_TOKEN": "hf_token", "HUGGINGFACE_TOKEN": "hf_token"}
"""Names that people already export for other tools; they fill a setting that is not set otherwise."""

Names = Annotated[tuple[str, ...], NoDecode]
"""Several values: comma separated in the environment and on the command line."""


class Settings(BaseSettings):
    """Settings of the app; each is an environment variable (MYSERVE_PORT) and an option (--port)."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", cli_kebab_case=True)

    model: str = Field("SmolLM2-135M-Instruct", description="model to serve: the default's name, a hub id, a folder or a .gguf file")
    precision: Literal["full", "nf4"] = Field("full", description="precision that is loaded at start; the others load when asked for")
    dtype: Literal["auto", "bf16", "fp16", "fp32"] = Field("auto", description="dtype of full precision; auto: fp32 on a CPU, else the checkpoint's")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:N or mps", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 opens the app to the network, use an API key then")
    port: int = Field(7860, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key: Annotated[tuple[SecretStr, ...], NoDecode] = Field((), description="key or keys, comma separated, that every caller must send; none: open")
    allowed_origins: Names = Field((), description="web origins, comma separated, that may call the API from a browser page")
    allowed_hosts: Names = Field((), description="Host names, comma separated, that are served beside loopback ones; * serves any")
    cache: Path = Field(Path(platformdirs.user_cache_dir("myserve-ui")), description="folder for converted weights")
    hf_token: SecretStr | None = Field(None, description="access token for gated models on the hub (also HF_TOKEN, HUGGINGFACE_TOKEN)")
    trust_remote_code: bool = Field(False, description="run code that comes with a model (also TRUST_REMOTE_CODE=1)")
    chat_template: str | None = Field(None, description="Jinja chat template, or a file with one, used in place of the model's own")
    force_echo: bool = Field(False, description="no weights: answer with an echo of the prompt's tokens, to try the wiring")
    max_num_seqs: int = Field(16, ge=1, le=1024, description="requests that generate at the same time")
    max_num_batched_tokens: int | None = Field(None, ge=16, le=65536, description="tokens in one step; default: 128 on a CPU, else 2048")
    max_model_len: int | None = Field(None, ge=16, description="context length, prompt and answer together; default: the model's own")
    max_waiting: int = Field(128, ge=1, le=100_000, description="requests that may wait for their turn; more get 429")
    kv_cache_gib: float | None = Field(None, gt=0, description="memory for keys and values in GiB; default: a share of what is free")
    threads: int | None = Field(None, ge=1, le=1024, description="CPU threads of the matrix products; default: torch's choice")
    request_timeout: float = Field(600.0, gt=0, description="seconds after which a request is ended")
    stall_seconds: float = Field(60.0, gt=0, description="seconds with work but no finished step after which /health says stalled")
    shutdown_grace: float = Field(10.0, ge=0, description="seconds that running requests get to finish at shutdown")
    max_body_mib: float = Field(4.0, gt=0, le=1024, description="largest request body in MiB")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least important log line that is shown")
    debug: bool = Field(False, description="check the engine's books at every step and log each step")

    @field_validator("api_key", "allowed_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def read_settings(arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environment` (default: the process's) and command-line `arguments`, which win.

    Raises SettingsError that names the key, the value and the nearest valid key. `--help` exits with 0.
    """
    environment = os.environ if environment is None else environment
    _refuse_unknown_keys(environment)
    values = _read_environment(environment)
    source = CliSettingsSource(
        Settings, cli_prog_name="python app.py", cli_implicit_flags=True, cli_kebab_case=True, cli_exit_on_error=True
    )
    raise NotImplementedError(values, source, arguments)
