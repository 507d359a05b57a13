"""What the settings say reaches the services."""

from types import SimpleNamespace

from myserve_ui.server import service_builder
from myserve_ui.server.service_builder import build_services
from myserve_ui.settings import read_settings
from tests.conftest import chat_request


async def test_steps_of_the_apps_engines_ask_what_others_leave_of_the_cores(monkeypatch, tmp_path):
    told = []
    share = SimpleNamespace(apply=lambda: told.append("round"))
    monkeypatch.setattr(service_builder, "follow_core_share", lambda threads: told.append(threads) or share)
    arguments = ["--force-echo", "--threads", "1", "--data", str(tmp_path), "--cache", str(tmp_path)]
    chat = build_services(read_settings(arguments, {})).chat
    assert told == [1]
    try:
        async for _progress in chat.load(""):
            pass
        async with await chat.start_chat(chat_request(max_tokens=4)) as stream:
            outputs = [output async for output in stream]
    finally:
        await chat.shut_down()
    assert outputs[-1].finish_reason is not None
    assert told.count("round") >= 4
