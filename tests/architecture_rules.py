"""The rules of the house, each a function from one module's syntax tree to the complaints about it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

PACKAGE = "myserve_ui"
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 300, 50, 5

WORDS = {"core", "errors"}
BELOW_SERVING = WORDS | {"kernels", "engine", "tools", "models"}
SERVICES = {"serving", "evaluation", "bench"}
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "paths": set(),
    "settings": WORDS | {"settings"},
    "core": WORDS,
    "documents": WORDS,
    "kernels": WORDS | {"kernels"},
    "engine": WORDS | {"kernels", "engine"},
    "tools": WORDS | {"tools"},
    "models": WORDS | {"kernels", "tools", "models"},
    "serving": BELOW_SERVING | {"paths", "serving"},
    "evaluation": BELOW_SERVING | {"documents", "serving", "evaluation"},
    "bench": BELOW_SERVING | {"documents", "serving", "bench"},
    "api": WORDS | SERVICES | {"tools", "settings", "api"},
    "ui": WORDS | SERVICES | {"documents", "paths", "settings", "ui"},
    "model_settings": WORDS | {"models", "serving", "settings"},
    "llm": BELOW_SERVING | {"serving", "settings", "model_settings"},
    "__init__": {"core", "settings", "llm"},
    "selftest": BELOW_SERVING | SERVICES | {"settings", "model_settings"},
    "server": BELOW_SERVING | SERVICES | {"settings", "model_settings", "api", "ui", "server"},
    "cli": WORDS | SERVICES | {"documents", "paths", "settings", "selftest", "server", "cli"},
    "__main__": {"cli", "server", "settings"},
    "app": {"cli", "server", "settings"},
    "benchmarks": BELOW_SERVING | SERVICES | {"documents", "settings", "model_settings", "selftest", "server", "cli"},
}
"""Room -> the rooms it may import. Doors come through the services; rooms of one height never meet."""

TENSOR_FILES = {
    *("blocks/attention", "blocks/cache", "blocks/decode_graphs", "blocks/flash_kernel"),
    *("blocks/layout", "blocks/plain_kernel", "blocks/runner", "device_copies", "echo_runner", "engine"),
    *("grammars/masks", "memory_budget", "module/call", "module/errors", "module/length_check", "module/mask_reading"),
    *("module/self_check", "module/positions"),
    *("rows", "sampling"),
}
"""Files and folders of engine/ that may import torch; the others count tokens and blocks only."""

BESIDE_THE_LOOP = {
    *("serving", "evaluation/fidelity", "bench/benchmark_service", "ui/benchmark/history", "ui/benchmark/run"),
    *("server/page_gate", "benchmarks"),
}
"""Where a slow call may be put on a thread of asyncio's own."""

TRANSFORMERS_FILES = ("rows/attention", "blocks/attention", "module/mask_reading")

HOMES: dict[str, set[str]] = {
    "threading": {"serving"},
    "_thread": {"serving"},
    "multiprocessing": {"serving"},
    "concurrent": {"serving", "server/page_gate", "kernels/threads", "models/loading/loader", "benchmarks"},
    "gradio": {"ui", "server"},
    "gradio_client": {"ui", "server"},
    "fastapi": {"api", "server", "benchmarks"},
    "starlette": {"api", "server"},
    "uvicorn": {"server", "benchmarks"},
    "transformers": {"kernels", "models", "benchmarks", *(f"engine/{name}" for name in TRANSFORMERS_FILES)},
    "tokenizers": {"models"},
    "bitsandbytes": {"models", "engine/rows/attention"},
    "accelerate": {"models"},
    "gguf": {"models"},
    "llguidance": {
        *(f"engine/grammars/{name}" for name in ("compiler", "matcher", "trial", "vocabulary")),
        "serving/grammars/worker",
    },
    "jinja2": {"models/tokenizers", "ui/shared/templates"},
    "markupsafe": {"ui"},
    "rich": {"cli", "benchmarks"},
    "safetensors": {"models"},
    "filelock": {"models"},
    "huggingface_hub": {"models"},
    "numba": {"kernels"},
    "torch": {
        "models",
        "kernels",
        "evaluation",
        "bench",
        "selftest",
        "benchmarks",
        *(f"engine/{name}" for name in TENSOR_FILES),
    },
    "argparse": {"settings/reading", "selftest", "bench", "cli", "benchmarks"},
}
"""Top-level module -> the rooms, folders or files that may import it."""

HTML_TAG = re.compile(r"</|<!?[a-z][a-z0-9]*[\s/>]", re.IGNORECASE)
"""As HTML and SVG write tags; `<tool_call>` is none."""

NAMES_THAT_SAY_NOTHING = {"utils", "helpers", "common", "misc"}
PRINTERS = {"selftest", "gpu_check", "commands", "output", "__main__"}

QUIET_CALLS = {
    "Annotated",
    "BeforeValidator",
    "ConfigDict",
    "Device",
    "FailFast",
    "Field",
    "MappingProxyType",
    "Markup",
    "Path",
    "Path(__file__).resolve",
    "PlainSerializer",
    "PlainValidator",
    "PurePath",
    "TypeVar",
    "ParamSpec",
    "contextvars.ContextVar",
    "dataclass",
    "dataclasses.dataclass",
    "dataclasses.field",
    "dict",
    "field",
    "field_validator",
    "float",
    "frozenset",
    "len",
    "logging.getLogger",
    "math.log",
    "model_serializer",
    "model_validator",
    "namedtuple",
    "object",
    "range",
    "re.compile",
    "set",
    "timedelta",
    "torch.inference_mode",
    "torch.no_grad",
    "tuple",
}
"""What may be called while a module is imported: it makes a constant and touches nothing."""


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: where it stands and what it says."""

    path: PurePosixPath
    """Relative to the repository: myserve_ui/engine/scheduler.py or app.py."""
    source: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def room(self) -> str:
        """The folder under the package, or the file's own name if it stands beside the folders; benchmarks is one."""
        parts = self.path.with_suffix("").parts
        return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else parts[0]

    @property
    def place(self) -> str:
        """Below the package, or below the repository for what is not in it, without its ending: ui/benchmark/run."""
        parts = self.path.with_suffix("").parts
        return "/".join(parts[1:] if parts[0] == PACKAGE else parts)

    def stands_in(self, places: Iterable[str]) -> bool:
        """Whether the file, or a folder it is in, is one of `places`."""
        return any(f"{self.place}/".startswith(f"{place}/") for place in places)


def imports(module: Module) -> Iterator[str]:
    """Every imported module by its full dotted name, those inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    folder = module.path.parts[: len(module.path.parts) - node.level] if node.level else ()
    return ".".join([*folder, *([node.module] if node.module else [])])


def follows_the_arrows(module: Module) -> Iterator[str]:
    """Imports go down: only to the rooms that ARROWS allows."""
    if module.room not in ARROWS and module.room != "__init__":
        yield f"{module.room} is no room of the house; give it a line in ARROWS"
    for name in imports(module):
        parts = name.split(".")
        if parts[0] != PACKAGE or len(parts) < 2 or parts[1].startswith("__"):
            continue
        if parts[1] not in ARROWS.get(module.room, set()):
            yield f"{module.room} must not import {name}"


def keeps_libraries_at_home(module: Module) -> Iterator[str]:
    """A library of HOMES is imported by its own rooms alone."""
    for name in imports(module):
        homes = HOMES.get(name.split(".")[0])
        if homes is not None and not module.stands_in(homes):
            yield f"{module.place} must not import {name}; only {', '.join(sorted(homes))} may"


def keeps_core_to_the_standard_library(module: Module) -> Iterator[str]:
    """core imports what comes with Python, itself and errors."""
    if module.room != "core":
        return
    for name in imports(module):
        if name.split(".")[0] not in sys.stdlib_module_names | {PACKAGE}:
            yield f"{name} does not come with Python"


def puts_work_beside_the_loop_where_it_may(module: Module) -> Iterator[str]:
    """asyncio.to_thread and run_in_executor are called by rooms and files of BESIDE_THE_LOOP alone."""
    if module.stands_in(BESIDE_THE_LOOP):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("to_thread", "run_in_executor"):
            yield f"line {node.lineno}: {node.attr}; threads have their rooms"


def reads_the_environment_in_settings_only(module: Module) -> Iterator[str]:
    """os.environ and its kin are touched in settings alone."""
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    if module.room == "settings":
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) == "os":
            yield f"line {node.lineno}: os.{node.attr}; settings are handed down as values"
    yield from (
        f"{name}; settings are handed down as values" for name in imports(module) if name in {f"os.{n}" for n in names}
    )


def has_a_telling_name(module: Module) -> Iterator[str]:
    """No drawer for odds and ends."""
    if module.path.stem in NAMES_THAT_SAY_NOTHING:
        yield f"{module.path.name} says nothing; name the file after what it does"


def has_a_docstring(module: Module) -> Iterator[str]:
    """A module opens with its promise."""
    if not ast.get_docstring(module.tree):
        yield "no docstring"


def stays_small(module: Module) -> Iterator[str]:
    """Files and functions keep to their sizes."""
    if (lines := len(module.source.splitlines())) > MAX_FILE_LINES:
        yield f"{lines} lines; at most {MAX_FILE_LINES}"
    for function in _functions(module):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{function.name} has {lines} lines; at most {MAX_FUNCTION_LINES}"


def takes_few_parameters(module: Module) -> Iterator[str]:
    """At most five, not counting self and cls.

    Free of it are handlers in ui/, whose parameters are the values of components, and engine/rows/attention, whose
    signatures transformers dictates.
    """
    if module.room == "ui" or module.place == "engine/rows/attention":
        return
    for function in _functions(module):
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        if count > MAX_PARAMETERS:
            yield f"{function.name} takes {count} parameters; at most {MAX_PARAMETERS}"


def prints_nothing(module: Module) -> Iterator[str]:
    """Programs print; rooms log."""
    if module.path.stem in PRINTERS:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield f"line {node.lineno}: print"


def makes_html_from_templates_alone(module: Module) -> Iterator[str]:
    """No tag stands in an f-string, beside + or %, or before .format or .join: nothing put in there is escaped."""
    for node in ast.walk(module.tree):
        if any(HTML_TAG.search(text) for text in _texts_put_together(node)):
            yield f"line {getattr(node, 'lineno', 0)}: HTML is made of strings; render a template"


def _texts_put_together(node: ast.AST) -> Iterator[str]:
    """The constant parts of an expression that makes a text of several."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        yield from _constant_texts(node.left, node.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        yield from _constant_texts(node.func.value)


def _constant_texts(*nodes: ast.AST) -> Iterator[str]:
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def does_no_work_at_import(module: Module) -> Iterator[str]:
    """While a module is imported it defines, and makes constants by QUIET_CALLS or functions made of those."""
    own = {f.name for f in _functions(module) if {ast.unparse(c.func) for c in _calls(f.body)} <= QUIET_CALLS}
    for statement in module.tree.body:
        if not _is_main_guard(statement):
            yield from _work(statement, QUIET_CALLS | own)


def _work(statement: ast.stmt, quiet: set[str]) -> Iterator[str]:
    if isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.Delete | ast.Assert | ast.Raise):
        yield f"line {statement.lineno}: {type(statement).__name__.lower()} at import"
    elif isinstance(statement, ast.ClassDef | ast.If):
        for inner in (*statement.body, *getattr(statement, "orelse", [])):
            yield from _work(inner, quiet)
    for call in _calls(_parts_that_run(statement)):
        if (name := ast.unparse(call.func)) not in quiet:
            yield f"line {call.lineno}: {name}() is called at import"


def _parts_that_run(statement: ast.stmt) -> Sequence[ast.AST]:
    """Of a function only decorators and defaults run when it is defined, of a class its head."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*statement.decorator_list, *statement.args.defaults, *filter(None, statement.args.kw_defaults)]
    if isinstance(statement, ast.ClassDef):
        return [*statement.decorator_list, *statement.bases, *statement.keywords]
    return [statement.test] if isinstance(statement, ast.If) else [statement]


def _calls(parts: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Calls in `parts`, but for those that a lambda only puts off."""
    for part in parts:
        if isinstance(part, ast.Call):
            yield part
        if not isinstance(part, ast.Lambda):
            yield from _calls(ast.iter_child_nodes(part))


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


RULES: tuple[Callable[[Module], Iterator[str]], ...] = (
    follows_the_arrows,
    keeps_libraries_at_home,
    keeps_core_to_the_standard_library,
    puts_work_beside_the_loop_where_it_may,
    reads_the_environment_in_settings_only,
    has_a_telling_name,
    has_a_docstring,
    stays_small,
    takes_few_parameters,
    prints_nothing,
    makes_html_from_templates_alone,
    does_no_work_at_import,
)
