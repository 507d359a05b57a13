"""What the client costs, over a real socket: it counts the same tokens whatever a chunk holds."""

import pytest

from myserve_ui.bench.client.overhead import drive_ready_server, measure_client_overhead
from myserve_ui.bench.summary import summarise


@pytest.mark.parametrize("tokens_per_chunk", [1, 4])
async def test_chunks_of_one_and_of_four_tokens_give_the_same_counts(tokens_per_chunk):
    records = await drive_ready_server(30, tokens_per_chunk=tokens_per_chunk)
    row = summarise(records)
    assert (row.completed, row.output_tokens, row.itl_ms.n) == (12, 360, 12 * 29)


async def test_the_overhead_is_a_number_of_milliseconds():
    overhead = await measure_client_overhead()
    assert 0 < overhead.request < 1000
    assert 0 <= overhead.token < 100
