"""Named endpoints for gradio_client and the page's "Use via API"."""

# No `from __future__ import annotations` here: Gradio reads the annotations of these functions as objects.

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

import gradio as gr

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import GenerationFailedError, InvalidRequestError, MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.shared.streams import frames

ROLES = ("system", "user", "assistant")


class Endpoints:
    """/chat, /models and /status over one service."""

    def __init__(self, service: ChatService) -> None:
        self._service = service

    def register(self) -> None:
        """Add the endpoints to the open gr.Blocks."""
        gr.api(self.chat, api_name="chat", concurrency_limit=None)
        gr.api(self.models, api_name="models", concurrency_limit=None)
        gr.api(self.status, api_name="status", concurrency_limit=None)

    async def chat(
        self,
        message: str,
        system_prompt: str = "",
        history: list[dict[str, Any]] | None = None,
        model: str = "",
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        min_p: float | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        stop: list[str] | None = None,
    ) -> AsyncGenerator[str, None]:
        """Answer a message. Streams the answer so far, longer each time; the last value is the whole answer.

        message: what to answer. system_prompt: what the model is told first. history: earlier turns, a list of
        {"role": "user" | "assistant", "content": text}. model: an id of /models, empty for the default; weights that
        are not loaded yet are loaded first. temperature (0..2, 0 is greedy), top_p, top_k (0 is off), min_p: how
        tokens are chosen, None for the model's own default. seed: the same seed gives the same answer. max_tokens:
        longest answer, None for the room left in the context. stop: up to 4 strings that end the answer.
        """
        try:
            params = SamplingParams(
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                min_p=min_p,
                seed=seed,
                max_tokens=max_tokens,
                stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            )
            request = ChatRequest(_messages(message, system_prompt, history or []), model=model, params=params)
            async with aclosing(_stream(self._service, request)) as texts:
                async for text in texts:
                    yield text
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None

    async def models(self) -> list[dict[str, Any]]:
        """Every model and precision that can be asked for, the default first, with sizes and state."""
        return [asdict(model) for model in self._service.models()]

    async def status(self) -> dict[str, Any]:
        """Whether the service is ready, and what its engines do at this moment."""
        return asdict(self._service.status())


async def _stream(service: ChatService, request: ChatRequest) -> AsyncGenerator[str, None]:
    """The text so far; repeated while nothing happens, which is how Gradio notices that a caller has left."""
    async for _ in service.load(request.model):
        yield ""
    async with await service.start_chat(request) as stream, aclosing(frames(stream)) as outputs:
        async for text, output in outputs:
            yield text
            if output.finish_reason is FinishReason.ERROR:
                raise GenerationFailedError(output.error or "The engine could not finish this answer.")


def _messages(message: str, system_prompt: str, history: Sequence[object]) -> tuple[Message, ...]:
    """Raises InvalidRequestError that names what is wrong."""
    if not isinstance(message, str) or not message.strip():
        raise InvalidRequestError("message is empty. Send some text.", param="message")
    earlier = [_turn(f"history[{index}]", turn) for index, turn in enumerate(history) if not _is_note(turn)]
    system = [Message("system", system_prompt)] if system_prompt.strip() else []
    return (*system, *earlier, Message("user", message))


def _turn(name: str, turn: Any) -> Message:
    """A Chatbot's message, or a plain one, without whatever else a client keeps in it."""
    if not isinstance(turn, dict) or turn.get("role") not in ROLES or "content" not in turn:
        raise InvalidRequestError(f"{name} needs a role ({', '.join(ROLES)}) and a content.", param=name)
    content = turn["content"]
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    words = [text for text in texts if isinstance(text, str)]
    if len(words) < len(texts):
        raise InvalidRequestError(f"{name}.content must be text, or a list of text parts.", param=name)
    return Message(turn["role"], "".join(words))


def _is_note(turn: Any) -> bool:
    """True for the lines of numbers below answers, which a chat saved from the page may hold."""
    return isinstance(turn, dict) and bool((turn.get("metadata") or {}).get("title"))
