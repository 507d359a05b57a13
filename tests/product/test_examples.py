"""Every script of examples/ does what it says, as it stands, against the running app."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.product.conftest import ROOT, RunningApp

pytestmark = pytest.mark.model
FOLDER = ROOT / "examples"
ADDRESS = "http://127.0.0.1:7860"
SAYS = {
    "chat.py": r"Paris.*\n\d+ tokens in, \d+ out",
    "stream.py": r"\d+ tokens in all\n1\. '.+\n2\. '.+\n3\. '.+",
    "logprobs.py": r"' Paris' +\d+\.\d%   of ' Paris' ",
    "scoring.py": r"perplexity +[\d.]+   The capital of France is Paris\.\nperplexity +[\d.]+   .*Banana\.",
    "structured_output.py": r"city: .+\n +country: .+\nis_capital: (True|False)\n +continent: \w+",
    "tools.py": r"SmolLM2-135M-Instruct was not trained to call functions\. .*MODEL=Qwen/",
    "gradio_chat.py": r"Paris",
    "curl.sh": r'"status":"ok"[\s\S]*Paris[\s\S]*data: \[DONE\][\s\S]*"count":\d+[\s\S]*vllm:request_success_total',
}


def run(app: RunningApp, name: str) -> str:
    """What the example prints, asked of this app in place of the usual address."""
    source = (FOLDER / name).read_text()
    assert ADDRESS in source
    interpreter = ["bash"] if name.endswith(".sh") else [sys.executable]
    ended = subprocess.run(
        [*interpreter, "-c", source.replace(ADDRESS, app.url)],
        capture_output=True,
        text=True,
        timeout=90,
        env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_an_example_runs_as_it_stands(app, name):
    assert re.search(SAYS[name], run(app, name))


def test_the_scoring_example_finds_the_truth_likelier(app):
    likely, unlikely = map(float, re.findall(r"perplexity +([\d.]+)", run(app, "scoring.py")))
    assert likely < unlikely
