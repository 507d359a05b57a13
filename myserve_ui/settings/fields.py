"""Every setting of the app in one frozen object."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from myserve_ui.settings.folders import own_folder
from myserve_ui.settings.model_tables import Dtype, ModelTable, ModelTables, Precision, read_model_tables

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

    model: tuple[str, ...] = Field(
        ("SmolLM2-135M-Instruct",),
        min_length=1,
        description="model to serve: the default's name, a hub id, a folder or a .gguf file; several, comma "
        "separated or as further options: the first loads at start, the others when asked for",
    )
    models: ModelTables | None = Field(
        None, description="TOML file of models with names and load options of their own, beside those of --model"
    )
    precision: Precision = Field(
        "full", description="precision that is loaded at start; the others load when asked for"
    )
    dtype: Dtype = Field("auto", description="dtype of full precision; auto: fp32 on a CPU, else the checkpoint's")
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

    @property
    def served(self) -> tuple[ModelTable, ...]:
        """Every model that is served, the default first: those of `model`, then those of the file."""
        named = tuple(ModelTable(model=each, origin=f"--model {each}") for each in self.model)
        if self.models is None:
            return named
        return (*(named if "model" in self.model_fields_set else ()), *self.models.tables)

    @field_validator("models", mode="before")
    @classmethod
    def _read_models(cls, value: object) -> object:
        return read_model_tables(Path(value).expanduser()) if isinstance(value, str | Path) else value

    @field_validator("model", "api_key", "allowed_origins", "allowed_hosts", mode="before")
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
