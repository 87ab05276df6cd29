"""Write constraints/base.txt and constraints/dev.txt from what is installed here: run it in a virtual environment that was just upgraded.

`base` holds what Wardian needs to run, `dev` what its tests need too; names and versions only, never an address.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parent.parent / "constraints"


def pins(extras: tuple[str, ...]) -> str:
    """The closure of wardian's requirements under `extras`, one `name==version` a line, by name."""
    found: dict[str, str] = {}
    todo = [Requirement(f"wardian[{','.join(extras)}]" if extras else "wardian")]
    seen: set[str] = set()
    while todo:
        wanted = todo.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            installed = distribution(wanted.name)
        except PackageNotFoundError:
            raise SystemExit(f"{wanted.name} is not installed here: pip install -e '.[dev]' first") from None
        found[canonicalize_name(wanted.name)] = installed.version
        active = [{"extra": extra} for extra in ("", *wanted.extras)]
        needed = [Requirement(line) for line in installed.requires or ()]
        todo += [need for need in needed if need.marker is None or any(need.marker.evaluate(extra) for extra in active)]
    del found["wardian"]
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))


if __name__ == "__main__":
    (FOLDER / "base.txt").write_text(pins(()))
    (FOLDER / "dev.txt").write_text(pins(("dev",)))
