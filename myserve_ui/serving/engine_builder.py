"""Makes an engine of a loaded model: checks it, shares out the memory, and hands the parts to each other."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.blocks.attention import BlockKernel
from myserve_ui.engine.blocks.decode_graphs import CudaRecorder, Recorder
from myserve_ui.engine.blocks.flash_kernel import FlashKernel, choose_kernel
from myserve_ui.engine.blocks.runner import BlockRunner
from myserve_ui.engine.echo_runner import EchoRunner
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.grammars.masks import Background
from myserve_ui.engine.memory_budget import plan_cache
from myserve_ui.engine.module.errors import NOT_GIVEN, explain_module_errors
from myserve_ui.engine.module.self_check import (
    Reference,
    check_row_runner,
    check_runner,
    reference_logits,
    tolerance_of,
)
from myserve_ui.engine.rows.runner import ModelRunner, Runner
from myserve_ui.engine.sampling.draws import draw_from_nucleus
from myserve_ui.errors import ModelLoadError
from myserve_ui.kernels.row_ladder import find_row_ladders
from myserve_ui.models.catalog import ModelOptions
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.serving.context_check import Context, settle_context

logger = logging.getLogger(__name__)

CPU_STEP_TOKENS, DEVICE_STEP_TOKENS = 128, 2048
"""Tokens of one step: on a CPU few, so that a long prompt does not hold up the streams of others."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the operator allows an engine; None leaves the choice to the machine."""

    max_num_seqs: int = 16
    max_waiting: int = 128
    """Requests beside those; more are refused."""
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    kv_cache_gib: float | None = None
    debug: bool = False

    def for_model(self, own: ModelOptions) -> EngineLimits:
        """These, but for what a model has of its own."""
        return replace(self, max_model_len=own.max_model_len or self.max_model_len)


def build_engine(loaded: LoadedModel, limits: EngineLimits) -> Engine:
    """An engine that serves `loaded`. Raises ModelLoadError if the model does not pass the self-check."""
    runner, context = _build_runner(loaded, limits)
    budget = plan_cache(
        kv_bytes_per_token=runner.kv_bytes_per_token,
        context_length=context.length,
        max_num_seqs=limits.max_num_seqs,
        device=loaded.device,
        kv_cache_gib=limits.kv_cache_gib,
    )
    if isinstance(runner, BlockRunner):
        runner.cache.bound(budget.max_model_len, budget.max_cache_tokens)
    config = EngineConfig(
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=max(_step_tokens(loaded, limits), limits.max_num_seqs),
        max_model_len=budget.max_model_len,
        max_cache_tokens=budget.max_cache_tokens,
        context_note=context.note,
        eos_token_ids=loaded.eos_token_ids,
        num_input_ids=loaded.num_input_ids,
        debug=limits.debug,
    )
    return Engine(runner, loaded.tokenizer.decode, config=config, background=_beside_the_forward())


def _beside_the_forward() -> Background:
    """One more thread, made at the first use and gone with the engine."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="masks")
    return lambda work: executor.submit(work).result


def _build_runner(loaded: LoadedModel, limits: EngineLimits) -> tuple[Runner, Context]:
    """A runner that passed its checks, and the context that they leave."""
    if loaded.module is None:
        runner = EchoRunner(loaded.tokenizer.vocab_size, min(loaded.eos_token_ids))
        return runner, Context(min(loaded.context_length, limits.max_model_len or loaded.context_length))
    with explain_module_errors(loaded.module, reason=_why_forward_fails(loaded)):
        expected = reference_logits(loaded.module, loaded.num_common_ids)
    checked = _build_checked_runner(loaded, expected, num_slots=max(limits.max_num_seqs, len(expected.logits)))
    tolerance = tolerance_of(checked.dtype, expected.noise)
    return checked, settle_context(loaded, checked, tolerance=tolerance, asked_for=limits.max_model_len)


def _why_forward_fails(loaded: LoadedModel) -> str:
    """What to say where not even a plain forward of the module succeeds."""
    if loaded.info.precision != "full":
        return f"its own forward fails in {loaded.info.precision}, so choose another precision"
    return NOT_GIVEN


def _build_checked_runner(loaded: LoadedModel, expected: Reference, *, num_slots: int) -> ModelRunner | BlockRunner:
    assert loaded.module is not None
    if loaded.device.type == "cuda":
        kernel = choose_kernel(loaded.device, loaded.dtype)
        recorder = CudaRecorder(loaded.device) if isinstance(kernel, FlashKernel) else None
        return build_block_runner(loaded, expected, num_slots=num_slots, kernel=kernel, recorder=recorder)
    runner = _build_row_runner(loaded, num_slots)
    check_row_runner(runner, expected, loaded.num_common_ids)
    if loaded.device.type == "cpu":
        # A loop takes seconds to compile where it has never run: here, and not in the first answer that draws.
        draw_from_nucleus(expected.logits[0][None], [SamplingParams(top_p=0.9).resolve(loaded.defaults)], [0.5])
    return runner


def _build_row_runner(loaded: LoadedModel, num_slots: int) -> ModelRunner:
    """One whose answers do not depend on their company, to the last bit, where the processor lets it."""
    assert loaded.module is not None
    runner = ModelRunner(loaded.module, num_slots=num_slots, max_len=loaded.context_length)
    if not runner.has_loops:
        return runner
    if (ladders := find_row_ladders(loaded.module, runner.dtype)) is None:
        logger.info("%s: the last bits of a logit depend on what is computed beside it", loaded.info.id)
    else:
        runner.token_ladder, runner.logit_ladder = ladders.tokens, ladders.logits
    return runner


def build_block_runner(
    loaded: LoadedModel, expected: Reference, *, num_slots: int, kernel: BlockKernel, recorder: Recorder | None
) -> BlockRunner:
    """A runner that passed the self-check, whose last step is one that is recorded.

    If that is where it fails, steps are launched plainly. Raises ModelLoadError if they are wrong then, too.
    """
    assert loaded.module is not None
    runner = BlockRunner(loaded.module, kernel, num_slots=num_slots, max_len=loaded.context_length, recorder=recorder)
    try:
        check_runner(runner, expected, loaded.num_common_ids)
    except ModelLoadError as error:
        if runner.graphs is None:
            raise
        logger.warning("Recorded steps go wrong on this device, so steps are launched plainly. %s", error.message)
        runner.graphs = None
        check_runner(runner, expected, loaded.num_common_ids)
    return runner


def _step_tokens(loaded: LoadedModel, limits: EngineLimits) -> int:
    if limits.max_num_batched_tokens is not None:
        return limits.max_num_batched_tokens
    return CPU_STEP_TOKENS if loaded.device.type == "cpu" else DEVICE_STEP_TOKENS
