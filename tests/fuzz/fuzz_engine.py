"""Whatever else happens in an engine, whoever is not at fault gets what plain `generate` gives, and the books balance.

Random prompts with shared beginnings, lengths, arrivals, aborts, preemptions, scored prompts; steps that raise, run out
of memory or give no numbers; ids that the model lacks; a decoder that raises.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from transformers import PreTrainedModel

from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.scheduler import ScheduledBatch
from myserve_ui.engine.sequence import EngineRequest, is_fault
from myserve_ui.models.tiny import build_tiny_model
from tests.support.fault_injection import Fault, FaultKind, FaultyRunner, request_runs
from tests.support.sampling import resolved

FAMILIES = ("llama", "mistral")
MAX_LEN, MOST_TOKENS, MOST_STEPS = 128, 10, 3000
UNKNOWN_ID, UNREADABLE_ID = 345, 310
"""One that the model lacks, and one that the decoder raises at."""

GUILTLESS = ("normal", "normal", "normal", "aborted", "scored")
GUILTY = ("unknown id", "unreadable", "breaks", "breaks after", "not a number")


@dataclass
class Client:
    """One request, when it comes, and what came of it."""

    request: EngineRequest
    fate: str
    arrives: int
    leaves: int
    token_ids: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    ended: FinishReason | None = None

    def hear(self, output: RequestOutput) -> None:
        assert self.ended is None, "news after the end"
        self.token_ids += output.token_ids
        self.scored += [entry.token_id for entry in output.prompt_logprobs]
        self.ended = output.finish_reason


def trial(rng: random.Random) -> None:
    """One engine, a handful of requests, and what goes wrong beside them."""
    torch.set_num_threads(1)  # tiny products are quicker so
    family = rng.choice(FAMILIES)
    clients = [make_client(rng, index) for index in range(rng.randint(2, 7))]
    engine = make_engine(rng, family, clients)
    serve(engine, {client.request.request_id: client for client in clients})
    for client in clients:
        check(client, family)
    snapshot = engine.snapshot()
    assert (snapshot.kv_tokens_used, snapshot.num_running, snapshot.waiting) == (0, 0, ())
    engine.scheduler.check()


def make_client(rng: random.Random, index: int) -> Client:
    fate = rng.choice(GUILTY if rng.random() < 0.3 else GUILTLESS)
    prompt = list(make_prompt(rng.randrange(8)))
    if fate == "unknown id":
        prompt.insert(rng.randrange(len(prompt) + 1), UNKNOWN_ID)
    if fate == "unreadable":
        prompt.append(UNREADABLE_ID)
    params = resolved(
        temperature=0.0,
        max_tokens=rng.randint(1, MOST_TOKENS),
        ignore_eos=True,
        prompt_logprobs=fate == "scored",
        logprobs=1 if fate == "scored" else None,
    )
    request = EngineRequest(f"r{index}", tuple(prompt), params, 0.0, cache_prompt=rng.random() < 0.8)
    return Client(request, fate, rng.randrange(20), rng.randrange(1, 60))


@cache
def make_prompt(index: int) -> tuple[int, ...]:
    """One of a few prompts, so that beginnings are shared and the answers of `generate` are known already."""
    generator = random.Random(index)
    shared = [generator.randrange(3, 250) for _ in range(generator.choice((0, 0, 40, 64)))] if index % 2 else BEGINNING
    return (*shared, *(generator.randrange(3, 250) for _ in range(generator.randrange(1, 40))))


BEGINNING = [11 + 7 * place % 200 for place in range(50)]


def make_engine(rng: random.Random, family: str, clients: Sequence[Client]) -> Engine:
    config = EngineConfig(
        max_num_seqs=rng.randint(1, 4),
        max_num_batched_tokens=rng.choice((12, 24, 64)),
        max_model_len=MAX_LEN,
        max_cache_tokens=rng.choice((128, 192, 512)),
        eos_token_ids=frozenset({257}),
        debug=True,
    )
    runner = ModelRunner(module_of(family), num_slots=config.max_num_seqs, max_len=MAX_LEN)
    memory = rng.choice((None, None, MAX_LEN))
    faulty = FaultyRunner(runner, [*faults_of(clients), *passing_faults(rng)], memory_tokens=memory)
    return Engine(faulty, decode, config=config)


def faults_of(clients: Sequence[Client]) -> list[Fault]:
    """What the guilty do to their steps."""
    found = []
    for client in clients:
        name, start = client.request.request_id, client.leaves % 5
        runs = request_runs(name)
        when = lambda step, batch, runs=runs, start=start: step > start and runs(step, batch)  # noqa: E731
        if client.fate in ("breaks", "breaks after"):
            found.append(Fault(FaultKind.RAISE, when, after=client.fate == "breaks after"))
        if client.fate == "not a number":
            rows = lambda chunk, name=name: chunk.sequence.request_id == name  # noqa: E731
            found.append(Fault(FaultKind.NAN, when, rows=rows))
    return found


def passing_faults(rng: random.Random) -> list[Fault]:
    """What goes wrong once and is nobody's: never twice in a row, which would be a lack that does not pass."""
    kinds = (FaultKind.OUT_OF_MEMORY, FaultKind.OUT_OF_CPU_MEMORY, FaultKind.RAISE, FaultKind.SLEEP)
    steps = range(rng.randrange(2, 9), 200, rng.randrange(7, 30))
    return [Fault(rng.choice(kinds), at(step), after=rng.random() < 0.5) for step in steps if rng.random() < 0.5]


def at(chosen: int) -> object:
    def when(step: int, batch: ScheduledBatch) -> bool:
        return step == chosen and len(batch.chunks) > 1

    return when


def serve(engine: Engine, clients: dict[str, Client]) -> None:
    """As the engine's thread does it, until all have ended."""
    for turn in range(MOST_STEPS):
        for client in clients.values():
            if client.arrives == turn:
                take_in(engine, client)
            leaves = client.fate == "aborted" and client.leaves + client.arrives == turn
            if leaves and (output := engine.abort(client.request.request_id)) is not None:
                client.hear(output)
        for output in step(engine):
            clients[output.request_id].hear(output)
        if not engine.has_work and turn > max(client.arrives + client.leaves for client in clients.values()):
            return
    raise AssertionError("the engine does not come to an end")


def take_in(engine: Engine, client: Client) -> None:
    try:
        engine.add(client.request)
    except ValueError:
        client.ended = FinishReason.ERROR


def step(engine: Engine) -> list[RequestOutput]:
    try:
        return engine.step()
    except BaseException as error:
        if not is_fault(error):
            raise
    return engine.fail_step("sorry")


def check(client: Client, family: str) -> None:
    prompt, wanted = client.request.prompt_token_ids, client.request.params.max_tokens
    if client.fate in ("unknown id", "unreadable"):
        assert client.ended is FinishReason.ERROR, f"{client.fate} ended by {client.ended}"
        return
    expected = generate(family, prompt)[:wanted]
    assert client.token_ids == expected[: len(client.token_ids)], f"{client.fate}: another answer than generate's"
    if client.fate in GUILTY:
        assert client.ended in (FinishReason.ERROR, FinishReason.LENGTH)
    elif client.fate == "aborted":
        assert client.ended in (FinishReason.ABORT, FinishReason.LENGTH)
    else:
        assert client.ended is FinishReason.LENGTH, f"{client.fate} ended by {client.ended}"
        assert client.token_ids == expected
    if client.fate == "scored":
        assert client.scored == list(prompt[1:]), "scores that are not told once each, in order"


def decode(ids: Sequence[int]) -> str:
    if UNREADABLE_ID in ids:
        raise ValueError("an id that the decoder does not know")
    return ""


@cache
def module_of(family: str) -> PreTrainedModel:
    return build_tiny_model(family)


@cache
def oracle_of(family: str) -> PreTrainedModel:
    """The same weights, with the attention of transformers, and no end."""
    model = build_tiny_model(family)
    model.generation_config.eos_token_id = None
    return model


@cache
def generate(family: str, prompt: tuple[int, ...]) -> list[int]:
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    output = oracle_of(family).generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=MOST_TOKENS)
    answer: list[int] = output[0, len(prompt) :].tolist()
    return answer
