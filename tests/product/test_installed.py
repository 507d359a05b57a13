"""The wheel, built without a network and installed into an empty folder, is the whole app: no checkout is near."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from myserve_ui import __version__

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
COMMANDS = ("serve", "bench", "fidelity", "perplexity", "roofline", "selftest")
READY = "myserve-ui is ready: "
PATIENCE = 100.0
SMALL_BENCH = ("--concurrency", "1", "--requests", "2", "--output-len", "4", "--no-warm-up", "--no-save")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([*PIP, "wheel", *options, str(ROOT)], check=True, timeout=PATIENCE)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its command; what it needs is where the tests have it from."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)], check=True)
    return folder


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MYSERVE_")}
    folders = {"MYSERVE_CACHE": str(tmp_path / "cache"), "MYSERVE_DATA": str(tmp_path / "data")}
    return {**kept, **folders, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def url(installed: Path, environment: dict[str, str], empty: Path) -> Iterator[str]:
    """The address of the installed app with the echo engine."""
    command = [str(installed / "bin" / "myserve-ui"), "serve", "--force-echo", "--port", "0"]
    with subprocess.Popen(command, cwd=empty, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(READY), line
            yield line.removeprefix(READY).strip()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def run(installed: Path, *words: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(installed / "bin" / "myserve-ui"), *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_wheel_has_the_package_and_its_assets_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "myserve_ui").rglob("*.py")}
    assets = {path.relative_to(ROOT).as_posix() for path in (ROOT / "assets").rglob("*") if path.is_file()}
    assets = {f"myserve_ui/{name}" for name in assets if not name.startswith("assets/screenshots/")}
    assert {name for name in names if ".dist-info/" not in name} == own | assets


def test_the_wheel_tells_version_and_requirements_as_the_project_does(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    assert re.findall(r"^Version: (.*)$", metadata, re.MULTILINE) == [__version__]
    required = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    pinned = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    assert {line.lower().replace("_", "-") for line in required} == {line.lower().replace("_", "-") for line in pinned}


def test_an_editable_installation_leads_to_the_checkout(tmp_path: Path) -> None:
    build = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, timeout=PATIENCE)
    (built,) = tmp_path.iterdir()
    with zipfile.ZipFile(built) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".pth")]
        assert archive.read(path).decode().strip() == str(ROOT)


def test_the_command_lists_its_commands(installed: Path, environment: dict[str, str], empty: Path) -> None:
    for words in ([], ["--help"]):
        listed = run(installed, *words, cwd=empty, env=environment)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert set(re.findall(r"^  (\w+) ", listed.stdout, re.MULTILINE)) == set(COMMANDS)


def test_a_mistake_names_the_command_that_is_installed(installed: Path, environment: dict[str, str], empty: Path):
    ended = run(installed, "serve", "--banana", "1", cwd=empty, env=environment)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "--banana is not an option; `myserve-ui serve --help` lists them.\n"
    assert "usage: myserve-ui serve " in run(installed, "serve", "--help", cwd=empty, env=environment).stdout


def test_the_installed_app_serves_api_and_page(url: str) -> None:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        assert client.get("/health").json()["status"] == "ok"
        asked = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
        answer = client.post("/v1/chat/completions", json=asked).json()
        assert answer["choices"][0]["message"]["content"]
        assert client.get("/gradio_api/info").status_code == 200  # waits for the page
        page = client.get("/").text
        assert all((ROOT / "assets" / name).read_text()[:60] in page for name in ("page.js", "style.css"))


def test_the_installed_bench_starts_the_installed_app(installed: Path, environment: dict[str, str], empty: Path):
    ended = run(installed, "bench", "--force-echo", *SMALL_BENCH, cwd=empty, env=environment)
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads(ended.stdout.splitlines()[-1])["rows"]
    assert (row["model"], row["completed"]) == ("echo", 2)
    assert list(empty.iterdir()) == []
