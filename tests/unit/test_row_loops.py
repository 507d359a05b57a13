"""The compiled loops over rows compute what torch's operations do, whatever the numbers are."""

from __future__ import annotations

import copy
import errno
import itertools
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from numba import carray
from torch.nn.functional import scaled_dot_product_attention, silu

from myserve_ui.engine.rows import runner as model_runner
from myserve_ui.engine.rows.attention import AttentionBatch, is_quick_in_loop
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk
from myserve_ui.engine.sequence import EngineRequest, Sequence
from myserve_ui.kernels import compiled, threads
from myserve_ui.kernels.compiled import claim_next
from myserve_ui.kernels.cpu_kernels import install_cpu_kernels
from myserve_ui.kernels.row_attention import attend_rows, write_rows
from myserve_ui.kernels.row_loops import (
    UNBOUNDED,
    add_and_norm_rows,
    gate_rows,
    norm_heads,
    norm_rows,
    rotate_rows,
)
from myserve_ui.kernels.threads import run_by_team
from myserve_ui.models.tiny import FAMILIES, build_tiny_model
from tests.support.sampling import resolved

FLOOR = np.float32(1e-3)
LEAN = {"llama", "mistral", "qwen2", "qwen3"}
WAYS = ((True, True), (True, False), (False, False))
"""Whether decode rows attend in a loop, and whether layers compute in loops."""


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def normed(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (rows / (rows.double().pow(2).sum(-1, keepdim=True) + float(FLOOR)).sqrt()).float() * weight


@pytest.mark.parametrize(("count", "size"), [(1, 576), (3, 7), (16, 64), (0, 8)])
def test_norms_are_those_of_torch(count, size):
    rows, weight, residual = noise(count, size), noise(size), noise(count, size) * 3
    torch.testing.assert_close(torch.from_numpy(norm_rows(rows.numpy(), weight.numpy(), FLOOR)), normed(rows, weight))
    total = rows + residual
    actual = add_and_norm_rows(rows.numpy(), residual.numpy(), weight.numpy(), FLOOR)
    torch.testing.assert_close(rows, total)
    torch.testing.assert_close(torch.from_numpy(actual), normed(total, weight))


def test_only_the_heads_asked_for_are_normed():
    heads, weight = noise(3, 5, 8), noise(8)
    expected = torch.cat((heads[:, :1], normed(heads[:, 1:4], weight), heads[:, 4:]), dim=1)
    norm_heads(heads.numpy(), 1, 4, weight.numpy(), FLOOR)
    torch.testing.assert_close(heads, expected)


def test_pairs_of_the_first_heads_are_turned():
    heads, turns = noise(2, 3, 8), torch.polar(torch.ones(2, 4), noise(2, 4))
    expected = heads.clone()
    pairs = torch.view_as_complex(expected[:, :2].unflatten(-1, (4, 2)))
    expected[:, :2] = torch.view_as_real(pairs * turns[:, None]).flatten(-2)
    rotate_rows(heads.numpy(), turns.numpy(), 2)
    torch.testing.assert_close(heads, expected)


def test_a_gate_holds_over_the_whole_range_of_float32():
    edges = torch.tensor([0.0, -0.0, 1e-30, -87.0, -88.5, -104.0, 88.5, 104.0, 3e38, -3e38, float("inf")])
    gates = torch.cat((torch.linspace(-30, 30, 4099), edges))[None]
    ups = torch.full_like(gates, 0.5)
    actual = torch.from_numpy(gate_rows(torch.cat((gates, ups), dim=1).numpy()))
    torch.testing.assert_close(actual, silu(gates) * ups, rtol=1e-6, atol=2e-36)
    spoilt = np.array([[float("nan"), 1.0, 2.0, float("nan")]], np.float32)
    assert np.isnan(gate_rows(spoilt)).all()


def test_e_to_the_power_of_x_is_exact_to_two_units_of_the_last_place():
    powers = np.linspace(compiled.LOWEST, 88.3, 200_001).astype(np.float32)
    exact = np.exp(powers.astype(np.float64))
    apart = np.abs(np.array([compiled.exp_of(x) for x in powers]) - exact)
    assert (apart / np.spacing(exact.astype(np.float32))).max() < 2
    assert compiled.exp_of(np.float32(1000)) == np.inf
    assert compiled.exp_of(np.float32(-1000)) == compiled.exp_of(np.float32(compiled.LOWEST))


def write_and_attend(heads, keys, values, places, style) -> np.ndarray:
    write_rows(heads, keys, values, places)
    return attend_rows(heads, (keys, values), places, style)


@pytest.mark.parametrize("window", [UNBOUNDED, 5, 1])
@pytest.mark.parametrize(("kv_heads", "group", "dim"), [(3, 3, 64), (1, 1, 8), (2, 4, 20)])
def test_rows_attend_over_what_they_see_and_write_themselves(window, kv_heads, group, dim):
    places = np.array([[4, 0], [1, 16], [2, 63]], np.int64)
    heads = noise(3, kv_heads * (group + 2), dim)
    keys, values = noise(5, kv_heads, 64, dim), noise(5, kv_heads, 64, dim) * 2
    before = keys.clone(), values.clone()
    actual = write_and_attend(heads.numpy(), keys.numpy(), values.numpy(), places, (0.3, window))
    for row, (slot, position) in enumerate(places.tolist()):
        queries, key, value = heads[row].split((kv_heads * group, kv_heads, kv_heads))
        before[0][slot, :, position], before[1][slot, :, position] = key, value
        seen = slice(max(0, position + 1 - window), position + 1)
        expected = scaled_dot_product_attention(
            queries.view(kv_heads, group, dim), before[0][slot, :, seen], before[1][slot, :, seen], scale=0.3
        )
        torch.testing.assert_close(torch.from_numpy(actual[row]), expected.flatten())
    assert torch.equal(keys, before[0]) and torch.equal(values, before[1])


def test_a_number_that_is_none_stays_in_its_row():
    heads, keys, values = noise(2, 3, 8), noise(2, 1, 4, 8), noise(2, 1, 4, 8)
    heads[0, 0, 0] = float("nan")
    actual = write_and_attend(heads.numpy(), keys.numpy(), values.numpy(), np.array([[0, 2], [1, 2]]), (1.0, UNBOUNDED))
    assert np.isnan(actual[0]).all() and not np.isnan(actual[1]).any()


def test_a_row_does_not_depend_on_its_company():
    heads, keys, values = noise(4, 9, 16), noise(4, 3, 40, 16), noise(4, 3, 40, 16)
    places = np.array([[0, 30], [1, 2], [2, 39], [3, 11]])
    together = write_and_attend(heads.numpy(), keys.numpy(), values.numpy(), places, (0.25, UNBOUNDED))
    for row in range(4):
        alone = write_and_attend(
            heads[row : row + 1].numpy(), keys.numpy(), values.numpy(), places[row : row + 1], (0.25, UNBOUNDED)
        )
        assert np.array_equal(alone[0], together[row])


@pytest.mark.parametrize("window", [UNBOUNDED, 70, 5])
@pytest.mark.parametrize(("kv_heads", "group", "dim"), [(3, 3, 64), (1, 1, 8), (2, 4, 20), (1, 2, 6)])
def test_a_token_of_a_prompt_is_the_same_to_the_last_bit_however_the_prompt_is_cut(window, kv_heads, group, dim):
    heads = noise(150, kv_heads * (group + 2), dim)
    whole = attend_prompt(heads, (150,), window)
    for lengths in ((1,) * 150, (7,) * 21 + (3,), (64, 1, 85), (149, 1)):
        assert np.array_equal(attend_prompt(heads, lengths, window), whole)
    expected = scaled_dot_product_attention(
        heads[:, : kv_heads * group].transpose(0, 1),
        *(heads[:, kv_heads * (group + i) :][:, :kv_heads].transpose(0, 1).repeat_interleave(group, 0) for i in (0, 1)),
        attn_mask=torch.ones(150, 150, dtype=torch.bool).tril().triu(1 - min(window, 150)),
        scale=0.3,
    )
    torch.testing.assert_close(torch.from_numpy(whole), expected.transpose(0, 1).flatten(1), rtol=1e-4, atol=1e-5)


def attend_prompt(heads: torch.Tensor, lengths: tuple[int, ...], window: int) -> np.ndarray:
    """A prompt in chunks of `lengths`, in slot 1 of two."""
    kv_heads = {15: 3, 3: 1, 12: 2, 4: 1}[heads.shape[1]]
    keys, values = (np.zeros((2, kv_heads, 160, heads.shape[2]), np.float32) for _ in range(2))
    parts, first = [], 0
    for length in lengths:
        places = np.array([(1, position) for position in range(first, first + length)], np.int64)
        parts.append(write_and_attend(heads[first : first + length].numpy(), keys, values, places, (0.3, window)))
        first += length
    return np.concatenate(parts)


def add_one(x):
    return x + 1


def test_without_a_folder_to_keep_it_in_a_loop_is_compiled_all_the_same(monkeypatch):
    def no_folder(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiled, "_Cache", no_folder)
    assert compiled.compiled(add_one)(1) == 2


@pytest.fixture
def cache_folder(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_loop_is_kept_and_found_again_unless_its_freedoms_change(monkeypatch, cache_folder):
    assert compiled.compiled(add_one)(1) == 2
    found = compiled.compiled(add_one)
    assert (found(1), sum(found.stats.cache_hits.values())) == (2, 1)
    monkeypatch.setattr(compiled, "FREEDOMS", {"contract"})
    other = compiled.compiled(add_one)
    assert (other(1), sum(other.stats.cache_hits.values())) == (2, 0)


def test_half_a_file_is_made_anew_once(cache_folder, caplog):
    compiled.compiled(add_one)(1)
    for path in cache_folder.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:20])
    assert compiled.compiled(add_one)(1) == 2
    assert "made anew" in caplog.text
    found = compiled.compiled(add_one)
    assert (found(1), sum(found.stats.cache_hits.values())) == (2, 1)


def test_a_full_disk_costs_time_and_not_the_loop(monkeypatch, cache_folder, caplog):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    loop = compiled.compiled(add_one)
    monkeypatch.setattr(compiled.FunctionCache, "save_overload", full)
    assert loop(1) == 2
    assert "No space left" in caplog.text


def test_products_take_over_where_many_threads_share_much_context():
    assert is_quick_in_loop([4000] * 16, 2)
    assert is_quick_in_loop([100] * 16, 32)
    assert not is_quick_in_loop([4000] * 16, 32)


@pytest.mark.parametrize(
    ("family", "layers"),
    [*itertools.product(sorted(FAMILIES), ("stock", "lean")), *((family, "lean in int4") for family in sorted(LEAN))],
)
def test_steps_in_loops_give_the_logits_of_steps_in_products(monkeypatch, family, layers):
    loops, half, products = (steps_of(monkeypatch, family, layers, *ways) for ways in WAYS)
    # int4 rounds its inputs to bfloat16, so that a last bit may become a rounding more
    atol = 0.02 * float(products.abs().max()) if layers == "lean in int4" else 2e-4
    torch.testing.assert_close(loops, products, rtol=1e-4, atol=atol)
    torch.testing.assert_close(half, products, rtol=1e-4, atol=atol)


def test_a_layer_with_another_activation_and_biases_computes_in_torch_and_attends_in_the_loop(monkeypatch):
    model = build_tiny_model("llama")
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()
        layer.self_attn.o_proj.bias = torch.nn.Parameter(noise(layer.self_attn.o_proj.out_features))
    monkeypatch.setattr(sys.modules[__name__], "build_tiny_model", lambda family: copy.deepcopy(model))
    loops, products = (steps_of(monkeypatch, "llama", "lean", *ways) for ways in (WAYS[0], WAYS[2]))
    torch.testing.assert_close(loops, products, rtol=1e-4, atol=2e-4)


def steps_of(monkeypatch, family: str, layers: str, in_loop: bool, in_rows: bool) -> torch.Tensor:
    """Logits of a prompt, of two rows together with a second prompt, and of all rows with one missing between."""
    monkeypatch.setattr(model_runner, "is_quick_in_loop", lambda contexts, num_threads: in_loop)
    monkeypatch.setattr(AttentionBatch, "suits_rows", lambda batch, num_threads: in_rows)
    model = build_tiny_model(family)
    assert layers == "stock" or install_cpu_kernels(model, torch.float32, in_int4="int4" in layers)
    runner = ModelRunner(model, num_slots=4, max_len=64)
    runner.reserve([20, 20, 20, 20])
    tokens = [EngineRequest(str(slot), tuple(range(slot, slot + 12)), resolved(), arrival=0.0) for slot in range(4)]
    sequences = [Sequence(slot, request, lambda ids: "") for slot, request in enumerate(tokens)]
    steps = [
        [(0, 0, 9), (1, 0, 5)],
        [(0, 9, 1), (1, 5, 1), (3, 0, 7)],
        [(0, 10, 1), (3, 7, 1)],
        [(0, 11, 1), (1, 6, 1), (3, 8, 1)],
    ]
    return torch.cat(
        [
            runner.forward(
                ScheduledBatch(
                    tuple(ScheduledChunk(sequences[slot], start, length, slot, True) for slot, start, length in step)
                )
            )
            for step in steps
        ]
    )


@pytest.mark.parametrize("num_threads", [2, 5])
def test_threads_that_share_a_loop_change_no_bit(num_threads):
    heads, keys, values = noise(90, 9, 64), noise(3, 3, 96, 64), noise(3, 3, 96, 64)
    places = np.array([(0, 95), *((1, at) for at in range(96 - 8)), (2, 40)], np.int64)
    cached, style = (keys.numpy(), values.numpy()), (0.125, UNBOUNDED)
    alone = attend_rows(heads.numpy(), cached, places, style)
    for _ in range(20):
        assert np.array_equal(attend_rows(heads.numpy(), cached, places, style, num_threads=num_threads), alone)


def test_a_loop_is_run_by_as_many_threads_as_are_asked_for():
    def count(pointer):
        claim_next(carray(pointer, 1, np.int64))

    loop, counter = compiled.compiled_for_c(count), np.zeros(1, np.int64)
    for num_threads in (1, 3, 2):
        run_by_team(loop.address, counter.ctypes.data, num_threads)
    assert counter[0] == 6


def test_where_no_threads_are_lent_the_one_that_asks_does_it_all(monkeypatch, tmp_path):
    monkeypatch.setattr(threads.torch, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(threads, "_find_parallel", threads._find_parallel.__wrapped__)
    heads, keys, values = noise(2, 3, 8), noise(2, 1, 4, 8), noise(2, 1, 4, 8)
    places = np.array([[0, 2], [1, 2]])
    cached = keys.numpy(), values.numpy()
    expected = attend_rows(heads.numpy(), cached, places, (1.0, UNBOUNDED))
    assert np.array_equal(attend_rows(heads.numpy(), cached, places, (1.0, UNBOUNDED), num_threads=4), expected)
