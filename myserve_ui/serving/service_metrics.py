"""Counts and latencies of the requests of one service, for Prometheus; engines are asked at scrape time elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.errors import MyServeError

FIRST_TOKEN_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
REQUEST_BUCKETS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
"""Seconds."""


class ServiceMetrics:
    """One service's books, in a registry of their own. Names as dashboards for vLLM know them.

    Only whole answers enter the latencies; what failed, was aborted or refused is counted apart.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._succeeded = self._counter("vllm:request_success", "Whole answers.", "finished_reason")
        self._aborted = self._counter("myserve:requests_aborted", "Requests whose client left before the end.")
        self._failed = self._counter("myserve:requests_failed", "Requests that ended with an error.")
        self._rejected = Counter(
            "myserve:requests_rejected", "Requests refused by the service.", ["code"], registry=self.registry
        )
        self._gaps = self._seconds("inter_token_latency", "Time between two tokens.", TOKEN_BUCKETS)
        self._latencies = {name: (self._seconds(name, text, buckets), read) for name, text, buckets, read in LATENCIES}

    def meter(self, model: str) -> RequestMeter:
        """What follows one request that `model` answers."""
        return RequestMeter(self, model)

    @contextmanager
    def counting_refusals(self) -> Iterator[None]:
        """Count an error that ends this block before a request began."""
        try:
            yield
        except MyServeError as error:
            self._rejected.labels(error.code or error.type).inc()
            raise

    def book(self, model: str, last: RequestOutput, gaps: list[float]) -> None:
        """Enter a request that ended with `last`; `gaps` are the seconds before each token but the first."""
        if last.finish_reason is FinishReason.ABORT:
            self._aborted.labels(model).inc()
        elif last.finish_reason is FinishReason.ERROR:
            self._failed.labels(model).inc()
        else:
            self._succeeded.labels(model, last.finish_reason).inc()
            self._observe(model, last, gaps)

    def _observe(self, model: str, last: RequestOutput, gaps: list[float]) -> None:
        for histogram, read in self._latencies.values():
            if (seconds := read(last)) is not None:
                histogram.labels(model).observe(seconds)
        between = self._gaps.labels(model)
        for gap in gaps:
            between.observe(gap)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ["model_name", *labels], registry=self.registry)

    def _seconds(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"vllm:{name}_seconds", text, ["model_name"], registry=self.registry, buckets=buckets)


class RequestMeter:
    """Follows one request from its outputs, and books it when it has ended."""

    def __init__(self, metrics: ServiceMetrics, model: str) -> None:
        self._metrics = metrics
        self._model = model
        self._last_token: float | None = None
        self._gaps: list[float] = []

    def see(self, output: RequestOutput) -> None:
        """Take news of the request: every output of the engine, one after the other."""
        if output.token_ids:
            self._note_gaps(output)
        if output.finish_reason is not None:
            self._metrics.book(self._model, output, self._gaps)

    def _note_gaps(self, output: RequestOutput) -> None:
        """k tokens at once share the gap before them."""
        now, count = output.timings.last_token, len(output.token_ids)
        if now is not None and self._last_token is not None:
            self._gaps += [(now - self._last_token) / count] * count
        self._last_token = now


def _end_to_end(last: RequestOutput) -> float | None:
    timings = last.timings
    return None if timings.last_token is None else timings.last_token - timings.arrival


LATENCIES: tuple[tuple[str, str, tuple[float, ...], Callable[[RequestOutput], float | None]], ...] = (
    ("time_to_first_token", "From arrival to the first token.", FIRST_TOKEN_BUCKETS, lambda last: last.timings.ttft),
    (
        "request_time_per_output_token",
        "Mean time of a token after the first.",
        TOKEN_BUCKETS,
        lambda last: last.timings.tpot,
    ),
    ("e2e_request_latency", "From arrival to the last token.", REQUEST_BUCKETS, _end_to_end),
    ("request_queue_time", "From arrival to the first step.", REQUEST_BUCKETS, lambda last: last.timings.queue_time),
    (
        "request_prefill_time",
        "From the first step to the first token.",
        REQUEST_BUCKETS,
        lambda last: last.timings.prefill_time,
    ),
    (
        "request_decode_time",
        "From the first token to the last.",
        REQUEST_BUCKETS,
        lambda last: last.timings.decode_time,
    ),
)
"""Name, words, buckets, and how to read it from a request's last output."""
