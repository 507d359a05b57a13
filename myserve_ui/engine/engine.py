"""Continuous batching, one step at a time: schedule, forward, sample, update, report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence as SequenceOf
from dataclasses import asdict, dataclass

from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.engine.grammars.masks import Background, in_the_foreground, start_masks
from myserve_ui.engine.module.errors import is_out_of_memory
from myserve_ui.engine.rows.runner import Runner
from myserve_ui.engine.sampling.logprobs import score_prompts
from myserve_ui.engine.sampling.sampler import Sampler
from myserve_ui.engine.scheduler import Sampled, ScheduledBatch, Scheduler
from myserve_ui.engine.sequence import EngineRequest, Sequence
from myserve_ui.engine.slot_manager import SlotManager
from myserve_ui.engine.stats import EngineCounters, EngineSnapshot
from myserve_ui.engine.step_bisection import bisect_step

OUT_OF_MEMORY = (
    "The memory of this machine is too small for this request, even with no other beside it. "
    "Send a shorter prompt or ask for fewer tokens."
)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The engine's budgets, and what it is told of its model."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    """Tokens of one sequence, prompt and answer together."""
    max_cache_tokens: int
    """Tokens of all sequences together, at least max_model_len."""
    context_note: str | None = None
    """Why max_model_len is less than the model states, for people; None if it is not."""
    eos_token_ids: frozenset[int] = frozenset()
    """Each ends an answer."""
    num_input_ids: int | None = None
    """Ids that the model can read: no other may be chosen, or it could not be computed on. None: all that it says."""
    debug: bool = False
    """Check the integrity of the slots at every step instead of only when idle."""


class Engine:
    """Serves many requests with one model. Not thread-safe: one owner calls add, abort and step."""

    def __init__(
        self,
        runner: Runner,
        decode: Callable[[SequenceOf[int]], str],
        *,
        config: EngineConfig,
        clock: Callable[[], float] = time.monotonic,
        background: Background = in_the_foreground,
    ) -> None:
        """`decode` turns ids into text, `clock` tells seconds that never go back; `background` runs beside forwards."""
        self.runner = runner
        self.config = config
        self.clock = clock
        slots = SlotManager(config.max_num_seqs, config.max_model_len, config.max_cache_tokens)
        self.scheduler = Scheduler(
            slots, max_num_batched_tokens=config.max_num_batched_tokens, rotary=runner.rotary_rule
        )
        self.sampler = Sampler(config.eos_token_ids, num_input_ids=config.num_input_ids)
        self.counters = EngineCounters()
        self._decode = decode
        self._background = background
        self._sequences: dict[str, Sequence] = {}
        self._next_seq_id = itertools.count()
        self._batch: ScheduledBatch | None = None
        self._is_short_of_memory = False
        """True from a step that ran out of memory to the next that does not."""

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    def add(self, request: EngineRequest) -> None:
        """Put a request at the end of the queue."""
        sequence = Sequence(next(self._next_seq_id), request, self._decode)
        self._sequences[request.request_id] = sequence
        self.scheduler.add(sequence)

    def abort(self, request_id: str) -> RequestOutput | None:
        """End a request and free its row; its last output, or None if it is not here any more."""
        if (sequence := self._sequences.pop(request_id, None)) is None:
            return None
        self.scheduler.finish(sequence, FinishReason.ABORT)
        return sequence.take_output()

    def step(self) -> list[RequestOutput]:
        """Advance every scheduled sequence and report what changed.

        If memory runs out, less is done at once from then on. If it raises for another reason, `fail_step` does the
        step for those who did not break it.
        """
        self._batch = None
        if (batch := self.scheduler.schedule(self.clock())) is None:
            return []
        self._batch = batch
        is_done = self._advance(batch)
        self._batch = None  # what is booked is not done again
        if not is_done:
            return self._collect_outputs(self._reclaim_memory(batch))
        self.counters.steps += 1
        self._check_integrity()
        return self._collect_outputs([chunk.sequence for chunk in batch.chunks])

    def fail_step(self, message: str) -> list[RequestOutput]:
        """Do the step that just raised for the sequences that go through it, and end the others with `message`.

        All requests are ended if it raised before anything was scheduled, or after everything was booked.
        """
        self.counters.failed_steps += 1
        batch, self._batch = self._batch, None
        if batch is None:
            sequences = list(self._sequences.values())
            self._end(sequences, message)
            return self._collect_outputs(sequences)
        bisection = bisect_step(batch, self._advance)
        if not bisection.is_prepared:
            self.scheduler.roll_back(batch)
        self._end([chunk.sequence for chunk in bisection.culprits], message)
        if bisection.left is not None:
            self._reclaim_memory(bisection.left)
        if self.config.debug:
            self.scheduler.check()
        return self._collect_outputs([chunk.sequence for chunk in batch.chunks])

    def snapshot(self) -> EngineSnapshot:
        """How the engine stands now, to be read by others."""
        slots = self.scheduler.slots
        return EngineSnapshot(
            num_running=len(self.scheduler.running),
            waiting=tuple(sequence.request_id for sequence in self.scheduler.waiting),
            kv_tokens_used=slots.used_tokens,
            kv_tokens_kept=slots.kept_tokens,
            kv_tokens_total=slots.max_tokens,
            prefix_lookup_tokens=slots.lookup_tokens,
            prefix_hit_tokens=slots.hit_tokens,
            preemptions=self.scheduler.num_preemptions,
            prompt_tokens=self.scheduler.admitted_prompt_tokens,
            **asdict(self.counters),
        )

    def _advance(self, batch: ScheduledBatch) -> bool:
        """Compute the batch and book it; False if the memory ran out. Nothing is booked if it raises."""
        if (sampled := self._compute(batch)) is None:
            return False
        self._is_short_of_memory = False
        self.scheduler.update(batch, sampled, self.config.eos_token_ids, self.clock())
        self.counters.generation_tokens += len(sampled.token_ids)
        return True

    def _compute(self, batch: ScheduledBatch) -> Sampled | None:
        """What the batch's sampling chunks say next, or None if the memory ran out."""
        sequences = [chunk.sequence for chunk in batch.sampling]
        masks = start_masks(sequences, self._background)  # computed while the forward runs
        try:
            (self.runner.trim if self._is_short_of_memory else self.runner.reserve)(self.scheduler.slots.allocated())
            logits = self.runner.forward(batch)  # [num_logits, vocab_size]
            score_prompts(batch, logits)
            if batch.num_logits > len(sequences):
                logits = logits[batch.sampling_rows]
            return self.sampler.sample(logits, sequences, masks())
        except BaseException as error:
            masks()  # which must not go on beside the next step
            if not is_out_of_memory(error):
                raise
            return None  # here the traceback, and the tensors that it holds, are let go

    def _reclaim_memory(self, batch: ScheduledBatch) -> list[Sequence]:
        """Ask for less from now on; gives the sequence that had to end, as nothing else was left, if there is one."""
        self.counters.out_of_memory_steps += 1
        alone = self.scheduler.reclaim_memory(batch)
        is_first, self._is_short_of_memory = not self._is_short_of_memory, True
        if alone is None or is_first:  # what it has alone is tried once more, with the cache made as small as it can be
            return []
        self._end([alone], OUT_OF_MEMORY)
        return [alone]

    def _end(self, sequences: SequenceOf[Sequence], message: str) -> None:
        for sequence in sequences:
            self.scheduler.finish(sequence, FinishReason.ERROR, error=message)

    def _check_integrity(self) -> None:
        if self.config.debug or not self.has_work:
            self.scheduler.check()

    def _collect_outputs(self, sequences: list[Sequence]) -> list[RequestOutput]:
        for sequence in sequences:
            if sequence.is_finished:
                self._sequences.pop(sequence.request_id, None)
        return [sequence.take_output() for sequence in sequences]
