"""The context that a configuration states, by the way its rotary positions are stretched."""

from __future__ import annotations

import pytest
from transformers import AutoConfig

from myserve_ui.models.facts import find_context_length
from myserve_ui.models.tokenizers.byte_tokenizer import ByteTokenizer


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({"rope_type": "default"}, 64),
        ({"rope_type": "yarn", "factor": 4.0}, 256),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, 256),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, 64),
        ({"rope_type": "dynamic", "factor": 4.0}, 256),
        ({"rope_type": "linear", "factor": 4.0}, 64),
        ({"rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 16}, 64),
        ({"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 16}, 64),
    ],
)
def test_the_context_is_what_the_positions_were_stretched_to(rope, context):
    config = AutoConfig.for_model("llama", max_position_embeddings=64)
    config.rope_parameters = {"rope_theta": 1e4, **rope}
    assert find_context_length("tiny", config, ByteTokenizer(320), limit=None) == context
    assert find_context_length("tiny", config, ByteTokenizer(320), limit=50) == 50


def test_where_layers_differ_the_shortest_context_counts():
    config = AutoConfig.for_model("llama", max_position_embeddings=64, num_hidden_layers=2)
    config.per_layer_config = {1: {"max_position_embeddings": 48}}
    assert find_context_length("tiny", config, ByteTokenizer(320), limit=None) == 48
