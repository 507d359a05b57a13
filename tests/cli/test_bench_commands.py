"""`bench` and `roofline` from the command line: one JSON document last, exit codes, and mistakes of one sentence."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from benchmarks.__main__ import main as run_benchmarks
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.cli.bench_arguments import read_bench_arguments
from myserve_ui.cli.commands import main
from myserve_ui.cli.output import check_json_file
from myserve_ui.settings import Settings
from tests.api.live import serve_door

URL = "http://127.0.0.1:1/v1"
SHAPE = ["--parameters", "7B", "--layers", "1", "--kv-heads", "1", "--head-dim", "1"]
SMALL = ["--requests", "4", "--output-len", "4", "--concurrency", "2", "--no-warm-up", "--no-save"]


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSERVE_DATA", str(tmp_path / "data"))


@pytest.fixture
async def echo_url(make_service) -> AsyncIterator[str]:
    async with serve_door(await make_service("echo")) as url:
        yield f"{url}/v1"


async def bench(*words: str) -> int:
    """The command in a thread: it runs an event loop of its own."""
    return await asyncio.to_thread(main, ["bench", *words])


async def test_another_server_is_measured_kept_and_compared(echo_url: str, tmp_path: Path, capsys) -> None:
    words = [word for word in SMALL if word != "--no-save"]
    ids = []
    for _ in range(2):
        assert await bench("--url", echo_url, *words, "--json", str(tmp_path / "run.json")) == 0
        document = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert BenchmarkRun.read((tmp_path / "run.json").read_bytes()).as_json() == document
        ids.append(document["id"])
    (row,) = document["rows"]
    assert (row["model"], row["precision"], row["completed"], row["output_tokens"]) == ("echo", "full", 4, 16)
    assert document["client_overhead_ms"]["request"] > 0
    assert await bench("--compare", ids[0], str(tmp_path / "run.json")) == 0
    comparison = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert comparison["is_paired"] and comparison["rows"][0]["latencies"]["ttft_ms"]["n"] == 4


async def test_an_unknown_model_is_refused_before_anything_is_sent(echo_url: str, capsys) -> None:
    assert await bench("--url", echo_url, "--model", "banana", *SMALL) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "has no model 'banana'; it lists echo." in printed.err.splitlines()[-1]


async def test_lengths_over_the_context_are_counts_and_one_sentence(echo_url: str, capsys) -> None:
    assert await bench("--url", echo_url, *SMALL, "--output-len", "9000") == 1
    assert "HTTP 400: " in capsys.readouterr().err.splitlines()[-1]


async def test_a_wrong_key_is_counts_and_one_sentence(make_service, capsys) -> None:
    async with serve_door(await make_service("echo"), settings=Settings(api_key="right")) as url:
        assert await bench("--url", f"{url}/v1", "--model", "echo", "--api-key", "wrong", *SMALL) == 1
        assert "The API key is wrong" in capsys.readouterr().err.splitlines()[-1]
        assert await bench("--url", f"{url}/v1", "--model", "echo", "--api-key", "right", *SMALL) == 0
        assert await bench("--url", f"{url}/v1", "--api-key", "wrong", *SMALL) == 2
        assert "/v1/models answers HTTP 401: The API key is wrong" in capsys.readouterr().err.splitlines()[-1]


async def test_a_url_without_v1_is_asked_about(echo_url: str, capsys) -> None:
    assert await bench("--url", echo_url.removesuffix("/v1"), *SMALL) == 2
    assert capsys.readouterr().err.rstrip().endswith("does the URL end in /v1?")


def test_a_server_that_is_not_there_is_counts_and_one_sentence(capsys) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
        assert main(["bench", "--url", url, "--model", "m", *SMALL]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["rows"][0]["errors"] == {"the server cannot be reached": 4}
    assert "the server cannot be reached" in printed.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--url", URL], "http://127.0.0.1:1/v1 cannot be reached."),
        (["--url", "banana"], "no URL"),
        (["--url", URL, "--model", "m", "--concurrency", "0"], "concurrency must be in [1, 1024], got 0"),
        (["--url", URL, "--model", "m", "--concurrency", "10000"], "concurrency must be in [1, 1024], got 10000"),
        (["--url", URL, "--model", "m", "--concurrency", "1.5"], "whole numbers"),
        (["--url", URL, "--model", "m", "--concurrency", "many"], "numbers with commas"),
        (["--url", URL, "--model", "m", "--rate", "0"], "rate must be in"),
        (["--url", URL, "--model", "m", "--ramp", "4"], "2 to 64 steps"),
        (["--url", URL, "--model", "m", "--requests", "0"], "requests must be in"),
        (["--url", URL, "--model", "m", "--input-len", "9:3"], "--input-len must be"),
        (["--url", URL, "--model", "m", "--shared-prefix", "-1"], "--shared-prefix must be in"),
        (["--url", URL, "--model", "m", "--output-len", "x"], "A length is a number"),
        (["--url", URL, "--model", "m", "--turns", "0"], "turns must be in"),
        (["--url", URL, "--model", "m", "--seed", "-1"], "seed must be in"),
        (["--url", URL, "--model", "m", "--seed", "1" + "0" * 30], "seed must be in"),
        (["--url", URL, "--model", "m", "--limits", "fast"], "limits are interactive"),
        (["--url", URL, "--model", "m", "--time-limit", "0"], "--time-limit must be in"),
        (["--url", URL, "--model", "m", "--prompts", "/nowhere/x.txt"], "cannot be read: No such file"),
        (["--url", URL, "--model", "m", "--port", "1"], "--port is no option of bench"),
        (
            ["--url", URL, "--model", "m", "--json", "/nowhere/x.json"],
            "/nowhere/x.json cannot be written: No such file",
        ),
        (["--url", URL, "--model", "m", "--json", "/"], "/ cannot be written: Is a directory"),
        (["--url", URL, "--model", "m", "--concurrency", "1,1"], "The load of 1 at once is named 2 times"),
        (["--prot", "1"], "--prot is not an option"),
        (["--compare", "20200101-000000-abcd", "x"], "There is no run"),
        (["--compare", "a", "b", "c"], "--compare takes one or two runs, got 3."),
        (["--rivals"], "--rivals is not an option"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words: list[str], sentence: str, capsys) -> None:
    assert main(["bench", *words]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err.strip().splitlines()[-1]
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rivals", "--rate", "1"], "rivals takes --concurrency"),
        (["rivals", "--rounds", "0"], "--rounds must be in"),
        (["rival", "banana"], "There is no rival 'banana'"),
        (["bench"], "choose goals, rivals, rival or gpu"),
    ],
)
def test_a_mistake_beside_the_package_is_one_sentence_too(words: list[str], sentence: str, capsys) -> None:
    assert run_benchmarks(words) == 2
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]


def test_an_empty_prompt_file_is_one_sentence(tmp_path: Path, capsys) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    assert main(["bench", "--url", URL, "--model", "m", "--prompts", str(tmp_path / "empty.txt")]) == 2
    assert "holds no prompt" in capsys.readouterr().err


def test_the_calculator_prints_one_document(tmp_path: Path, capsys) -> None:
    model = ["--parameters", "7B", "--layers", "32", "--kv-heads", "8", "--head-dim", "128"]
    target = tmp_path / "roofline.json"
    assert main(["roofline", "--calculate", *model, "--device", "L4", "--json", str(target)]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document == json.loads(target.read_text())
    assert document["rows"][0]["bound_ms"] == pytest.approx(14 / 300 * 1000)
    assert main(["roofline", "--calculate", *model, "--bandwidth", "300", "--memory", "24"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"][0] == document["rows"][0]


def test_numbers_that_are_given_override_the_datasheet(capsys) -> None:
    model = ["--parameters", "7B", "--layers", "32", "--kv-heads", "8", "--head-dim", "128"]
    assert main(["roofline", "--calculate", *model, "--device", "L4", "--bandwidth", "500", "--memory", "48"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["rows"][0]["bound_ms"] == pytest.approx(14 / 500 * 1000)
    assert (document["memory_bytes"], document["device"]) == (48_000_000_000, "L4")
    assert "as given" in document["source"]


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    check_json_file(str(tmp_path / "new.json"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.json").write_text("old")
    check_json_file(str(tmp_path / "old.json"))
    assert (tmp_path / "old.json").read_text() == "old"


async def test_a_document_that_cannot_be_written_after_all_is_printed_and_exit_code_1(
    echo_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr("myserve_ui.cli.commands.check_json_file", lambda _path: None)
    assert await bench("--url", echo_url, *SMALL, "--json", str(tmp_path)) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["rows"][0]["completed"] == 4
    assert "cannot be written: Is a directory. The document is on standard output." in printed.err


async def test_runs_of_another_server_are_kept_in_the_folder_that_is_named(
    echo_url: str, tmp_path: Path, capsys
) -> None:
    data = ["--data", str(tmp_path / "mine")]
    assert await bench("--url", echo_url, *(word for word in SMALL if word != "--no-save"), *data) == 0
    run = json.loads(capsys.readouterr().out.splitlines()[-1])["id"]
    assert [path.name for path in (tmp_path / "mine" / "runs").iterdir()] == [f"{run}.json"]
    assert await bench("--compare", run, run, *data) == 0


def test_the_app_that_is_started_keeps_its_runs_in_that_folder_too() -> None:
    assert read_bench_arguments(["--data", "mine", "--threads", "2"]).settings == ("--threads", "2", "--data", "mine")


async def test_a_folder_that_cannot_hold_runs_is_refused_before_a_run(
    echo_url: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("MYSERVE_DATA", "/dev/null/x")
    words = [word for word in SMALL if word != "--no-save"]
    assert await bench("--url", echo_url, *words) == 2
    printed = capsys.readouterr()
    assert printed.err == "Runs cannot be saved (Not a directory): choose a folder of your own with --data.\n"
    assert printed.out == ""
    assert await bench("--url", echo_url, *SMALL) == 0


async def test_a_run_that_cannot_be_kept_after_all_is_printed_and_exit_code_1(
    echo_url: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("MYSERVE_DATA", "/dev/null/x")
    monkeypatch.setattr("myserve_ui.bench.documents.store.RunStore.check", lambda _store: None)
    assert await bench("--url", echo_url, *(word for word in SMALL if word != "--no-save")) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["rows"][0]["completed"] == 4
    assert "The run could not be saved (Not a directory)" in printed.err.splitlines()[-1]


async def test_prompts_of_a_file_are_named_and_counted(echo_url: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "chats.txt").write_text("Hello\nHow are you?\n")
    assert await bench("--url", echo_url, *SMALL, "--prompts", str(tmp_path / "chats.txt")) == 0
    assert re.search(r"prompts of chats\.txt \(2 of them, [\d.]+ tokens by usage\)", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "required: --parameters, --layers"),
        (["--parameters", "7B", "--layers", "32", "--kv-heads", "8", "--head-dim", "128"], "needs a device"),
        (["--parameters", "x", "--layers", "1", "--kv-heads", "1", "--head-dim", "1", "--device", "L4"], "135M or 7B"),
        (["--parameters", "7B", "--layers", "0", "--kv-heads", "1", "--head-dim", "1", "--device", "L4"], "layers"),
        (["--parameters", "7B", "--layers", "1", "--kv-heads", "1", "--head-dim", "1", "--device", "H1"], "several"),
        ([*SHAPE, "--device", "L4", "--context", "0"], "context must be in [1, "),
        (["--parameters", "7B", "--layers", "1", "--kv-heads", "1", "--head-dim", "1", "--port", "1"], "no option"),
    ],
)
def test_a_calculation_without_its_numbers_is_refused(words: list[str], sentence: str, capsys) -> None:
    assert main(["roofline", "--calculate", *words]) == 2
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_model_without_weights_has_no_roofline(capsys) -> None:
    assert main(["roofline", "--force-echo"]) == 2
    assert "no weights" in capsys.readouterr().err.splitlines()[-1]


async def test_the_app_is_started_measured_and_ended_by_the_command_itself(capsys) -> None:
    assert await bench("--force-echo", *SMALL) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["rows"][0]["completed"] == 4
    async with httpx2.AsyncClient() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(document["settings"]["url"])


async def test_an_app_that_does_not_start_is_one_sentence(capsys) -> None:
    assert await bench("--model", "/nowhere/model.gguf", *SMALL) == 1
    assert "There is no file model.gguf" in capsys.readouterr().err.splitlines()[-1]


async def test_a_folder_beside_the_command_is_found_by_the_app_that_it_starts(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "llama").mkdir()
    monkeypatch.chdir(tmp_path)
    assert await bench("--model", "./llama", *SMALL) == 1
    assert "no folder" not in (words := capsys.readouterr().err.splitlines()[-1]) and "llama" in words


async def test_a_command_that_is_ended_ends_the_app_that_it_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "myserve_ui", "bench", "--force-echo", "--requests", "5000", "--no-save"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    while b"1 at once" not in (line := await asyncio.wait_for(process.stderr.readline(), 60)):
        assert line, "the command ended before its first row"
    await asyncio.sleep(3.0)
    process.send_signal(signal.SIGTERM)
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    document = json.loads(printed.splitlines()[-1])
    assert document["stopped"] and document["rows"][0]["completed"] > 0
    async with httpx2.AsyncClient() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(document["settings"]["url"])
