"""A model that is ready to be served: the module, its tokenizer, and the facts the engine needs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.core.tokenizer import Tokenizer
from myserve_ui.models.loading.verdicts import Verdicts
from myserve_ui.models.tokenizers.byte_tokenizer import BOS_TOKEN_ID, EOS_TOKEN_ID, ByteTokenizer

ECHO_NAME = "echo"
ECHO_CONTEXT_LENGTH = 8192


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """One (model, precision) with its weights in memory. The module is in eval mode and wants no gradients."""

    info: ModelInfo
    module: torch.nn.Module | None
    """The module of transformers, on a CPU with quicker layers in place of some; None for the echo, without weights."""
    tokenizer: Tokenizer
    eos_token_ids: frozenset[int]
    """Union of what tokenizer, config and generation_config call an end."""
    context_length: int
    """Tokens, prompt and answer together."""
    bos_token_id: int | None = None
    defaults: SamplingDefaults = field(default_factory=SamplingDefaults)
    dtype: torch.dtype = torch.float32
    """Of activations between layers, keys and values; nf4 weights are expanded to it."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where input ids go; a model over several devices keeps its embedding here."""
    verdicts: Verdicts | None = None
    """Where checks of it are remembered; None for models that were not loaded from files."""
    memory: MemoryReport | None = None
    """What the weights take, tensor by tensor; None for models that were not loaded from files."""

    @property
    def num_input_ids(self) -> int:
        """Rows of the input embedding: a prompt may hold the ids below. The tokenizer's vocabulary may be larger, and
        the rows of the output, tokenizer.vocab_size, may be more or fewer."""
        if self.module is None:
            return self.tokenizer.vocab_size
        weight: torch.Tensor = self.module.get_input_embeddings().weight  # type: ignore[operator]
        return weight.shape[0]

    @property
    def num_common_ids(self) -> int:
        """Ids that the model both reads and says."""
        return min(self.tokenizer.vocab_size, self.num_input_ids)


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
