"""How a server itself splits its requests' time: queue, prefill, decode, from the histograms of its /metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from myserve_ui.bench.client.bounded_answer import read_answer
from myserve_ui.bench.client.client import Target
from myserve_ui.documents import Number, Part

PARTS = ("queue", "prefill", "decode")
PREFIX = "vllm:request_"
NAME = re.compile(PREFIX + "(queue|prefill|decode)_time_seconds_(sum|count)")
PATIENCE = 5.0
MOST_BYTES = 2**24
LARGEST = 1e15
"""Seconds or requests since any server began."""


class ServerSplit(Part):
    """The server's own account: mean milliseconds of a request."""

    queue: Number | None = None
    prefill: Number | None = None
    decode: Number | None = None


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """Totals since the server started, of one model: part -> (seconds, requests)."""

    totals: Mapping[str, tuple[float, float]]

    def mean_ms_since(self, before: ServerTimes) -> ServerSplit | None:
        """Mean milliseconds of each part over the requests in between; None if there were none."""
        found: dict[str, float] = {}
        for part, (seconds, count) in self.totals.items():
            earlier_seconds, earlier_count = before.totals.get(part, (0.0, 0.0))
            if count > earlier_count:
                found[part] = 1000 * (seconds - earlier_seconds) / (count - earlier_count)
        return ServerSplit.model_validate(found) if found.keys() == set(PARTS) else None


async def read_server_times(
    target: Target, *, transport: httpx2.AsyncBaseTransport | None = None
) -> ServerTimes | None:
    """The totals now, in the names that ours and vLLM share; None of a server without metrics."""
    url = f"{target.url.removesuffix('/v1')}/metrics"
    try:
        async with (
            httpx2.AsyncClient(transport=transport, timeout=PATIENCE, trust_env=False) as client,
            client.stream("GET", url, headers=target.headers) as response,
        ):
            answer = await read_answer(response, most=MOST_BYTES)
        return parse_server_times(answer.text, target.model) if answer.status_code == 200 else None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
        return None


def parse_server_times(text: str, model: str) -> ServerTimes:
    """Totals of `model` in Prometheus' text, none before its first request. Raises ValueError for what is no number."""
    sums: dict[tuple[str, str], float] = {}
    wanted = "\n".join(line for line in text.split("\n") if line.startswith(PREFIX))
    for sample in (sample for family in text_string_to_metric_families(wanted) for sample in family.samples):
        if (name := NAME.fullmatch(sample.name)) and sample.labels.get("model_name") == model:
            key = name[1], name[2]
            sums[key] = sums.get(key, 0.0) + _total(sample.value)
    known = [part for part in PARTS if {(part, "sum"), (part, "count")} <= sums.keys()]
    return ServerTimes({part: (sums[part, "sum"], sums[part, "count"]) for part in known})


def _total(value: float) -> float:
    """A total that can be one: not negative, not NaN, not beyond every clock."""
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{value} is no total")
    return value
