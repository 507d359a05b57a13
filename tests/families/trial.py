"""One type of model through the app's own loader and engine, in one form, against the module's own `generate`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from myserve_ui.core.outputs import RequestOutput
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.offline import run_steps
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.catalog import CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from tests.families.tiny_configs import tiny_config
from tests.support.sampling import resolved
from tests.support.tiny_checkpoint import build_tiny_tokenizer

NEW_TOKENS = 6
LENGTHS = (3, 20, 60, 130)
"""Within every window, across its border while decoding, across an original length of 64, and far beyond all."""
FEW_LENGTHS = (20, 130)
"""For further forms of a type."""
GAINS = {"hidden": 2.0, "output": 4.0}
TIE = {"full": 1e-4, "nf4": 2e-2, "int4": 0.3, "int8": 0.3}
"""How near to the likeliest a token must be, as a share of the largest logit, where rounding may choose another."""


class GenerateFailsError(Exception):
    """The module itself cannot write a text: its tiny configuration is wrong, or generate does not know it."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to load a model."""

    precision: str = "full"
    kernels: str = "auto"

    def __str__(self) -> str:
        return self.precision if self.kernels == "auto" else f"{self.precision}, plain kernels"


def write_tiny_model(model_type: str, folder: Path) -> None:
    """A seeded model of `model_type` with a tokenizer. Raises whatever transformers does if it cannot be made."""
    torch.manual_seed(0)
    try:
        model = AutoModelForCausalLM.from_config(tiny_config(model_type), dtype=torch.float32)
    except (TypeError, AttributeError, KeyError):
        model = AutoModelForCausalLM.from_config(tiny_config(model_type, fill=True), dtype=torch.float32)
    model.eval()
    _scale_weights(model)
    model.generation_config = GenerationConfig()
    model.save_pretrained(folder)
    build_tiny_tokenizer().save_pretrained(folder)


def load(folder: Path, form: Form) -> LoadedModel:
    """As the app loads a folder."""
    entry = CatalogEntry("tiny", ModelSource(SourceKind.FOLDER, "tiny", str(folder)), form.precision, created=1)
    options = LoadOptions(cache=folder / "cache", dtype="fp32", device="cpu", kernels=form.kernels)
    return load_model(entry, options=options)


def compare_with_generate(loaded: LoadedModel, form: Form) -> tuple[Engine, list[str]]:
    """Every scenario; returns the engine and what went wrong, a word for each."""
    assert isinstance(loaded.module, PreTrainedModel)
    lengths = LENGTHS if form == Form() else FEW_LENGTHS
    prompts = [_prompt(length, loaded) for length in lengths if length + NEW_TOKENS <= loaded.context_length]
    try:
        expected, failure = [_generated(loaded, prompt) for prompt in prompts], None
    except Exception as error:
        expected, failure = [], error
    engine = build_engine(loaded, EngineLimits(max_num_seqs=3, max_num_batched_tokens=48, debug=True))
    if failure is not None:  # and the engine was made all the same: nobody says what is right
        raise GenerateFailsError(failure) from failure
    fitting = [index for index, prompt in enumerate(prompts) if len(prompt) + NEW_TOKENS <= engine.config.max_model_len]
    wrong = []
    scenarios = _scenarios if form == Form() else _few_scenarios
    for scenario, answers in scenarios(engine, [prompts[index] for index in fitting]):
        for index, answer in zip(fitting, answers, strict=True):
            if not _is_the_same(engine, prompts[index], answer, expected[index], TIE[form.precision]):
                wrong.append(f"{scenario} ({len(prompts[index])} tokens)")
    return engine, wrong


def _generated(loaded: LoadedModel, prompt: tuple[int, ...]) -> list[int]:
    return generate_plainly(loaded.module, prompt, max_tokens=NEW_TOKENS, end_token_ids=frozenset())


def _scenarios(engine: Engine, prompts: list[tuple[int, ...]]) -> Iterator[tuple[str, list[list[int]]]]:
    longest = max(map(len, prompts)) + NEW_TOKENS
    tight = replace(_endless(engine), max_model_len=longest, max_cache_tokens=-(-longest // 64) * 64 + 64)
    yield "alone", [_answers(_again(engine), [prompt])[0] for prompt in prompts]
    yield "batched", _answers(_again(engine), prompts)
    yield "staggered", _answers(_again(engine), prompts, gap=3)
    used = _again(engine)
    _answers(used, prompts)
    yield "prefix hit", _answers(used, prompts)
    small = Engine(engine.runner, lambda _ids: "", config=tight)
    yield "preempted", _answers(small, prompts)


def _few_scenarios(engine: Engine, prompts: list[tuple[int, ...]]) -> Iterator[tuple[str, list[list[int]]]]:
    """For further forms of a type: what a batch is does not depend on how weights are stored."""
    used = _again(engine)
    yield "batched", _answers(used, prompts)
    yield "prefix hit", _answers(used, prompts)


def _endless(engine: Engine) -> EngineConfig:
    """The engine's own, with no token that ends an answer."""
    return replace(engine.config, eos_token_ids=frozenset())


def _again(engine: Engine) -> Engine:
    """The same with empty books."""
    return Engine(engine.runner, lambda _ids: "", config=_endless(engine))


def _answers(engine: Engine, prompts: list[tuple[int, ...]], *, gap: int = 0) -> list[list[int]]:
    params = resolved(temperature=0.0, max_tokens=NEW_TOKENS)
    answers: dict[str, list[int]] = {str(index): [] for index in range(len(prompts))}

    def take(outputs: list[RequestOutput]) -> None:
        for output in outputs:
            assert output.error is None, output.error
            answers[output.request_id] += output.token_ids

    for index, prompt in enumerate(prompts):
        engine.add(EngineRequest(str(index), prompt, params, arrival=0.0))
        for _ in range(gap):
            take(engine.step())
    for outputs in run_steps(engine):
        take(outputs)
    return list(answers.values())


def _is_the_same(engine: Engine, prompt: tuple[int, ...], answer: list[int], expected: list[int], tie: float) -> bool:
    """Equal, or parted where two tokens are as likely as rounding can tell; what follows then says nothing."""
    for place, (own, other) in enumerate(zip(answer, expected, strict=True)):
        if own != other:
            logits = engine.runner.call.own_logits([*prompt, *expected[:place]])  # type: ignore[attr-defined]
            return bool((logits[other] - logits[own]).abs() <= tie * logits.abs().max())
    return True


def _prompt(length: int, loaded: LoadedModel) -> tuple[int, ...]:
    generator = random.Random(length)
    return tuple(generator.randrange(3, min(250, loaded.tokenizer.vocab_size)) for _ in range(length))


def _scale_weights(model: PreTrainedModel) -> None:
    """Weights large enough that the argmax moves with the context."""
    head = model.get_output_embeddings()
    output = None if head is None else head.weight
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() >= 2 and parameter.is_floating_point():
            gain = GAINS["output"] if parameter is output else GAINS["hidden"]
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data = gain * noise / parameter.shape[-1] ** 0.5
