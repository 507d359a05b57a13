"""/metrics: the service's books and its engines as they stand at this moment, as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse

from myserve_ui.core.model_info import EngineStatus, ResponseCacheStatus, ServiceStatus

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService

Read = Callable[[EngineStatus], float]

GAUGES: tuple[tuple[str, str, Read], ...] = (
    ("vllm:num_requests_running", "Requests that generate.", lambda engine: engine.num_running),
    ("vllm:num_requests_waiting", "Requests that wait for their turn.", lambda engine: engine.num_waiting),
    (
        "vllm:kv_cache_usage_perc",
        "Share of the memory for keys and values that is in use, 0 to 1.",
        lambda engine: engine.kv_tokens_used / engine.kv_tokens_total if engine.kv_tokens_total else 0.0,
    ),
    ("myserve:kv_tokens_kept", "Tokens kept of ended requests, for reuse.", lambda engine: engine.kv_tokens_kept),
    ("myserve:engine_up", "1 while the engine lives and makes progress.", lambda engine: _is_up(engine)),
)
COUNTERS: tuple[tuple[str, str, Read], ...] = (
    ("vllm:prompt_tokens", "Prompt tokens, cached ones too.", lambda engine: engine.prompt_tokens_total),
    ("vllm:generation_tokens", "Generated tokens.", lambda engine: engine.generation_tokens_total),
    ("vllm:prefix_cache_queries", "Prompt tokens looked up.", lambda engine: engine.prefix_cache_queries),
    ("vllm:prefix_cache_hits", "Prompt tokens found in the cache.", lambda engine: engine.prefix_cache_hits),
    (
        "vllm:num_preemptions",
        "Requests that made way, to be computed again.",
        lambda engine: engine.preemptions_total,
    ),
    ("myserve:engine_steps", "Steps of the engine.", lambda engine: engine.steps_total),
    ("myserve:failed_steps", "Steps that failed, for one request or more.", lambda engine: engine.failed_steps_total),
    (
        "myserve:out_of_memory_steps",
        "Steps done again with less, for want of memory.",
        lambda engine: engine.out_of_memory_steps_total,
    ),
)
"""Name, words, and how to read it. Prometheus adds _total to a counter's name."""


class EngineCollector(Collector):
    """Reads the engines when Prometheus asks; keeps nothing."""

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        for name, words, read in GAUGES:
            yield _filled(GaugeMetricFamily(name, words, labels=["model_name"]), status, read)
        for name, words, read in COUNTERS:
            yield _filled(CounterMetricFamily(name, words, labels=["model_name"]), status, read)
        weights = GaugeMetricFamily("myserve:weight_bytes", "Bytes of a loaded model.", labels=["model_name"])
        for model in status.models:
            if model.weight_bytes is not None:
                weights.add_metric([model.id], model.weight_bytes)
        yield weights
        yield from _response_cache(status.response_cache)


def _response_cache(cache: ResponseCacheStatus) -> Iterator[Metric]:
    yield CounterMetricFamily("myserve:response_cache_hits", "Requests answered from the cache.", cache.hits)
    yield CounterMetricFamily("myserve:response_cache_misses", "Requests looked up and not there.", cache.misses)
    yield GaugeMetricFamily("myserve:response_cache_entries", "Answers that are kept.", cache.entries)
    yield GaugeMetricFamily("myserve:response_cache_bytes", "What they take, about.", cache.num_bytes)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, status: ServiceStatus, read: Read
) -> GaugeMetricFamily | CounterMetricFamily:
    for engine in status.engines:
        family.add_metric([engine.model], read(engine))
    return family


def _is_up(engine: EngineStatus) -> float:
    return float(engine.alive and not engine.stalled)


def add_metrics_route(router: APIRouter, service: ChatService) -> None:
    """Add /metrics over `service`; its registry is this app's own."""
    engines = CollectorRegistry()
    engines.register(EngineCollector(service.status))

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters and gauges in the words of vLLM, as Prometheus text."""
        text = generate_latest(service.metrics.registry) + generate_latest(engines)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
