"""4-bit layers compute in the dtype asked for, with AVX512-BF16 and without, and nothing asks the hub for code."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from myserve_ui.models.quantization import (
    PRECISIONS,
    dtype_to_read,
    import_bitsandbytes,
    settle_4bit_layers,
    why_unavailable,
)


def has_avx512bf16() -> bool:
    import_bitsandbytes()
    from bitsandbytes.functional import has_avx512bf16 as ask

    return bool(ask())


@pytest.fixture(params=[False, True], ids=["plain CPU", "AVX512-BF16"])
def is_fused_offered(request: pytest.FixtureRequest) -> bool:
    if request.param and not has_avx512bf16():
        pytest.skip("this CPU has no AVX512-BF16")
    return bool(request.param)


def quantize(linear: nn.Linear, dtype: torch.dtype, *, is_fused_offered: bool) -> nn.Module:
    """A 4-bit copy of `linear`, as a CPU that offers the fused kernel or not would have it."""
    linear_4bit = import_bitsandbytes().nn.Linear4bit
    layer = linear_4bit(linear.in_features, linear.out_features, quant_type="nf4", compute_dtype=dtype)
    layer.load_state_dict(linear.state_dict())
    layer.support_avx512bf16_for_cpu = is_fused_offered
    return layer.to("cpu").eval()


@pytest.mark.parametrize("rows", [48, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float16, 1e-3), (torch.bfloat16, 2e-2)])
def test_a_settled_layer_multiplies_with_the_dequantized_weight(rows, dtype, tolerance, is_fused_offered):
    generator = torch.Generator().manual_seed(3)
    linear = nn.Linear(128, rows)
    linear.weight.data = torch.randn(rows, 128, generator=generator) / 11
    layer = quantize(linear, dtype, is_fused_offered=is_fused_offered)
    from bitsandbytes.functional import dequantize_4bit

    weight = dequantize_4bit(layer.weight.data, layer.weight.quant_state).double()
    assert settle_4bit_layers(nn.Sequential(layer)) == 1
    x = torch.randn(5, 128, generator=generator).to(dtype)
    with torch.inference_mode():
        output = layer(x)
    assert output.dtype == dtype
    expected = nn.functional.linear(x.double(), weight, linear.bias.double())
    torch.testing.assert_close(output.double(), expected, rtol=tolerance, atol=tolerance)


def test_a_layers_weights_do_not_change_after_it_is_settled(is_fused_offered):
    for dtype in (torch.float32, torch.bfloat16):
        layer = quantize(nn.Linear(128, 64), dtype, is_fused_offered=is_fused_offered)
        settle_4bit_layers(nn.Sequential(layer))
        before = layer.weight.data.clone()
        with torch.inference_mode():
            layer(torch.ones(1, 128, dtype=dtype))
        assert torch.equal(layer.weight.data, before)


def test_importing_bitsandbytes_fetches_no_code_and_says_nothing(tmp_path: Path):
    """A package `kernels` that tells when it is used stands where the real one would fetch code from the hub."""
    (tmp_path / "kernels.py").write_text("raise SystemExit('asked for a kernel')")
    script = textwrap.dedent("""
        import sys
        from myserve_ui.models.quantization import import_bitsandbytes
        import_bitsandbytes()
        assert "kernels" not in sys.modules
    """)
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            f"import sys; sys.path[:0] = [{str(root)!r}, {str(tmp_path)!r}]\n{script}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_precision_says_whether_it_is_possible():
    assert [why_unavailable(precision, "cpu") for precision in PRECISIONS] == [None] * 4
    assert "mps" in str(why_unavailable("nf4", "mps"))
    assert "mps" in str(why_unavailable("int8", "mps"))
    assert why_unavailable("full", "mps") is None


def test_int4_is_for_the_cpu_and_needs_no_bitsandbytes(monkeypatch):
    monkeypatch.setattr("myserve_ui.models.quantization.importlib.util.find_spec", lambda name: None)
    assert why_unavailable("int4", "cpu") is None
    assert "bitsandbytes" in str(why_unavailable("int8", "cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for device in ("auto", "cuda", "cuda:1"):
        assert "for the CPU only" in str(why_unavailable("int4", device))


def test_int4_weights_are_read_as_they_are_stored():
    assert dtype_to_read("int4", torch.float32, stored=torch.float16) is torch.float16
    assert dtype_to_read("int4", torch.float32, stored=None) is torch.float32
    assert dtype_to_read("nf4", torch.float32, stored=torch.float16) is torch.float32
