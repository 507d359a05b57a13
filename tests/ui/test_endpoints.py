import itertools
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from myserve_ui.errors import OverloadedError
from myserve_ui.ui.shared.assets import example_script
from tests.ui.live_server import page_app, serving
from tests.ui.scripted_service import ScriptedService

NAMES = {"/chat", "/models", "/status", "/compare", "/fidelity", "/perplexity", "/benchmark", "/roofline", "/runs"}


def test_the_named_endpoints_are_these_with_defaults_and_a_description(echo_client: Client) -> None:
    endpoints = echo_client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(endpoints) == NAMES
    parameters = {item["parameter_name"]: item for item in endpoints["/chat"]["parameters"]}
    assert list(parameters)[:4] == ["message", "system_prompt", "history", "model"]
    assert [name for name, item in parameters.items() if not item["parameter_has_default"]] == ["message"]
    assert parameters["system_prompt"]["parameter_default"] == ""
    assert all(endpoint["description"] for endpoint in endpoints.values())


def test_chat_streams_the_answer_so_far_and_predict_gives_the_whole(echo_client: Client) -> None:
    job = echo_client.submit(message="Hello there", max_tokens=40, temperature=0, api_name="/chat")
    texts = list(job)
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    whole = echo_client.predict(message="Hello there", max_tokens=40, temperature=0, api_name="/chat")
    assert whole == texts[-1] != ""


def test_history_from_a_chatbot_is_sent_on_as_role_and_text_only(client: Client, service: ScriptedService) -> None:
    history = [
        {"role": "user", "content": [{"type": "text", "text": " a"}], "metadata": None, "options": None},
        {"role": "assistant", "content": "<b> b "},
        {"role": "assistant", "content": "", "metadata": {"title": "5 tokens"}},
    ]
    client.predict(message="c", history=history, system_prompt="s", api_name="/chat")
    said = [(message.role, message.content) for message in service.requests[0].messages]
    assert said == [("system", "s"), ("user", " a"), ("assistant", "<b> b "), ("user", "c")]


def test_sampling_parameters_reach_the_service_and_none_is_the_models_default(
    client: Client, service: ScriptedService
) -> None:
    client.predict(message="c", temperature=0.5, top_k=3, seed=7, max_tokens=9, stop=["x"], api_name="/chat")
    params = service.requests[0].params
    assert (params.temperature, params.top_k, params.seed, params.max_tokens) == (0.5, 3, 7, 9)
    assert (params.stop, params.top_p, params.min_p) == (("x",), None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"message": "  "}, "message is empty"),
        ({"message": "x", "temperature": 3}, "temperature must be a number in"),
        ({"message": "x", "model": "nobody"}, "nobody"),
        ({"message": "x", "model": "tiny:int8"}, "int8 needs a GPU"),
        ({"message": "x", "history": [{"role": "boss", "content": "x"}]}, "history"),
        ({"message": "x", "history": [{"role": "user", "content": 5}]}, "content must be text"),
        ({"message": "x" * 3000}, "The prompt has 3000 tokens"),
    ],
)
def test_a_wrong_call_fails_with_the_sentence_and_the_next_call_works(
    client: Client, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(AppError, match=words):
        client.predict(**arguments, api_name="/chat")
    assert client.predict(message="fine", api_name="/chat") == "fine"


def test_an_overloaded_service_says_so(client: Client, service: ScriptedService) -> None:
    service.refusal = OverloadedError("The queue is full; ask again in 2 seconds.")
    with pytest.raises(AppError, match="The queue is full"):
        client.predict(message="x", api_name="/chat")


def test_a_cancelled_job_aborts_the_request(client: Client, service: ScriptedService) -> None:
    service.pause = 0.05
    job = client.submit(message="word " * 400, api_name="/chat")
    while not job.outputs():
        time.sleep(0.01)
    job.cancel()
    wait_until(lambda: not service.running)
    assert service.num_aborted == 1


def test_a_caller_that_leaves_aborts_the_request(scripted_url: str, service: ScriptedService) -> None:
    service.pause = 0.05
    api = f"{scripted_url}/gradio_api/call"
    event = httpx.post(f"{api}/v2/chat", json={"message": "word " * 400}).json()["event_id"]
    with httpx.stream("GET", f"{api}/chat/{event}") as stream:
        next(stream.iter_lines())
    wait_until(lambda: not service.running and service.num_aborted == 1)


def test_many_callers_stream_at_the_same_time(client: Client, service: ScriptedService) -> None:
    service.pause = 0.05
    with ThreadPoolExecutor(6) as callers:
        answers = [callers.submit(client.predict, message=f"who {n}" + " x" * 8, api_name="/chat") for n in range(6)]
        wait_until(lambda: len(service.running) == 6)
        assert [answer.result(30) for answer in answers] == [f"who {n}" + " x" * 8 for n in range(6)]


def test_models_and_status_are_plain_data(echo_client: Client) -> None:
    models = echo_client.predict(api_name="/models")
    assert [model["id"] for model in models] == ["echo", "llama"]
    assert models[0]["state"] == "ready"
    status = echo_client.predict(api_name="/status")
    assert status["ready"] is True
    assert status["default_model"] == "echo"


def test_a_second_model_is_loaded_when_it_is_asked_for(echo_client: Client) -> None:
    assert isinstance(echo_client.predict(message="x", model="llama", max_tokens=3, api_name="/chat"), str)
    assert echo_client.predict(api_name="/models")[1]["state"] == "ready"


def test_the_printed_gradio_client_script_works(echo_url: str) -> None:
    script = example_script("gradio_client", url=echo_url, model="echo", needs_key=False)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) >= 1


def test_the_pages_own_events_are_no_endpoints(echo_url: str) -> None:
    assert set(httpx.get(f"{echo_url}/gradio_api/info").json()["named_endpoints"]) == NAMES
    assert httpx.post(f"{echo_url}/gradio_api/run/chat", json={"data": ["x"]}).status_code == 404


def test_with_an_api_key_the_page_asks_for_it() -> None:
    with serving(lambda: page_app(ScriptedService(), api_key="first,second")) as url:
        assert httpx.get(f"{url}/config").status_code == 401
        wrong = httpx.post(f"{url}/login", data={"username": "me", "password": "sec"})
        assert wrong.status_code == 400
        client = Client(url, verbose=False, auth=("me", "second"))
        assert client.predict(message="hi", api_name="/chat") == "hi"
        client.close()


def wait_until(condition: object, timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
