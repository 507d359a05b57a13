"""What stands in for a model when the wiring is tried with no weights at all."""

from __future__ import annotations

import time

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tokenizers.byte_tokenizer import BOS_TOKEN_ID, EOS_TOKEN_ID, ByteTokenizer

ECHO_NAME = "echo"
ECHO_CONTEXT_LENGTH = 8192


def echo_model() -> LoadedModel:
    """A loaded model without a module: the engine answers with the prompt's own tokens."""
    tokenizer = ByteTokenizer()
    info = ModelInfo(
        id=ECHO_NAME,
        name=ECHO_NAME,
        precision="full",
        state=LoadState.READY,
        context_length=ECHO_CONTEXT_LENGTH,
        num_parameters=0,
        weight_bytes=0,
        kv_bytes_per_token=0,
        has_chat_template=tokenizer.has_chat_template,
        takes_tools=False,
        note="No model is loaded: answers repeat the prompt, to try the wiring.",
        created=int(time.time()),
    )
    return LoadedModel(
        info=info,
        module=None,
        tokenizer=tokenizer,
        eos_token_ids=frozenset({EOS_TOKEN_ID}),
        context_length=ECHO_CONTEXT_LENGTH,
        bos_token_id=BOS_TOKEN_ID,
    )
