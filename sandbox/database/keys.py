"""A template's key: a hash of everything that its content depends on, builder included."""

import importlib
import inspect
import json
from pathlib import Path

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.errors import TemplateBroken
from wardian.sandbox.fingerprint import digest


def template_key(source: TemplateSource, schema: str, engine: str) -> str:
    """32 hex characters. What `seed_rows` reads beside its module and `builder_modules` is not seen: list those modules.

    Raises:
        TemplateBroken: the source text of a builder cannot be read.
    """
    inputs = {
        "name": source.name,
        "schema": schema,
        "engine": engine,
        "seed": source.seed,
        "parameters": source.parameters,
        "seed_rows": f"{source.seed_rows.__module__}.{source.seed_rows.__qualname__}",
        "builders": {name: _module_text(name) for name in sorted({source.seed_rows.__module__, *source.builder_modules})},
        "package": _package_text(),
    }
    return digest(json.dumps(inputs, sort_keys=True).encode())


def import_key(artifact: str, engine: str) -> str:
    """The key of a template that is made of a file with that digest."""
    return digest(json.dumps([artifact, engine, _package_text()], sort_keys=True).encode())


def _package_text() -> dict[str, str]:
    return {str(path.relative_to(_HERE)): path.read_text("utf-8") for path in sorted(_HERE.rglob("*.py"))}


_HERE = Path(__file__).parent


def _module_text(name: str) -> str:
    try:
        return inspect.getsource(importlib.import_module(name))
    except (OSError, TypeError, ImportError) as error:
        raise TemplateBroken(f"the source of {name} cannot be read, so a change of it would go unseen: {error}") from error
