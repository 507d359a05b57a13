"""Time jumps in these tests: the delays of scripted servers are exact, and cost nothing."""

from collections.abc import Callable, Mapping

from tests.bench.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    return {"virtual": VirtualTimeLoop}
