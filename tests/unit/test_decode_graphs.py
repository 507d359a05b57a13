"""A batch is filled up to a recorded size, replayed from the same buffers, and nothing that fills up is seen."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from myserve_ui.engine.blocks.decode_graphs import DecodeGraphs, ladder
from myserve_ui.engine.blocks.layout import stage_padded_inputs
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.blocks.tables import BLOCK_SIZE, SCRATCH, BlockTables
from myserve_ui.engine.memory_budget import plan_cache
from myserve_ui.engine.module.self_check import reference_logits
from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk
from myserve_ui.engine.sequence import EngineRequest, Sequence
from myserve_ui.errors import ModelLoadError
from myserve_ui.models.tiny import VOCAB_SIZE, build_tiny_loaded_model, build_tiny_model
from myserve_ui.serving.engine_builder import build_block_runner
from tests.support.block_runners import RefusingRecorder, ReplayedWork, ReplayingRecorder, block_runner
from tests.support.sampling import resolved

CPU = torch.device("cpu")
WIDTH = 2


def test_the_ladder_wastes_few_rows_and_ends_at_the_most_that_may_run():
    assert ladder(1) == (1,)
    assert ladder(3) == (1, 2, 3)
    assert ladder(32) == (1, 2, 4, 8, 16, 24, 32)
    assert ladder(20) == (1, 2, 4, 8, 16, 20)


def make_batch(*lengths):
    """Decode rows of sequences with so many tokens, the last one to be computed; and their tables."""
    tables = BlockTables(len(lengths))
    tables.enlarge(20)
    tables.grow(lengths)
    chunks = []
    for slot, length in enumerate(lengths):
        params = resolved(temperature=0.0, max_tokens=4)
        request = EngineRequest(f"r{slot}", tuple(range(slot, slot + length)), params, arrival=0.0)
        sequence = Sequence(slot, request, lambda ids: "")
        chunks.append(ScheduledChunk(sequence, length - 1, 1, slot, samples=True))
    return ScheduledBatch(tuple(chunks)), tables


def stage(*lengths, size):
    batch, tables = make_batch(*lengths)
    return stage_padded_inputs(batch, tables, num_rows=size, width=WIDTH, device=CPU), tables


def test_rows_that_fill_up_write_to_the_scratch_block_and_see_themselves_alone():
    inputs, tables = stage(300, 7, size=4)
    layout = inputs.layout
    assert inputs.tokens.tolist()[:2] == [[299, 7, 0, 0], [299, 6, 0, 0]]
    assert layout.slot_mapping.tolist() == [tables.place(0, 299), tables.place(1, 6), 0, 0]
    assert layout.query_starts.tolist() == [0, 1, 2, 3, 4]
    assert layout.contexts.tolist() == [300, 7, 1, 1]
    assert layout.block_table.tolist() == [[*tables[0]], [*tables[1], SCRATCH], [SCRATCH] * 2, [SCRATCH] * 2]
    assert (layout.lengths, layout.max_context) == ((1, 1, 1, 1), WIDTH * BLOCK_SIZE)


class CountingForward:
    """Logits that tell which tokens they belong to; remembers where its inputs lay."""

    def __init__(self):
        self.addresses = []

    def __call__(self, inputs):
        self.addresses.append((inputs.tokens.data_ptr(), inputs.sequences.data_ptr()))
        return torch.stack([inputs.tokens[0], inputs.layout.contexts], dim=1).float()


@pytest.fixture
def forward():
    return CountingForward()


def run(graphs, *lengths, version=0):
    inputs, _tables = stage(*lengths, size=graphs.size_for(len(lengths)))
    return graphs.run(inputs, num_rows=len(lengths), device=CPU, version=version).tolist()


def test_a_size_is_recorded_once_and_replayed_with_new_inputs_in_the_same_place(forward):
    recorder = ReplayingRecorder()
    graphs = DecodeGraphs(forward, recorder, max_rows=16)
    assert run(graphs, 5, 6, 7) == [[4, 5], [6, 6], [8, 7]]
    assert run(graphs, 9, 300, 8, 7) == [[8, 9], [300, 300], [9, 8], [9, 7]]
    assert run(graphs, 50, 60, 70) == [[49, 50], [60, 60], [71, 70]]
    assert len(recorder.recordings) == 1 and recorder.recordings[0].replays == 3
    assert len(set(forward.addresses)) == 1


def test_each_size_has_a_recording_of_its_own(forward):
    recorder = ReplayingRecorder()
    graphs = DecodeGraphs(forward, recorder, max_rows=16)
    for count in (1, 2, 3, 5, 8, 4, 1):
        assert len(run(graphs, *[10] * count)) == count
    assert [len(recording.output) for recording in recorder.recordings] == [1, 2, 4, 8]


def test_more_rows_than_the_ladder_has_are_not_replayed(forward):
    assert DecodeGraphs(forward, ReplayingRecorder(), max_rows=4).size_for(5) is None


def test_a_cache_that_moved_makes_recordings_worthless(forward):
    recorder = ReplayingRecorder()
    graphs = DecodeGraphs(forward, recorder, max_rows=4)
    run(graphs, 5, version=1)
    run(graphs, 5, version=1)
    assert len(recorder.recordings) == 1
    run(graphs, 5, version=2)
    assert len(recorder.recordings) == 2


def test_a_failed_recording_is_computed_plainly_and_ends_recording(forward, caplog):
    graphs = DecodeGraphs(forward, RefusingRecorder(RuntimeError("no")), max_rows=4)
    with caplog.at_level(logging.WARNING):
        assert run(graphs, 5, 6, 7) == [[4, 5], [6, 6], [8, 7]]
    assert graphs.size_for(1) is None
    assert len(caplog.records) == 1


@pytest.fixture
def replayable():
    """A runner that has seen its layers, and a batch of two decode rows whose tokens before are computed."""
    runner = block_runner(build_tiny_model("llama"), recorder=ReplayingRecorder())
    batch, _tables = make_batch(6, 4)
    runner.reserve([64, 64, 0, 0])
    before = [replace(chunk, start=0, length=chunk.start, samples=False) for chunk in batch.chunks]
    runner.forward(ScheduledBatch(tuple(before)))
    return runner, batch


def test_a_decode_batch_is_replayed_and_gives_the_logits_of_a_plain_step(replayable):
    runner, batch = replayable
    replayed = runner.forward(batch).clone()
    assert sum(recording.replays for recording in runner.graphs._recorder.recordings) == 1
    runner.graphs = None
    assert torch.allclose(runner.forward(batch), replayed, atol=1e-5)


@pytest.mark.parametrize("change", [{"samples": False}, {"scored": True}, {"start": 0, "length": 4}])
def test_a_batch_with_anything_but_decode_rows_is_launched_plainly(replayable, change):
    runner, batch = replayable
    runner.forward(ScheduledBatch((batch.chunks[0], replace(batch.chunks[1], **change))))
    assert runner.graphs._recorder.recordings == []


class Choosy(PlainKernel):
    """Can do no soft cap, as the flash kernel."""

    def suits(self, queries, layer, style):
        return style.softcap is None


@pytest.mark.parametrize(("family", "recorded"), [("llama", 2), ("gemma2", 0)])
def test_a_model_that_needs_the_plain_kernel_is_served_and_not_recorded(family, recorded):
    runner = build(family, recorder := ReplayingRecorder(), Choosy())
    assert runner.graphs is not None
    assert len(recorder.recordings) == recorded


def build(family, recorder, kernel=None):
    loaded = build_tiny_loaded_model(family)
    expected = reference_logits(loaded.module, VOCAB_SIZE)
    return build_block_runner(loaded, expected, num_slots=4, kernel=kernel or PlainKernel(), recorder=recorder)


class WrongRecorder(ReplayingRecorder):
    """Replays something else."""

    def record(self, work):
        recording = super().record(work)
        return ReplayedWork(lambda: torch.zeros_like(recording.output), recording.output)


def test_recordings_that_replay_the_wrong_thing_are_found_at_load_and_given_up(caplog):
    with caplog.at_level(logging.WARNING):
        assert build("llama", WrongRecorder()).graphs is None
    assert "launched plainly" in caplog.text


def test_a_kernel_that_is_wrong_is_refused_at_load():
    class Blind(PlainKernel):
        def attend(self, queries, layer, layout, style):
            return super().attend(queries, layer, layout, replace(style, window=2))

    with pytest.raises(ModelLoadError, match="more than rounding"):
        build("llama", ReplayingRecorder(), Blind())


def test_on_cuda_one_sequence_may_have_all_blocks_but_for_the_last_of_each_row():
    plan = plan_cache(
        kv_bytes_per_token=2**10,
        context_length=100_000,
        max_num_seqs=4,
        device=torch.device("cuda"),
        kv_cache_gib=2**-6,
    )
    assert plan.max_model_len == plan.max_cache_tokens == 2**14 - 4 * BLOCK_SIZE
