"""Tiny seeded models whose chat templates take tools, in the manner of Hermes and of Llama 3."""

from dataclasses import replace

from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.core.tools import Tool, ToolChoice
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tiny import VOCAB_SIZE, build_tiny_loaded_model
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer
from tests.support.tiny_checkpoint import build_tiny_tokenizer

# Functions are listed by name, since a token here is a byte, and the context is short.
HERMES_TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{ tool.function.name + ': ' + tool.function.description + '\\n' }}{% endfor %}
{{- 'Call with <tool_call></tool_call>.<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA_TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\nRespond in the format {"name": function name, "parameters": {}}.\\n' }}
{%- for tool in tools %}{{ tool.function.name + ': ' + tool.function.description + '\\n' }}{% endfor %}
{{- '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

TEMPLATES = {"hermes": HERMES_TEMPLATE, "llama3": LLAMA_TEMPLATE, "toolless": None}


def load_with_tools(entry: CatalogEntry, _on_progress: object = None) -> LoadedModel:
    """The tiny llama with the template that the entry is named after; "toolless" has ChatML."""
    template = TEMPLATES[entry.key]
    hf_tokenizer = build_tiny_tokenizer(**({"chat_template": template} if template else {}))
    tokenizer = HuggingFaceTokenizer(hf_tokenizer, vocab_size=VOCAB_SIZE)
    loaded = build_tiny_loaded_model("llama")
    return replace(
        loaded,
        info=replace(loaded.info, takes_tools=tokenizer.takes_tools),
        tokenizer=tokenizer,
        eos_token_ids=frozenset({hf_tokenizer.eos_token_id}),
        bos_token_id=None,
    )


WEATHER = Tool(
    "weather",
    '{"type":"object","properties":{"city":{"enum":["Paris","Rome"]},"days":{"type":"integer","minimum":1,"maximum":9}},'
    '"required":["city","days"],"additionalProperties":false}',
    description="Tells the weather",
)
CLOCK = Tool("clock", '{"type":"object","properties":{},"additionalProperties":false}')


def tool_request(
    *tools: Tool, choice: ToolChoice | None = None, parallel: bool = True, **params: object
) -> ChatRequest:
    """A chat of one message that offers `tools`; 160 tokens at most, unless `params` say otherwise."""
    settings = {"temperature": 1.5, "max_tokens": 160, **params}
    return ChatRequest(
        (Message("user", "Hello"),),
        params=SamplingParams(**settings),  # type: ignore[arg-type]
        tools=tools or (WEATHER, CLOCK),
        tool_choice=choice or ToolChoice(),
        parallel_tool_calls=parallel,
    )
