"""Every module keeps the rules of the house, and every rule can bite."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from tests import architecture_rules as rules
from tests.architecture_rules import RULES, Module

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("*.py"), *(ROOT / "myserve_ui").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])


def read_module(path: Path) -> Module:
    return Module(PurePosixPath(path.relative_to(ROOT).as_posix()), path.read_text(encoding="utf-8"))


def make_module(path: str, source: str) -> Module:
    return Module(PurePosixPath(path), source)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module(rule):
    modules = [read_module(path) for path in SOURCES]
    assert [f"{module.path}: {complaint}" for module in modules for complaint in rule(module)] == []


def test_no_module_is_forgotten():
    rooms = {read_module(path).room for path in SOURCES}
    assert {"app", "server", "api", "ui", "serving", "engine", "models", "core", "settings"} <= rooms


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 50
BAD = [
    (
        rules.follows_the_arrows,
        "myserve_ui/engine/engine.py",
        "import myserve_ui.models.catalog",
        "models.catalog",
    ),
    (rules.follows_the_arrows, "myserve_ui/core/outputs.py", "from myserve_ui.engine import stats", "engine.stats"),
    (rules.follows_the_arrows, "myserve_ui/api/routes.py", "from ..ui import blocks", "ui.blocks"),
    (rules.follows_the_arrows, "myserve_ui/api/routes.py", "from myserve_ui import ui", "myserve_ui.ui"),
    (rules.follows_the_arrows, "myserve_ui/api/routes.py", "def f():\n from myserve_ui.engine import engine", "engine"),
    (
        rules.follows_the_arrows,
        "myserve_ui/models/gguf/file.py",
        "from myserve_ui.settings import Settings",
        "settings",
    ),
    (rules.follows_the_arrows, "app.py", "from myserve_ui.serving import chat_service", "serving"),
    (rules.follows_the_arrows, "myserve_ui/attic/box.py", "x = 1", "no room"),
    (rules.keeps_libraries_at_home, "myserve_ui/engine/engine.py", "import threading", "only serving"),
    (rules.keeps_libraries_at_home, "myserve_ui/serving/pool.py", "from torch import nn", "torch.nn"),
    (rules.keeps_libraries_at_home, "myserve_ui/engine/scheduler.py", "import torch.nn", "torch.nn"),
    (rules.keeps_libraries_at_home, "myserve_ui/engine/sampling/sampler.py", "import transformers", "transformers"),
    (rules.keeps_libraries_at_home, "myserve_ui/api/sse.py", "import gradio as gr", "gradio"),
    (rules.keeps_libraries_at_home, "myserve_ui/ui/mount.py", "from fastapi import FastAPI", "fastapi"),
    (rules.keeps_libraries_at_home, "myserve_ui/ui/interface.py", "import starlette", "starlette"),
    (rules.keeps_core_to_the_standard_library, "myserve_ui/core/a.py", "import numpy as np", "numpy"),
    (rules.keeps_libraries_at_home, "myserve_ui/engine/a.py", "from concurrent.futures import Executor", "only"),
    (rules.puts_work_beside_the_loop_where_it_may, "myserve_ui/api/a.py", "x = asyncio.to_thread", "line 1"),
    (rules.puts_work_beside_the_loop_where_it_may, "myserve_ui/engine/a.py", "x = loop.run_in_executor", "line 1"),
    (rules.reads_the_environment_in_settings_only, "myserve_ui/ui/a.py", "import os\nx = os.environ['A']", "line 2"),
    (rules.reads_the_environment_in_settings_only, "app.py", "import os\ndef f():\n os.getenv('A')", "line 3"),
    (rules.reads_the_environment_in_settings_only, "myserve_ui/ui/a.py", "from os import environ", "os.environ"),
    (rules.has_a_telling_name, "myserve_ui/api/utils.py", "", "utils.py"),
    (rules.has_a_docstring, "myserve_ui/api/sse.py", "x = 1\n'late'", "docstring"),
    (rules.stays_small, "myserve_ui/api/sse.py", "\n" * 301, "301 lines"),
    (rules.stays_small, "myserve_ui/api/sse.py", LONG_FUNCTION, "51 lines"),
    (rules.takes_few_parameters, "myserve_ui/api/sse.py", "def f(a, b, c, *, d, e, g): ...", "6 parameters"),
    (rules.takes_few_parameters, "myserve_ui/api/sse.py", "class A:\n def f(self, a, b, c, d, e, g): ...", "6"),
    (rules.prints_nothing, "myserve_ui/api/sse.py", "def f():\n print(1)", "line 2"),
    (rules.makes_html_from_templates_alone, "myserve_ui/ui/chat/view.py", "def f(x): return f'<p>{x}'", "line 1"),
    (rules.makes_html_from_templates_alone, "myserve_ui/ui/chat/view.py", "def f(x): return f'<{x}>'", "line 1"),
    (rules.makes_html_from_templates_alone, "myserve_ui/ui/chat/view.py", "def f(x): return '<b>%s</b>' % x", "line 1"),
    (rules.makes_html_from_templates_alone, "myserve_ui/ui/chat/view.py", "def f(x): return '<br/>' + x", "line 1"),
    (rules.makes_html_from_templates_alone, "myserve_ui/ui/chat/view.py", "def f(x): return '</b>'.join(x)", "line 1"),
    (rules.makes_html_from_templates_alone, "myserve_ui/server/a.py", "def f(x): return '<i>{}'.format(x)", "line 1"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "model = load()", "load()"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "def f():\n load()\nX = f()", "line 3: f()"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "@app.get('/')\ndef f(): ...", "app.get()"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "def f(x=now()): ...", "now()"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "class A:\n x = torch.zeros(1)", "torch.zeros()"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "try:\n import x\nexcept ImportError: ...", "try"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "for x in y: ...", "for"),
    (rules.does_no_work_at_import, "myserve_ui/api/sse.py", "if torch.cuda.is_available(): ...", "is_available()"),
]


@pytest.mark.parametrize(("rule", "path", "source", "words"), BAD)
def test_rule_bites(rule, path, source, words):
    complaints = list(rule(make_module(path, source)))
    assert len(complaints) == 1
    assert words in complaints[0]


def test_every_rule_is_shown_to_bite():
    assert {rule for rule, *_ in BAD} == set(RULES)


GOOD = [
    ("myserve_ui/tools/formats.py", "def f(x): return f'it reads <tool_call> where 1 < {x}'\nX = '<b>as it is</b>'"),
    ("myserve_ui/serving/engine_worker.py", "import threading\nfrom myserve_ui.engine.engine import Engine"),
    ("myserve_ui/engine/rows/attention.py", "import torch\nimport transformers\ndef f(a, b, c, d, e, g): ..."),
    ("myserve_ui/ui/chat/tab.py", "import gradio as gr\ndef on_submit(a, b, c, d, e, g, h): ..."),
    ("myserve_ui/settings/environment.py", "import os\ndef f(): return os.environ"),
    ("myserve_ui/bench/__main__.py", "def main(): print(1)\nif __name__ == '__main__':\n    main()"),
    ("myserve_ui/api/sse.py", "import re\nX = re.compile('a')\ndef f(g=None): load()\nY = lambda: load()"),
    ("myserve_ui/models/tiny.py", "def make(): return lambda: load()\nMAKERS = {'a': make()}"),
    (
        "app.py",
        "import sys\nfrom myserve_ui.cli.commands import main\nfrom myserve_ui import __version__",
    ),
]


@pytest.mark.parametrize(("path", "source"), GOOD)
def test_rules_leave_good_code_alone(path, source):
    module = make_module(path, f'"""A promise."""\n{source}\n')
    assert [complaint for rule in RULES for complaint in rule(module)] == []


def requirement_pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    pairs = [re.fullmatch(r"([A-Za-z0-9_.-]+)==([^=*]+)", line) for line in lines if line and not line.startswith("-r")]
    assert all(pairs), f"{name}: every line pins one package exactly"
    return {canonical(pair[1]): pair[2] for pair in pairs if pair}


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_agree_with_the_constraints(name):
    constraints = requirement_pins("constraints.txt")
    assert requirement_pins(name).items() <= constraints.items()


def test_what_is_imported_is_required():
    owners = importlib.metadata.packages_distributions()
    required = requirement_pins("requirements.txt")
    names = {name.split(".")[0] for path in SOURCES for name in rules.imports(read_module(path))}
    foreign = names - set(sys.stdlib_module_names) - {"myserve_ui", "benchmarks", "app"}
    assert {name for name in foreign if not required.keys() & {canonical(o) for o in owners.get(name, [])}} == set()


def test_what_builds_the_package_is_pinned_where_the_tools_are():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {tuple(line.split("==")) for line in required} <= requirement_pins("requirements-dev.txt").items()
