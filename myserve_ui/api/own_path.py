"""The path of a request as this server knows it, whatever prefix a proxy serves it under."""

from __future__ import annotations

from starlette.types import Scope


def own_path(scope: Scope) -> str:
    """`/v1/models` of `/llm/v1/models` where the scope says that `/llm` is not ours."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path
