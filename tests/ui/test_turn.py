import asyncio
from typing import Any

import pytest

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import OverloadedError
from myserve_ui.ui.chat.history import Chat, Turn, assistant_turn, spoken, user_turn
from myserve_ui.ui.chat.turn import Phase, Question, View, play_turn
from tests.ui.scripted_service import ScriptedService

EARLIER: Chat = [user_turn("one"), assistant_turn("two")]


class EveryFrame:
    """A clock that jumps far enough for every output to be shown."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def question(text: str, *, earlier: Chat | None = None, **changes: Any) -> Question:
    chat = earlier or []
    fields = {"system_prompt": "", "model": "", "params": SamplingParams(max_tokens=50, seed=3), **changes}
    return Question(before=chat, earlier=chat, text=text, **fields)


async def views_of(service: ScriptedService, asked: Question) -> list[View]:
    return [view async for view in play_turn(service, asked, clock=EveryFrame())]  # type: ignore[arg-type]


async def test_an_answer_grows_word_by_word_and_ends_with_its_numbers() -> None:
    views = await views_of(ScriptedService(), question("a b c"))
    texts = [view.chat[1].text for view in views if isinstance(view.chat[1], Turn)]
    assert texts == ["a ", "a b ", "a b c", "a b c"]
    assert [view.chat[0] for view in views] == [user_turn("a b c")] * 5
    assert views[-1].phase is Phase.DONE
    assert views[-1].chat[-1].title.startswith("3 tokens · 20.0 tok/s · first token 50 ms (queue 2 ms + prefill 48 ms)")


async def test_the_model_gets_system_prompt_history_and_message_unchanged() -> None:
    service = ScriptedService()
    await views_of(service, question("  x <b>\n", earlier=EARLIER, system_prompt="Be brief."))
    said = [(message.role, message.content) for message in service.requests[0].messages]
    assert said == [("system", "Be brief."), ("user", "one"), ("assistant", "two"), ("user", "  x <b>\n")]


async def test_a_blank_system_prompt_is_left_out() -> None:
    service = ScriptedService()
    await views_of(service, question("x", system_prompt=" \n"))
    assert [message.role for message in service.requests[0].messages] == ["user"]


async def test_while_waiting_the_place_in_the_queue_is_shown() -> None:
    views = await views_of(ScriptedService(wait_outputs=2), question("x"))
    assert views[1].chat[-1].title == "waiting, 2nd in the queue"


async def test_a_slow_reader_gets_fewer_views_but_the_whole_text() -> None:
    asked = question("a b c d e")
    views = [view async for view in play_turn(ScriptedService(), asked, clock=lambda: 0.0)]  # type: ignore[arg-type]
    assert len(views) == 3
    assert views[-1].chat[1].text == "a b c d e"


async def test_a_refusal_leaves_the_chat_as_it_was_and_says_why() -> None:
    service = ScriptedService(refusal=OverloadedError("The queue is full; ask again in 2 seconds."))
    sending, view = await views_of(service, question("x", earlier=EARLIER))
    assert sending.phase is Phase.SENDING
    assert view.phase is Phase.REFUSED
    assert view.chat[:-1] == EARLIER
    assert view.chat[-1].body == view.error == "The queue is full; ask again in 2 seconds."


async def test_too_long_a_message_is_refused_with_both_numbers() -> None:
    view = (await views_of(ScriptedService(longest_message=10), question("x" * 11)))[-1]
    assert view.phase is Phase.REFUSED
    assert "11 tokens" in str(view.error)
    assert "context is 10" in str(view.error)


async def test_max_tokens_gives_way_when_the_context_is_nearly_full() -> None:
    service = ScriptedService(longest_message=10)
    await views_of(service, question("x" * 11))
    assert [request.params.max_tokens for request in service.requests] == [50, None]
    assert service.requests[1].params.seed == 3


async def test_a_failure_in_the_middle_keeps_the_part_and_the_conversation_can_go_on() -> None:
    views = await views_of(ScriptedService(fail_after=2), question("a b c"))
    last = views[-1]
    assert last.phase is Phase.DONE
    assert last.error == "The step failed. Try again."
    assert spoken(last.chat)[1].content == "a b "
    assert last.chat[-1].body == "The step failed. Try again."


async def test_an_empty_answer_is_an_empty_bubble_and_no_error() -> None:
    last = (await views_of(ScriptedService(answer=""), question("x")))[-1]
    assert last.error is None
    assert last.chat[1] == assistant_turn("")


async def test_weights_that_are_not_loaded_are_loaded_in_sight() -> None:
    service = ScriptedService()
    views = await views_of(service, question("x", model="tiny:nf4"))
    assert [view.phase for view in views[:6]] == [Phase.SENDING, *[Phase.LOADING] * 5]
    assert views[3].chat[-1].title == "loading tiny:nf4: reading weights, 40 %"
    assert views[3].chat[0] == user_turn("x")
    assert views[-1].phase is Phase.DONE


async def test_a_precision_that_is_not_possible_is_refused_with_the_reason() -> None:
    view = (await views_of(ScriptedService(), question("x", model="tiny:int8")))[-1]
    assert view.error == "int8 needs a GPU; there is none."


async def test_a_message_that_waited_for_weights_that_failed_to_load_stays_in_the_chat() -> None:
    service = ScriptedService(refusal=OverloadedError("The queue is full."))
    view = (await views_of(service, question("x", model="tiny:nf4", earlier=EARLIER)))[-1]
    assert view.phase is Phase.REFUSED
    assert (view.chat[2], view.chat[3].body) == (user_turn("x"), "The queue is full.")


async def test_closing_the_turn_early_aborts_the_request() -> None:
    service = ScriptedService(pause=0.01)
    turn = play_turn(service, question("a b c d"))  # type: ignore[arg-type]
    await anext(turn)
    assert not service.running
    await anext(turn)
    assert len(service.running) == 1
    await turn.aclose()
    assert (len(service.running), service.num_aborted) == (0, 1)


async def test_cancelling_a_turn_while_it_waits_aborts_the_request() -> None:
    service = ScriptedService(pause=30.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await views_of(service, question("a b"))
    assert (len(service.running), service.num_aborted) == (0, 1)
