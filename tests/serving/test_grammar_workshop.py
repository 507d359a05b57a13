"""A grammar is tried in a process of its own: small, bounded, and gone when the app is. Turns outlast clients."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.grammars.compiler import CompiledGrammar
from myserve_ui.engine.grammars.text import write_grammar
from myserve_ui.engine.grammars.vocabulary import Vocabulary
from myserve_ui.errors import InvalidRequestError, UnavailableError
from myserve_ui.serving.grammars import process as grammar_process
from myserve_ui.serving.grammars.messages import MAX_VOCABULARIES
from myserve_ui.serving.grammars.process import GrammarProcess, TrialLimits
from myserve_ui.serving.grammars.workshop import GrammarWorkshop
from tests.faults.injection import PATIENCE, until
from tests.unit.grammar_walks import byte_compiler

ROOT = Path(__file__).resolve().parents[2]
TEXT = write_grammar(StructuredOutput.json_schema({"const": 1}))
VOCABULARY = byte_compiler().vocabulary
LARGE = Vocabulary.of([b"%d" % number for number in range(400_000)], frozenset({0}))
SMALL_BYTES = 100 * 1024**2


@pytest.fixture
async def process() -> AsyncIterator[GrammarProcess]:
    process = GrammarProcess(TrialLimits())
    yield process
    await process.end()


async def test_the_worker_has_no_torch_and_is_reused(process: GrammarProcess) -> None:
    await process.try_out(TEXT, VOCABULARY)
    first = process.pid
    with pytest.raises(InvalidRequestError, match="contradicts itself"):
        await process.try_out(write_grammar(StructuredOutput('{"enum":[]}')), VOCABULARY)
    await process.try_out(TEXT, VOCABULARY)
    assert process.pid == first is not None
    files = {Path(entry.path).name for entry in psutil.Process(first).memory_maps()}
    assert not any(name.startswith("libtorch") for name in files)
    assert psutil.Process(first).memory_info().rss < SMALL_BYTES


async def test_more_vocabularies_than_the_worker_keeps_are_sent_again(process: GrammarProcess) -> None:
    others = [byte_compiler(max_cached=1).vocabulary]
    for number in range(MAX_VOCABULARIES + 1):
        tokens = (*VOCABULARY.token_bytes[:-1], b"%d" % number)
        others.append(Vocabulary.of(tokens, frozenset(VOCABULARY.end_token_ids)))
    for vocabulary in (*others, *others):
        await process.try_out(TEXT, vocabulary)


async def test_a_grammar_that_takes_too_much_memory_ends_the_worker_alone() -> None:
    process = GrammarProcess(TrialLimits(memory_bytes=48 * 1024**2))
    with pytest.raises(InvalidRequestError, match="end a program"):
        await process.try_out(TEXT, LARGE)
    assert process.pid is None
    await process.end()


async def test_a_worker_that_does_not_start_is_a_503(process: GrammarProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_process, "WORKER", "myserve_ui.no_such_module")
    with pytest.raises(UnavailableError, match="ask again in a moment"):
        await process.try_out(TEXT, VOCABULARY)


PARENT = """
import asyncio
from myserve_ui.engine.grammars.vocabulary import Vocabulary
from myserve_ui.serving.grammars.process import GrammarProcess, TrialLimits
async def main():
    process = GrammarProcess(TrialLimits())
    bytes_and_end = Vocabulary.of([*(bytes([byte]) for byte in range(256)), b""], frozenset({256}))
    await process.try_out('%llguidance {"no_forcing": true}\\nstart: "a"', bytes_and_end)
    print(process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_the_worker_ends_when_its_app_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    worker.wait(PATIENCE)
    assert not worker.is_running()


async def test_a_worker_ends_itself_when_nobody_is_left_to_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_process, "SPARE_SECONDS", 0.0)
    process = GrammarProcess(TrialLimits(seconds=0.01))
    worker = await process._started()
    assert not await process._ask(worker, TEXT, LARGE)
    assert await worker.wait() == -signal.SIGALRM


class BlockedCompiler:
    """A compiler whose work waits until it is told to go on, and which counts who is inside."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.inside = self.most_inside = self.made = 0
        self.vocabulary = VOCABULARY
        self._real = byte_compiler()

    def find(self, form: StructuredOutput) -> CompiledGrammar | None:
        return self._real.find(form)

    def compile(self, form: StructuredOutput) -> CompiledGrammar:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        assert self.go_on.wait(PATIENCE)
        self.inside -= 1
        self.made += 1
        return self._real.compile(form)


async def test_what_the_app_has_begun_to_compile_keeps_its_turn_when_its_client_leaves() -> None:
    workshop, blocked = GrammarWorkshop(), BlockedCompiler()
    forms = [StructuredOutput.json_schema({"const": number}) for number in range(8)]
    asked = [asyncio.create_task(workshop.compile(blocked, form)) for form in forms]  # type: ignore[arg-type]
    await until(lambda: blocked.inside == 1)
    for task in asked[:-1]:
        task.cancel()
    await asyncio.wait(asked[:-1])
    assert all(task.cancelled() for task in asked[:-1])
    assert workshop._turn.locked() and blocked.inside == 1
    assert await asyncio.to_thread(lambda: "a plain chat has its own threads")
    blocked.go_on.set()
    assert (await asked[-1]).start()
    assert (blocked.most_inside, blocked.made) == (1, 2)
    await workshop.shut_down()


async def test_equal_forms_are_made_once() -> None:
    workshop, blocked = GrammarWorkshop(), BlockedCompiler()
    blocked.go_on.set()
    form = StructuredOutput.json_schema({"const": 1})
    made = await asyncio.gather(*(workshop.compile(blocked, form) for _ in range(4)))  # type: ignore[arg-type]
    assert blocked.made == 1 and len(set(map(id, made))) == 1
    await workshop.shut_down()
