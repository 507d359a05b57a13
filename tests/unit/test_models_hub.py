"""The hub in all its moods, played by a server on this machine: each refusal is one sentence with the way out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from myserve_ui.core.model_info import ignore_progress
from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.hub import Hub, fetch_from_hub
from tests.support.tiny_checkpoint import save_tiny_model

REPO = "someone/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """What the server answers: a status and error code for everything, or a folder's files."""

    folder: Path | None = None
    status: int = 200
    error_code: str = ""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, Authorization header) of each request."""


def _find_answer(path: str, folder: Path | None) -> tuple[int, bytes]:
    """Status and body for a file, the list of files, or the model's card."""
    files = {each.name: each for each in folder.iterdir()} if folder else {}
    name = path.rpartition("/")[2]
    if "/resolve/" in path:
        return (200, files[name].read_bytes()) if name in files else (404, b"")
    if "/tree/" in path:
        tree = [{"type": "file", "path": n, "size": p.stat().st_size, "oid": n} for n, p in files.items()]
        return 200, json.dumps(tree).encode()
    card = {"id": REPO, "sha": COMMIT, "siblings": [{"rfilename": each} for each in files]}
    return 200, json.dumps(card).encode()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            hub.requests.append((self.path, self.headers.get("Authorization")))
            if hub.status != 200:
                self._send(hub.status, b"{}")
            else:
                self._send(*_find_answer(self.path.partition("?")[0], hub.folder))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{len(body)}-{self.path.rpartition("/")[2]}"')
            if hub.error_code:
                self.send_header("X-Error-Code", hub.error_code)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return None

    return Handler


@pytest.fixture
def fake_hub() -> Iterator[tuple[FakeHub, str]]:
    state = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield state, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake is on this machine: let the library ask it even where the environment says offline."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def refusal(endpoint: str, cache: Path) -> str:
    with pytest.raises(ModelLoadError) as caught:
        fetch_from_hub(REPO, Hub(endpoint=endpoint, cache=cache), with_code=False, on_progress=ignore_progress)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_files_are_downloaded_with_the_token_and_progress_and_later_served_from_the_cache(fake_hub, tmp_path):
    state, endpoint = fake_hub
    state.folder = save_tiny_model(tmp_path / "tiny", "llama")
    (state.folder / "evil.py").write_text("raise SystemExit")
    (state.folder / "pytorch_model.bin").write_bytes(b"0")
    (state.folder / "consolidated.safetensors").write_bytes(b"the same weights once more")
    seen: list[float | None] = []
    hub = Hub(endpoint=endpoint, cache=tmp_path / "cache", token="hf_secret")
    folder = fetch_from_hub(REPO, hub, with_code=False, on_progress=lambda stage, fraction: seen.append(fraction))
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names
    assert not names & {"evil.py", "pytorch_model.bin", "consolidated.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == (state.folder / "model.safetensors").read_bytes()
    assert {header for _, header in state.requests} == {"Bearer hf_secret"}
    assert seen[0] is None
    assert seen[-1] == 1.0
    nowhere = Hub(endpoint="http://127.0.0.1:9", cache=tmp_path / "cache")
    assert fetch_from_hub(REPO, nowhere, with_code=False, on_progress=ignore_progress) == folder


@pytest.mark.parametrize(
    ("status", "error_code", "words"),
    [
        (403, "GatedRepo", "accept its terms"),
        (401, "RepoNotFound", "check the name"),
        (404, "RepoNotFound", "check the name"),
        (500, "", "the hub answered 500"),
        (429, "", "the hub answered 429"),
    ],
)
def test_a_refusal_of_the_hub_is_explained(fake_hub, tmp_path, status, error_code, words):
    state, endpoint = fake_hub
    state.status, state.error_code = status, error_code
    assert words in refusal(endpoint, tmp_path)
    assert len(state.requests) == 1


def test_a_hub_out_of_reach_is_explained(tmp_path):
    assert "cannot be reached" in refusal("http://127.0.0.1:9", tmp_path)


def test_an_offline_process_does_not_even_ask(fake_hub, tmp_path, monkeypatch):
    state, endpoint = fake_hub
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "cannot be reached" in refusal(endpoint, tmp_path)
    assert state.requests == []


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("pytorch_model.bin", "no safetensors"),
        ("consolidated.safetensors", "no safetensors weights that transformers reads"),
        ("adapter_config.json", "merge_and_unload"),
        ("tiny.gguf", "download one of them"),
    ],
)
def test_a_model_without_weights_that_can_be_read_is_refused_before_any_download(fake_hub, tmp_path, file, words):
    state, endpoint = fake_hub
    state.folder = tmp_path / "old"
    state.folder.mkdir()
    (state.folder / file).write_bytes(b"0")
    assert words in refusal(endpoint, tmp_path / "cache")
    assert len(state.requests) == 1


def test_a_name_that_cannot_be_a_hub_id_is_refused(tmp_path):
    with pytest.raises(ModelLoadError, match="check the name"):
        fetch_from_hub("not a name!", Hub(cache=tmp_path), with_code=False, on_progress=ignore_progress)
