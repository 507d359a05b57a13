"""A run as something to run again: a command, one request by curl, a script for gradio_client."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.documents.run import BenchmarkRun, MeasuredTarget, RunSettings
from myserve_ui.bench.question.command_line import write_words
from myserve_ui.bench.question.form import FormValues, forms_of
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion
from myserve_ui.bench.workload import Workload

KEY_VARIABLE = "API_KEY"
"""A run keeps no key: whoever runs it again exports it under this name."""
USUAL_URL = "http://127.0.0.1:7860/v1"
"""Where an app that was started for a run alone is looked for afterwards."""
LEFT_OUT = frozenset(("arrivals", "burstiness", "salted", "prompts", "url", "url_model", "api_key"))
"""Parameters that a script names only where they are not what they would be anyway."""


def question_of(settings: RunSettings) -> BenchmarkQuestion:
    """What a run was asked, with new first words for its prompts; prompts of a file and keys are not kept."""
    return BenchmarkQuestion(
        targets=tuple(
            AskedTarget(target.model, "" if _is_own(target, settings) else target.url, name=target.precision)
            for target in settings.targets
        ),
        loads=settings.loads,
        workload=Workload(
            settings.requests,
            settings.prompt_tokens,
            settings.output_tokens,
            shared_prefix_tokens=settings.shared_prefix_tokens,
            turns=settings.turns,
            seed=settings.seed,
            salt="" if settings.salt == "" else None,
        ),
        limits=settings.limits,
        time_limit=settings.time_limit,
        warm_up=settings.warm_up,
        prompts_from=(settings.prompts.source or "prompts.txt") if settings.prompts else "",
    )


def as_command(run: BenchmarkRun) -> str:
    """A line for the shell, while the server of the run is up."""
    settings = run.settings
    words = write_words(question_of(settings), own_url="" if settings.starts_app else _own_url(settings))
    key = f' --api-key "${KEY_VARIABLE}"' if any(target.has_key for target in settings.targets) else ""
    return shlex.join(["python", "-m", "myserve_ui", "bench", *words]) + key


def as_curl(run: BenchmarkRun) -> str:
    """The run's first request, streamed, for the shell."""
    settings = run.settings
    first = settings.targets[0]
    url = USUAL_URL if settings.starts_app else first.url
    body = settings.example or _example(settings, Target(url, first.model))
    lines = [
        f"curl -N {shlex.quote(url + '/chat/completions')}",
        "-H 'Content-Type: application/json' -H 'Cache-Control: no-store'",
        f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
    ]
    if first.has_key:
        lines.insert(2, f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    return " \\\n  ".join(lines)


def as_gradio_client(run: BenchmarkRun) -> str:
    """A Python script over the app's /benchmark endpoint; a call for each kind of load."""
    settings = run.settings
    has_key = any(target.has_key and not _is_own(target, settings) for target in settings.targets)
    lines = [*(["import os\n"] if has_key else []), "from gradio_client import Client", ""]
    lines.append(f"client = Client({_source(_own_url(settings).removesuffix('/v1'))}, verbose=False)")
    for form in forms_of(question_of(settings)):
        arguments = dict(_arguments(form))
        if form.url and next(target.has_key for target in settings.targets if target.url == form.url):
            arguments["api_key"] = f"os.environ[{_source(KEY_VARIABLE)}]"
        arguments["api_name"] = _source("/benchmark")
        written = "".join(f"    {name}={value},\n" for name, value in arguments.items())
        lines += [f"job = client.submit(\n{written})", "for step in job:"]
        lines.append('    print(step["rows"] if "rows" in step else step["text"])')
        lines.append("job.result()  # raises what went wrong, which the loop does not")
    return "\n".join([*lines, "client.close()", ""])


def _arguments(form: FormValues) -> Iterator[tuple[str, str]]:
    """Parameters of a call with their values as source text."""
    usual = FormValues()
    for each in fields(form):
        value = getattr(form, each.name)
        if each.name != "prompts_from" and (each.name not in LEFT_OUT or value != getattr(usual, each.name)):
            yield each.name, _source(list(value) if isinstance(value, tuple) else value)


def _is_own(target: MeasuredTarget, settings: RunSettings) -> bool:
    """Whether it was the app that measured, or one that the command line started for the run."""
    return target.is_ours or settings.starts_app


def _own_url(settings: RunSettings) -> str:
    """Where the app of a run is; the first server, where the app measured none of its own models."""
    if settings.starts_app:
        return USUAL_URL
    return next((target.url for target in settings.targets if target.is_ours), settings.targets[0].url)


def _example(settings: RunSettings, target: Target) -> dict[str, object]:
    workload = Workload(1, settings.prompt_tokens, settings.output_tokens)
    return target.body(workload.plan(settings.loads[0])[0])


def _source(value: object) -> str:
    """Python source of a plain value."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
