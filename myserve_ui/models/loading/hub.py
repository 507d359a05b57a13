"""Fetches a model's files from the Hugging Face hub, or says in a sentence why it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is there, but not declared for export
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from tqdm.auto import tqdm

from myserve_ui.core.model_info import OnProgress
from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.weight_files import INDEX, WHOLE, adapter_alone

STAGE = "downloading from the hub"
ANSWER_WITHIN_SECONDS = 10.0
"""A hub that cannot be reached is given up after this, not after minutes of retries."""

FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
CODE = ("*.py",)
NOT_FILES = ("original/*", "onnx/*", "openvino/*", "gguf/*", "consolidated*.safetensors")
"""Other forms of the same weights. Files named consolidated are in the layout of the maker, which nobody reads here."""


@dataclass(frozen=True, slots=True)
class Hub:
    """How to talk to the hub; None: the library's own endpoint and cache folder."""

    token: str | None = None
    endpoint: str | None = None
    cache: Path | None = None


def fetch_from_hub(repo: str, hub: Hub, *, with_code: bool, on_progress: OnProgress) -> Path:
    """The local folder with `repo`'s files, downloaded if they are not there. Raises ModelLoadError."""
    on_progress(STAGE, None)
    patterns = FILES + CODE if with_code else FILES
    try:
        info = HfApi(endpoint=hub.endpoint, token=hub.token).model_info(repo, timeout=ANSWER_WITHIN_SECONDS)
        names = [sibling.rfilename for sibling in info.siblings or ()]
        if names:
            _refuse_without_weights(repo, set(names))
        return _download(repo, hub, patterns, on_progress)
    except GatedRepoError as error:
        raise ModelLoadError(
            f"{repo} is gated: accept its terms on huggingface.co and set HF_TOKEN to a token of that account."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelLoadError(
            f"The hub has no model {repo!r} that may be read: check the name, or set HF_TOKEN if it is private; "
            "for a local folder write its path, such as ./my-model."
        ) from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, TimeoutError, ConnectionError, HTTPError) as error:
        return _find_in_cache(repo, hub, patterns, error)


def _refuse_without_weights(repo: str, names: set[str]) -> None:
    """Before anything is downloaded."""
    if names & {WHOLE, INDEX}:
        return
    if "adapter_config.json" in names:
        raise ModelLoadError(adapter_alone(repo))
    if any(name.endswith(".gguf") for name in names):
        raise ModelLoadError(
            f"{repo} holds GGUF files: download one of them, and name the file itself with --model or MYSERVE_MODEL."
        )
    raise ModelLoadError(
        f"{repo} has no safetensors weights that transformers reads ({WHOLE}): choose a model that has, or convert it."
    )


def _download(repo: str, hub: Hub, patterns: tuple[str, ...], on_progress: OnProgress) -> Path:
    folder = snapshot_download(
        repo,
        token=hub.token,
        endpoint=hub.endpoint,
        cache_dir=hub.cache,
        allow_patterns=list(patterns),
        ignore_patterns=list(NOT_FILES),
        etag_timeout=ANSWER_WITHIN_SECONDS,
        tqdm_class=_reporting_bar(on_progress),
    )
    return Path(folder)


def _find_in_cache(repo: str, hub: Hub, patterns: tuple[str, ...], error: Exception) -> Path:
    """The whole copy of an earlier download: a hub that is out of reach is no reason not to serve it."""
    try:
        folder = snapshot_download(
            repo,
            cache_dir=hub.cache,
            local_files_only=True,
            allow_patterns=list(patterns),
            ignore_patterns=list(NOT_FILES),
        )
        return Path(folder)
    except LocalEntryNotFoundError:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        answer = f"the hub answered {status}" if status else "the model hub cannot be reached"
        raise ModelLoadError(
            f"{repo} is not on this machine and {answer}: connect, or choose a local folder, "
            "a .gguf file or the default model with --model or MYSERVE_MODEL."
        ) from error


def _reporting_bar(on_progress: OnProgress) -> type[tqdm[Any]]:
    """A progress bar that draws nothing and reports the share of bytes done."""

    class ReportingBar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.pop("name", None)
            self._counts_bytes = options.get("unit") == "B"
            super().__init__(*arguments, **{**options, "disable": False, "gui": True})

        def update(self, amount: float | None = 1) -> None:
            self.n += amount or 0
            if self._counts_bytes and self.total:
                on_progress(STAGE, min(1.0, self.n / self.total))

        def display(self, *_: Any, **__: Any) -> None:
            return None

        def close(self) -> None:
            return None

    return ReportingBar
