"""What kind of cells a sandbox of Inspect's is."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wardian.sandbox.cell import Tier


class CellConfig(BaseModel):
    """Beside `sandbox="wardian"`, as `("wardian", CellConfig(...))` or as a YAML file with these keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    world: str | None = None
    """A built-in world, or `package.module:function`, whose files the cells begin with."""
    image: str | None = None
    """An adopted image (`wardian image adopt`); `None` is the agent image."""
    tier: Tier | None = None
    """`None`: the best that works on the engine."""
    runtime: str | None = None
    """An engine runtime such as `runsc`."""
    cells: Annotated[int, Field(ge=1, le=1024)] | None = None
    """How many there are, and so how many samples run at once; `None` is what `--max-sandboxes` has by default."""
    memory_mib: Annotated[int, Field(ge=64)] = 512
    """What a sample's processes may use together."""
    disk_mib: Annotated[int, Field(ge=16)] = 256
    """Files that a sample may write."""
    processes: Annotated[int, Field(ge=8)] = 256
    cpus: Annotated[float, Field(gt=0)] = 1.0


def default_places() -> int:
    """Samples at once, where nothing else is said: two for each processor."""
    return 2 * (os.cpu_count() or 1)


def config_from(given: Any) -> CellConfig:
    """The configuration that Inspect hands over: ours, a file's name, or none.

    Raises:
        ValueError: it is neither, or the file holds something else; names the file and the key.
    """
    if given is None:
        return CellConfig()
    if isinstance(given, CellConfig):
        return given
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if not isinstance(given, str):
        raise ValueError(f"sandbox: wardian takes a CellConfig or a YAML file, not {type(given).__name__}")
    try:
        return CellConfig.model_validate(YAML(typ="safe", pure=True).load(Path(given).read_text("utf-8")) or {})
    except OSError as error:
        raise ValueError(f"sandbox: {given} cannot be read: {error.strerror}") from error
    except (YAMLError, ValidationError) as error:
        raise ValueError(f"sandbox: {given} is no configuration of cells: {error}") from error
