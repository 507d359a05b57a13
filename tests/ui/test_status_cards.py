"""What the Status page says, and that nothing a client wrote is taken for HTML."""

from dataclasses import replace

from myserve_ui.core.model_info import EngineStatus, LoadState, ModelInfo, ResponseCacheStatus, ServiceStatus
from myserve_ui.ui.status.cards import status_html

MODEL = ModelInfo(
    "m", "m", "full", LoadState.READY, dtype="float32", device="cpu", context_length=8192, num_parameters=1000,
    weight_bytes=4 * 2**20, kv_bytes_per_token=1024,
)  # fmt: skip
ENGINE = EngineStatus("m", True, False, 2, 3, 512, 2048, 100, 25, 1000, 2000, 50)
STATUS = ServiceStatus(True, None, None, "1.2.3", "m", 3725.0, (MODEL,), (ENGINE,), ResponseCacheStatus(2, 2**20, 1, 3))


def test_every_number_of_a_running_engine_is_there():
    html = status_html(STATUS)
    for text in (
        "version 1.2.3", "1 h 2 min", "2 running, 3 waiting", "512 of 2,048 tokens (25%)",
        "0.5 MiB in use", "25 of 100 (25%)",
        "1,000 read, 2,000 written", "float32 on cpu", "1 of 4 (25%)",
    ):  # fmt: skip
        assert text in html


def test_a_model_that_is_not_loaded_says_why():
    unloaded = ModelInfo("m:nf4", "m", "nf4", LoadState.UNAVAILABLE, reason="not possible here, because of <it>")
    html = status_html(replace(STATUS, models=(MODEL, unloaded)))
    assert "not possible here, because of &lt;it&gt;" in html


def test_what_an_engine_had_to_do_twice_is_told_once_it_happened():
    assert not any(
        words in status_html(STATUS) for words in ("made way", "short of memory", "failed steps", "kept for")
    )
    busy = replace(
        ENGINE, kv_tokens_kept=1024, preemptions_total=7, failed_steps_total=2, out_of_memory_steps_total=1_500
    )
    html = status_html(replace(STATUS, engines=(busy,)))
    for text in ("1,024 more kept for reuse", "7 requests", "2 of 52", "1,500 steps done again with less"):
        assert text in html


def test_problems_are_shown():
    html = status_html(
        replace(STATUS, ready=False, reason="stalled", engines=(replace(ENGINE, stalled=True, last_error="<b>x</b>"),))
    )
    assert "has work but finishes no step" in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html


def test_nothing_looked_up_is_no_division_by_zero():
    assert "nothing looked up yet" in status_html(replace(STATUS, response_cache=ResponseCacheStatus()))
