"""Makes docs/models.md by a run: every causal type of the installed transformers, and what the app makes of it.

`make models` tries them all, which takes the better part of an hour on two cores: every type in full precision first,
then by plain kernels, then in fewer bits, those of OFTEN before the others. `ARGS="--minutes 25"` ends it early, and
the page says of each type what was tried; `ARGS="llama phi3 --print"` tries some and changes no file.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import shutil
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from myserve_ui.settings.environment import prepare_environment

prepare_environment()

import torch  # noqa: E402
from transformers.utils.logging import disable_progress_bar  # noqa: E402

from myserve_ui.core.machine import describe_versions  # noqa: E402
from myserve_ui.errors import MyServeError  # noqa: E402
from tests.families.tiny_configs import causal_types  # noqa: E402
from tests.families.trial import Form, GenerateFailsError, compare_with_generate, load, write_tiny_model  # noqa: E402

PAGE = Path("docs/models.md")
FORMS = (Form(), Form(kernels="plain"), Form("int4"), Form("nf4"), Form("int8"))
PASSES = (FORMS[:1], FORMS[1:2], FORMS[2:])
"""The forms of the first for all types, then those of the next."""
OFTEN = (
    *("llama", "qwen3", "qwen2", "mistral", "gemma3_text", "gpt2", "phi3", "qwen3_moe", "mixtral", "gpt_oss", "olmoe"),
    *("deepseek_v3", "gemma4_text", "granite", "smollm3", "glm4", "cohere2", "stablelm", "gpt_neox", "phimoe", "dbrx"),
)
"""Types that come first in a pass."""
NOT_REACHED = "the run ended before it"
SECONDS = 240
"""After which a type is given up."""
Passes = tuple[tuple[Form, ...], ...]


def try_form(folder: Path, form: Form) -> dict[str, Any]:
    """The verdict on one form: right, wrong or refused, with words."""
    log = _Words()
    try:
        loaded = load(folder, form)
        engine, wrong = compare_with_generate(loaded, form)
    except MyServeError as error:
        return {"verdict": "refused", "words": [error.message]}
    except GenerateFailsError as error:
        return {"verdict": "unmade", "words": [f"its own generate fails: {_in_short(error.__cause__)}"]}
    except Exception as error:
        return {"verdict": "wrong", "words": [f"{type(error).__name__}: {str(error)[:200]}"]}
    finally:
        log.close()
    words = [*wrong, *log.words]
    return {
        "verdict": "wrong" if wrong else "right",
        "words": words,
        "context": engine.config.max_model_len,
        "stated": loaded.context_length,
        "whole": _unquantised(loaded.module) if form.precision != "full" else [],
    }


class _Words(logging.Handler):
    """What the app says beside, at warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []
        logging.getLogger("myserve_ui").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())

    def close(self) -> None:
        logging.getLogger("myserve_ui").removeHandler(self)
        super().close()


def _unquantised(module: Any) -> list[str]:
    """Kinds of weights of two or more dimensions that stay as they are, but for embeddings, head and routers."""
    left = set()
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 3 and parameter.dtype.is_floating_point and parameter.numel() > 4096:
            left.add(".".join(name.split(".")[-2:]))
    return sorted(left)


def _in_short(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:160]}"


def try_type(model_type: str, forms: tuple[Form, ...], results: Any) -> None:
    """All forms of one type; in a process of its own."""
    torch.set_num_threads(1)
    disable_progress_bar()
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="family-"))
    try:
        try:
            write_tiny_model(model_type, folder)
        except Exception as error:
            results.put({"unmade": _in_short(error)})
            return
        found: dict[str, Any] = {}
        for form in forms:
            found[str(form)] = try_form(folder, form)
            if found[str(form)]["verdict"] in ("refused", "unmade") and form == forms[0]:
                break
        if found[str(forms[0])]["verdict"] == "unmade":
            results.put({"unmade": found[str(forms[0])]["words"][0]})
            return
        results.put({"forms": found})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_all(types: list[str], passes: Passes, found: dict[str, Any], *, end: float, kept: Path | None) -> None:
    """Add verdicts to those in `found`, by type; no trial begins after `end` of the monotonic clock."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:  # what is loaded and compiled here, no child loads again
        write_tiny_model("llama", Path(folder))
        try_form(Path(folder), FORMS[0])
    for forms in passes:
        for model_type in sorted(types, key=lambda name: (name not in OFTEN, name)):
            known = found.get(model_type, {}).get("forms", {})
            missing = tuple(form for form in forms if str(form) not in known)
            is_settled = known and next(iter(known.values()))["verdict"] == "refused"
            if not missing or is_settled or "unmade" in found.get(model_type, {}) or time.monotonic() > end:
                continue
            new = try_in_child(model_type, missing)
            if known and "unmade" in new:
                new = {"forms": {str(form): {"verdict": "unmade", "words": [new["unmade"]]} for form in missing}}
            found[model_type] = {"forms": {**known, **new["forms"]}} if "forms" in new else new
            print(model_type, json.dumps(new)[:400], flush=True)  # noqa: T201
            if kept is not None:
                kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    for model_type in types:
        found.setdefault(model_type, {"unmade": NOT_REACHED})


def try_in_child(model_type: str, forms: tuple[Form, ...]) -> dict[str, Any]:
    """What try_type says, in a process of its own, so that one that hangs or dies is one line."""
    context = multiprocessing.get_context("fork")
    results, began = context.SimpleQueue(), time.monotonic()
    child = context.Process(target=try_type, args=(model_type, forms, results))
    child.start()
    while child.is_alive() and results.empty() and time.monotonic() - began < SECONDS:
        time.sleep(0.05)
    new = {"unmade": "its trial did not end in time, or ended the process"} if results.empty() else results.get()
    child.join(5)
    child.kill()
    return new


def write_page(found: Mapping[str, Any]) -> str:
    """docs/models.md."""
    from tests.families.page import render

    return render(found, describe_versions(("transformers", "torch", "bitsandbytes")))


def main() -> None:
    """Try what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", help="types to try; all, if none is named")
    parser.add_argument("--print", action="store_true", help="change no file")
    parser.add_argument("--quick", action="store_true", help="full precision alone")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="after which no trial begins")
    parser.add_argument("--keep", type=Path, help="a JSON file to go on from, and to write verdicts to")
    options = parser.parse_args()
    found = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    end = time.monotonic() + options.minutes * 60
    passes = PASSES[:1] if options.quick else PASSES
    try_all(options.types or causal_types(), passes, found, end=end, kept=options.keep)
    if not options.print:
        PAGE.write_text(write_page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
