"""Which form of fewer bits a checkpoint is stored in, and what is needed to read it here."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from myserve_ui.errors import ModelLoadError, MyServeError
from myserve_ui.models.loading.errors import in_short, is_out_of_memory
from myserve_ui.models.loading.json_files import RawConfig

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "awq": "gptqmodel",
        "gptq": "gptqmodel",
        "auto-round": "auto-round",
        "compressed-tensors": "compressed-tensors",
        "bitsandbytes": "bitsandbytes",
        "aqlm": "aqlm",
        "quanto": "optimum-quanto",
        "hqq": "hqq",
        "torchao": "torchao",
        "eetq": "eetq",
        "vptq": "vptq",
        "quark": "amd-quark",
    }
)
"""Form -> the package on PyPI that transformers reads it with."""

IMPORTED_AS: Mapping[str, str] = MappingProxyType(
    {"auto-round": "auto_round", "compressed-tensors": "compressed_tensors", "optimum-quanto": "optimum.quanto"}
    | {"amd-quark": "quark"}
)
TRACES = re.compile(
    r"(scale_inv|weight_scale(_\d+)?|input_scale|qweight|qzeros|scales|g_idx|weight_packed|weight_zero_point|absmax|"
    r"quant_map|quant_state\..*|SCB|weight_format|_blocks|_scales)$"
)
"""How names end that belong to some form of fewer bits."""

OTHER_COPY = "or choose the model that it was made from, in fewer bits with --precision nf4 or int4"


def find_stored_form(raw: RawConfig, name: str) -> str | None:
    """The form that config.json names, None if it names none. Raises ModelLoadError if it cannot be read here."""
    described = raw.get("quantization_config")
    if described is None:
        described = raw.get("compression_config")
    if described is None:
        return None
    form = _form_of(described)
    if form is None:
        raise ModelLoadError(
            f"The quantization_config of {name} does not say how its weights are stored (quant_method): download its "
            f"config.json again, {OTHER_COPY}."
        )
    known = {each.removesuffix("_4bit").removesuffix("_8bit") for each in AUTO_QUANTIZATION_CONFIG_MAPPING}
    if form not in known:
        raise ModelLoadError(
            f"{name} is stored in a form that the installed transformers does not know ({form[:40]}): update "
            f"transformers, {OTHER_COPY}."
        )
    if (package := PACKAGES.get(form)) and not _is_installed(package):
        raise ModelLoadError(
            f"{name} is stored as {form}, which is read with the package {package}, and that is not installed: run "
            f"`pip install {package}`, {OTHER_COPY}."
        )
    return form


@contextmanager
def explain_stored_form(form: str | None, name: str) -> Iterator[None]:
    """Raise ModelLoadError for what a library says of a form of fewer bits that it cannot read or run here."""
    try:
        yield
    except (MyServeError, MemoryError, OSError):
        raise
    except Exception as error:
        if form is None or is_out_of_memory(error):
            raise
        raise ModelLoadError(
            f"{name} is stored as {form}, which cannot be loaded here ({in_short(error)}): install what is missing, "
            f"{OTHER_COPY}."
        ) from error


def trace_of_form(names: set[str]) -> str | None:
    """Of tensors that nobody read, one that belongs to a form of fewer bits."""
    return next((name for name in sorted(names) if TRACES.search(name)), None)


def _form_of(described: object) -> str | None:
    if not isinstance(described, dict):
        return None
    if described.get("load_in_4bit") or described.get("load_in_8bit"):
        return "bitsandbytes"
    method = described.get("quant_method")
    return method if isinstance(method, str) and method else None


def _is_installed(package: str) -> bool:
    module = IMPORTED_AS.get(package, package)
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False
