"""Decides which sequences run in the next step. Knows tokens and rows; knows no tensors."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass

from myserve_ui.core.outputs import FinishReason, TokenLogprob
from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.sequence import Sequence, containing_faults
from myserve_ui.engine.slot_manager import SlotCopy, SlotManager

MAX_SCORED_TOKENS = 256
"""Longest chunk whose every token is scored: its logits are so many times the vocabulary."""

NOT_A_NUMBER = (
    "The model computed values that are not numbers, so this answer ends here. "
    "If it happens again, load the model with dtype fp32 or bf16."
)


@dataclass(frozen=True, slots=True)
class ScheduledChunk:
    """Tokens [start, start + length) of one sequence, computed in this step."""

    sequence: Sequence
    start: int
    length: int
    slot: int
    samples: bool
    """True if the chunk ends at the last known token, so that its logits choose the next one."""
    scored: bool = False
    """True if every token's logits are wanted, to score the prompt."""

    @property
    def num_logits(self) -> int:
        return self.length if self.scored else int(self.samples)

    @property
    def token_ids(self) -> list[int]:
        return self.sequence.token_ids[self.start : self.start + self.length]


@dataclass(frozen=True, slots=True)
class ScheduledBatch:
    """One step's work. Chunks of one token, the decode rows, come first; both kinds in the order of their slots."""

    chunks: tuple[ScheduledChunk, ...]
    clears: tuple[int, ...] = ()
    """Rows to clear before anything else."""
    copies: tuple[SlotCopy, ...] = ()
    """Row copies to make next, in this order."""

    @property
    def sampling(self) -> list[ScheduledChunk]:
        """The chunks whose logits are needed, in order."""
        return [chunk for chunk in self.chunks if chunk.samples]

    @property
    def sampling_rows(self) -> list[int]:
        """Which rows of the logits belong to `sampling`: the last of each such chunk."""
        ends = itertools.accumulate(chunk.num_logits for chunk in self.chunks)
        return [end - 1 for end, chunk in zip(ends, self.chunks, strict=True) if chunk.samples]

    @property
    def logit_rows(self) -> list[int]:
        """Which tokens of the batch, laid end to end, have logits that are wanted: the last ones of their chunks."""
        ends = itertools.accumulate(chunk.length for chunk in self.chunks)
        spans = (range(end - chunk.num_logits, end) for end, chunk in zip(ends, self.chunks, strict=True))
        return list(itertools.chain.from_iterable(spans))

    @property
    def num_tokens(self) -> int:
        return sum(chunk.length for chunk in self.chunks)

    @property
    def num_logits(self) -> int:
        return sum(chunk.num_logits for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a step chose, in the order of the batch's sampling chunks."""

    token_ids: list[int | None]
    """None for logits that are not numbers."""
    logprobs: dict[int, TokenLogprob]
    """By index, for the sequences that asked."""


class Scheduler:
    """First come, first served, under three budgets: sequences, tokens of one step, tokens of cache memory.

    A step takes one token of every sequence that decodes, then fills what is left of `max_num_batched_tokens` with
    chunks of prompts: however many long prompts come in, no gap of a running stream exceeds the time of one step of so
    many tokens.
    When memory runs out the newest sequence is preempted: it waits at the front of the queue and is computed again.
    """

    def __init__(self, slots: SlotManager, *, max_num_batched_tokens: int, rotary: RotaryRule | None = None) -> None:
        self.slots = slots
        self._rotary = rotary
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_num_seqs = slots.num_slots
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self.admitted_prompt_tokens = 0
        """Prompt tokens of every request that was ever admitted, cached ones included."""
        self._copies: list[SlotCopy] = []
        self._most_running: int | None = None
        """After a lack of memory: how many may run until one of them has left."""

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def schedule(self, now: float) -> ScheduledBatch | None:
        """Choose the next step's chunks, or None when there is nothing to do."""
        self._copies = []
        self.slots.start_step()
        self._start_anew_beyond_switches()
        self._allocate_decode_memory()
        decodes = [_chunk(sequence, 1) for sequence in self.running if sequence.num_uncomputed_tokens == 1]
        prefills = self._schedule_prefills(self.max_num_batched_tokens - len(decodes))
        for chunk in prefills:
            chunk.sequence.mark_scheduled(now)
        chunks = sorted(decodes + prefills, key=lambda chunk: (chunk.length > 1, chunk.slot))
        if not chunks:
            return None
        return ScheduledBatch(tuple(chunks), self.slots.take_dirty(), tuple(self._copies))

    def update(self, batch: ScheduledBatch, sampled: Sampled, eos_token_ids: frozenset[int], now: float) -> None:
        """Book what the step computed: advance every chunk, append the sampled tokens, free the finished.

        A token of None stands for logits that are not numbers: that sequence alone ends with an error.
        """
        for chunk in batch.chunks:
            chunk.sequence.num_computed_tokens += chunk.length
            end = chunk.start + chunk.length
            self.slots.record(chunk.slot, self._prefix_keys(chunk.sequence, chunk.start, end))
        for index, (chunk, token_id) in enumerate(zip(batch.sampling, sampled.token_ids, strict=True)):
            if chunk.sequence.is_finished:  # its prompt's scores failed
                continue
            if token_id is None:
                self.finish(chunk.sequence, FinishReason.ERROR, error=_why_no_token(chunk.sequence))
                continue
            with containing_faults(chunk.sequence):
                chunk.sequence.append_token(token_id, eos_token_ids, now)
                if (logprob := sampled.logprobs.get(index)) is not None:
                    chunk.sequence.add_logprob(logprob)
        for chunk in batch.chunks:
            sequence = chunk.sequence
            if sequence.params.max_tokens == 0 and not sequence.num_uncomputed_tokens and not sequence.is_finished:
                sequence.finish(FinishReason.LENGTH)
            if sequence.is_finished:
                self._leave(sequence, keep=sequence.finish_reason is not FinishReason.ERROR)

    def finish(self, sequence: Sequence, reason: FinishReason, *, error: str | None = None) -> None:
        """End a sequence from outside a step: aborted, timed out or failed. Its row is free at once."""
        if not sequence.is_finished:
            sequence.finish(reason, error=error)
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        # what a failed step wrote is not to be trusted, so nothing of it is kept for others
        self._leave(sequence, keep=reason is not FinishReason.ERROR)

    def roll_back(self, batch: ScheduledBatch) -> None:
        """A step was not done: clear again what it should have cleared."""
        self.slots.mark_dirty(batch.clears)

    def reclaim_memory(self, batch: ScheduledBatch) -> Sequence | None:
        """A step ran out of memory: free what can be missed most easily.

        Kept rows first, then the place of the newest sequence, which goes on once another has left. If there was one
        sequence alone, it cannot be served: it is returned, still running.
        """
        self.roll_back(batch)
        unmade = [sequence for sequence in self.running if any(copy.target == sequence.slot for copy in batch.copies)]
        for sequence in reversed(unmade):  # their rows lack what should have been copied
            self._preempt(sequence, keep=False)
        if self.slots.kept_tokens:
            self.slots.evict_kept()
            return None
        if len(self.running) == 1 and not unmade:
            return self.running[0]
        if not unmade:
            self._preempt(self.running[-1], keep=False)
        self._most_running = len(self.running)
        return None

    def check(self) -> None:
        """Integrity of the books against the slot manager; an AssertionError is a mistake of ours."""
        self.slots.check()
        slots = [sequence.slot for sequence in self.running]
        assert None not in slots and len(set(slots)) == len(slots), "two sequences share a row"
        if not self.has_work:
            assert self.slots.used_tokens == 0, "memory is allocated though nothing runs"

    def _start_anew_beyond_switches(self) -> None:
        """A sequence that grew to where its keys are turned in another way, all of them, is computed again."""
        for sequence in self.running if self._rotary is not None and self._rotary.restarts else ():
            done = sequence.num_computed_tokens
            if done and [self.slots.last_recorded(_slot(sequence))] != self._prefix_keys(sequence, done - 1, done):
                self.slots.empty(_slot(sequence))
                sequence.num_computed_tokens = 0

    def _prefix_keys(self, sequence: Sequence, start: int, end: int) -> list[int]:
        """Of the tokens [start, end): a later sequence may reuse what it has equal keys of."""
        if self._rotary is None:
            return sequence.token_ids[start:end]
        return self._rotary.prefix_keys(sequence, start, end)

    def _allocate_decode_memory(self) -> None:
        """Give every running sequence room for its next token, preempting the newest where memory is short."""
        for sequence in list(self.running):
            while sequence in self.running and not self.slots.grow(_slot(sequence), sequence.num_tokens):
                self._preempt(self.running[-1])

    def _schedule_prefills(self, budget: int) -> list[ScheduledChunk]:
        chunks: list[ScheduledChunk] = []
        unfinished = [sequence for sequence in self.running if sequence.num_uncomputed_tokens > 1]
        while budget > 0:
            sequence = unfinished.pop(0) if unfinished else self._admit()
            if sequence is None:
                break
            most = min(budget, MAX_SCORED_TOKENS) if sequence.wants_prompt_scores else budget
            chunks.append(_chunk(sequence, min(most, sequence.num_uncomputed_tokens)))
            budget -= chunks[-1].length
        return chunks

    def _admit(self) -> Sequence | None:
        """Move the first waiting sequence to running if a row and memory for all its tokens are there."""
        if len(self.running) >= (self._most_running or self.max_num_seqs):
            return None
        sequence = next((sequence for sequence in self.waiting if not self._waits_for_parent(sequence)), None)
        if sequence is None:
            return None
        reuse = (sequence.cache_prompt or sequence.parent is not None) and not sequence.wants_prompt_scores
        keys = self._prefix_keys(sequence, 0, sequence.num_tokens)
        if (allocation := self.slots.allocate(keys, reuse=reuse)) is None:
            return None
        self.waiting.remove(sequence)
        self.running.append(sequence)
        if allocation.copy is not None:
            self._copies.append(allocation.copy)
        sequence.slot = allocation.slot
        sequence.num_computed_tokens = allocation.num_cached_tokens
        if sequence.timings.scheduled is None:
            sequence.num_cached_tokens = allocation.num_cached_tokens
            self.admitted_prompt_tokens += sequence.num_prompt_tokens
        return sequence

    def _waits_for_parent(self, sequence: Sequence) -> bool:
        """True while the first of several answers has not computed the prompt that this one shares."""
        return sequence.parent is not None and any(
            other.request_id == sequence.parent and not other.num_output_tokens
            for other in (*self.running, *self.waiting)
        )

    def _preempt(self, sequence: Sequence, *, keep: bool = True) -> None:
        self.num_preemptions += 1
        self._leave(sequence, keep=keep)
        sequence.num_computed_tokens = 0
        self.waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence, *, keep: bool = True) -> None:
        if sequence in self.running:
            self.running.remove(sequence)
            self._most_running = None
            self.slots.release(_slot(sequence), keep=keep)
            sequence.slot = None


def _chunk(sequence: Sequence, length: int) -> ScheduledChunk:
    start = sequence.num_computed_tokens
    return ScheduledChunk(
        sequence,
        start,
        length,
        _slot(sequence),
        samples=start + length == sequence.num_tokens and sequence.params.max_tokens != 0,
        scored=sequence.wants_prompt_scores and start + length >= sequence.num_scored_tokens,
    )


def _why_no_token(sequence: Sequence) -> str:
    failure = sequence.matcher.failure if sequence.matcher is not None else None
    return failure or NOT_A_NUMBER


def _slot(sequence: Sequence) -> int:
    assert sequence.slot is not None, "a running sequence has a row"
    return sequence.slot
