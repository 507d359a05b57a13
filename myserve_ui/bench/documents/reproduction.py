"""A run as something to run again: a command, one request by curl, a script for gradio_client."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp, read_load
from myserve_ui.bench.summary import write_limits
from myserve_ui.bench.workload import Workload, parse_lengths

KEY_VARIABLE = "API_KEY"
"""A run keeps no key: whoever runs it again exports it under this name."""
USUAL_URL = "http://127.0.0.1:7860/v1"
Settings = Mapping[str, Any]


def as_command(document: Mapping[str, Any]) -> str:
    """A line for the shell, while the server of the run is up."""
    settings = document["settings"]
    words = ["python", "-m", "myserve_ui", "bench", *_target_words(settings), *_load_words(settings)]
    words += ["--requests", str(settings["requests"]), "--input-len", settings["prompt_tokens"]]
    words += ["--output-len", settings["output_tokens"], "--seed", str(settings["seed"])]
    words += ["--limits", write_limits(settings["limits"]), "--time-limit", f"{settings['time_limit']:g}"]
    if settings["shared_prefix_tokens"]:
        words += ["--shared-prefix", str(settings["shared_prefix_tokens"])]
    if settings["turns"] > 1:
        words += ["--turns", str(settings["turns"])]
    if prompts := settings.get("prompts"):
        words += ["--prompts", str(prompts.get("from") or "prompts.txt")]
    if settings.get("salt") == "":
        words.append("--no-salt")
    if not settings["warm_up"]:
        words.append("--no-warm-up")
    key = f' --api-key "${KEY_VARIABLE}"' if _has_key(settings) else ""
    return shlex.join(words) + key


def as_curl(document: Mapping[str, Any]) -> str:
    """The run's first request, streamed, for the shell."""
    settings = document["settings"]
    target = _targets(settings)[0]
    lines = [
        f"curl -N {shlex.quote(target['url'] + '/chat/completions')}",
        "-H 'Content-Type: application/json' -H 'Cache-Control: no-store'",
        f"-d {shlex.quote(json.dumps(settings.get('example') or _example(settings), ensure_ascii=False))}",
    ]
    if target.get("has_key"):
        lines.insert(2, f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    return " \\\n  ".join(lines)


def as_gradio_client(document: Mapping[str, Any]) -> str:
    """A Python script over the app's /benchmark endpoint; a call for each kind of load."""
    settings = document["settings"]
    base = next((t["url"] for t in _targets(settings) if t.get("is_ours")), _targets(settings)[0]["url"])
    lines = ["from gradio_client import Client", ""]
    if any(target.get("has_key") and not target.get("is_ours") for target in _targets(settings)):
        lines.insert(0, "import os\n")
    lines.append(f"client = Client({_quoted(base.removesuffix('/v1'))}, verbose=False)")
    for arguments in _calls(settings):
        written = "".join(f"    {name}={value},\n" for name, value in arguments.items())
        lines += [f"job = client.submit(\n{written})", "for step in job:"]
        lines.append('    print(step["rows"] if "rows" in step else step["text"])')
        lines.append("job.result()  # raises what went wrong, which the loop does not")
    return "\n".join([*lines, "client.close()", ""])


def _calls(settings: Settings) -> Iterator[dict[str, str]]:
    """Arguments of each call, as source text."""
    own, other = _sides(settings)
    fixed = {"requests": settings["requests"], "prompt_tokens": settings["prompt_tokens"]}
    fixed |= {"output_tokens": settings["output_tokens"], "time_limit": settings["time_limit"]}
    fixed |= {"limits": write_limits(settings["limits"]), "seed": settings["seed"], "warm_up": settings["warm_up"]}
    fixed |= {"shared_prefix_tokens": settings["shared_prefix_tokens"], "turns": settings["turns"]}
    fixed |= {"salted": False} if settings.get("salt") == "" else {}
    for load in _grouped_loads(settings):
        words = {"models": [target["model"] for target in own], **load, **fixed}
        if other:
            words |= {"url": other["url"], "url_model": other["model"]}
        call = {name: _quoted(value) for name, value in words.items()}
        if other and other.get("has_key"):
            call["api_key"] = f"os.environ[{_quoted(KEY_VARIABLE)}]"
        yield call | {"api_name": _quoted("/benchmark")}


def _sides(settings: Settings) -> tuple[list[Mapping[str, Any]], Mapping[str, Any] | None]:
    """The app's own models, and the other server that is measured beside."""
    targets = _targets(settings)
    others = [target for target in targets if not target.get("is_ours")]
    return [target for target in targets if target.get("is_ours")], others[0] if others else None


def _grouped_loads(settings: Settings) -> Iterator[dict[str, Any]]:
    loads = [read_load(load) for load in settings["loads"]]
    if closed := [load.concurrency for load in loads if isinstance(load, ClosedLoop)]:
        yield {"load": "closed", "levels": closed}
    opened = [load for load in loads if isinstance(load, OpenLoop)]
    for burstiness in dict.fromkeys(load.burstiness for load in opened):
        yield {"load": "open", "levels": [load.rate for load in opened if load.burstiness == burstiness]} | _spread(
            burstiness
        )
    for load in loads:
        if isinstance(load, Ramp):
            yield _ramp(load)


def _ramp(load: Ramp) -> dict[str, Any]:
    first = load.steps[0]
    levels = [step.concurrency if isinstance(step, ClosedLoop) else step.rate for step in load.steps]
    if isinstance(first, ClosedLoop):
        return {"load": "ramp", "levels": levels}
    return {"load": "ramp-rate", "levels": levels} | _spread(first.burstiness)


def _spread(burstiness: float) -> dict[str, Any]:
    return {} if burstiness == 1 else {"arrivals": "gamma", "burstiness": burstiness}


def _target_words(settings: Settings) -> Iterator[str]:
    targets = _targets(settings)
    if settings.get("starts_app"):
        yield from ("--model", targets[0]["model"].partition(":")[0])
        yield from ("--precisions", ",".join(target["precision"] for target in targets))
        return
    if len(targets) == 1:
        yield from ("--url", targets[0]["url"])
        yield from ("--model", targets[0]["model"]) if targets[0]["model"] else ()
        return
    for target in targets:
        name = f"{target['precision']}=" if target.get("precision") and "=" not in target["precision"] else ""
        yield from ("--url", f"{name}{target['url']}#{target['model']}")


def _load_words(settings: Settings) -> Iterator[str]:
    loads: list[Load] = [read_load(load) for load in settings["loads"]]
    closed = [load.concurrency for load in loads if isinstance(load, ClosedLoop)]
    opened = [load for load in loads if isinstance(load, OpenLoop)]
    if closed:
        yield from ("--concurrency", _joined(closed))
    if opened:
        yield from ("--rate", _joined([load.rate for load in opened]))
    spreads = [load.burstiness for load in opened]
    for load in loads:
        if isinstance(load, Ramp):
            yield from ("--ramp", _joined(_ramp(load)["levels"])) if _ramp(load)["load"] == "ramp" else ()
            yield from ("--ramp-rate", _joined(_ramp(load)["levels"])) if _ramp(load)["load"] != "ramp" else ()
            spreads += [step.burstiness for step in load.steps if isinstance(step, OpenLoop)]
    if any(spread != 1 for spread in spreads):
        yield from ("--burstiness", f"{spreads[0]:g}")


def _joined(levels: Sequence[float]) -> str:
    return ",".join(f"{level:g}" for level in levels)


def _targets(settings: Settings) -> list[Mapping[str, Any]]:
    """Whom a run measured; an app that was started for the run alone is looked for where the app usually is."""
    targets = settings.get("targets") or [
        {"url": settings["url"], "model": model, "is_ours": True} for model in settings["models"]
    ]
    if settings.get("starts_app"):
        return [{**target, "url": USUAL_URL, "is_ours": True} for target in targets]
    return list(targets)


def _has_key(settings: Settings) -> bool:
    return any(target.get("has_key") for target in _targets(settings))


def _example(settings: Settings) -> dict[str, Any]:
    workload = Workload(1, parse_lengths(settings["prompt_tokens"]), parse_lengths(settings["output_tokens"]))
    target = _targets(settings)[0]
    return Target(target["url"], target["model"]).body(workload.plan(read_load(settings["loads"][0]))[0])


def _quoted(value: Any) -> str:
    """Python source of a plain value."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
