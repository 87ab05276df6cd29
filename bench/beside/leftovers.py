"""What an episode leaves behind, and what of it is still there after a reset: the same for every contestant."""

import base64
import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from wardian.rollouts.bench.episodes import RUNNING, STUBBORN, Episode, ordinary
from wardian.rollouts.policies.dirt import ORDINARY

Census: TypeAlias = Mapping[str, Sequence[Any]]
"""What `census.py` found, by key."""

PROBE = (Path(__file__).parent / "census.py").read_text()
BEGAN = str(int(time.time()))
"""What is made later than this is not told apart by its time."""
ENDS_ITSELF = "kill all"
"""It ends what some contestants run in the sandbox to serve it."""
AS_ROOT = "image"
"""Where the agent is root it copies all of /usr/bin, where it is not it fails: no equal dirt to time a reset with."""
SCRIPTS = 5
WRECKS: tuple[Sequence[str], ...] = ((), (AS_ROOT,), (AS_ROOT, ENDS_ITSELF))
"""How the episodes end before which a leak is looked for. With its programs gone and its processes ended, less is left to be found."""
SYSTEM = {
    "system files": (
        "{ echo '6.6.6.6 evil' >> /etc/hosts; echo 'evil:x:0:0::/:/bin/sh' >> /etc/passwd; "
        "echo left > /etc/left; echo left > /usr/local/bin/left; "
        "chmod 777 /etc/passwd /usr/local; touch -d 2001-01-01 /etc/passwd /usr/bin/env; } 2>/dev/null; true"
    ),
    "hard links": "{ ln /etc/passwd /etc/second-name; ln /usr/bin/env /workspace/env-too; } 2>/dev/null; true",
    "settings": "{ echo 4321 > /proc/sys/kernel/msgmax; echo 99 > /proc/sys/net/ipv4/ip_default_ttl; hostname evil; } 2>/dev/null; true",
    "odd places": "for d in /run /var/tmp /dev /root /opt /mnt /var/lib; do echo left > $d/left; done 2>/dev/null; true",
}
"""Beyond what the vandal policy does: what it can do to the system itself, where it may."""


def everyday() -> Episode:
    """Five processes and some 75 changed files."""
    return ordinary()


def vandal(rng: Random) -> Episode:
    """Twenty stubborn processes and five of the vandal's scripts that do the same whoever runs them."""
    names = rng.sample(sorted(set(ORDINARY) - {ENDS_ITSELF, AS_ROOT}), SCRIPTS)
    return Episode(STUBBORN, ("cd /workspace", *(ORDINARY[name] for name in names)))


def wreck(last: Sequence[str] = ()) -> Episode:
    """Everything that a vandal can do, one after another, and `last` what ends its work: `AS_ROOT`, `ENDS_ITSELF`."""
    order = ["delete", *(name for name in ORDINARY if name not in ("delete", AS_ROOT, ENDS_ITSELF))]
    return Episode(RUNNING, (*(ORDINARY[name] for name in order), *SYSTEM.values(), *(ORDINARY[name] for name in last)))


def as_script(episode: Episode) -> list[str]:
    """The episode for a sandbox that runs one script at a time: what goes on running is put into the background."""
    running = [f"( {episode.running} ) </dev/null >/dev/null 2>&1 &"] if episode.running else []
    return [*running, *episode.scripts]


def read(printed: str) -> Census:
    """What the probe printed.

    Raises:
        ValueError: it is not what a probe prints.
    """
    try:
        found: Census = json.loads(zlib.decompress(base64.b64decode(printed.strip(), validate=True)))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"the probe did not come to its end: {printed[-500:]!r}") from error
    return found


def differences(before: Census, after: Census, ignored: Iterable[str] = ()) -> dict[str, str]:
    """What is `new`, `gone` or `changed`, by key; for a file of which only the time differs, `time`."""
    found = {}
    for key in (before.keys() | after.keys()) - set(ignored):
        if key not in before or key not in after:
            found[key] = "new" if key not in before else "gone"
        elif list(before[key]) != list(after[key]):
            only_time = key.startswith("file:") and before[key][:1] == after[key][:1]
            found[key] = "time" if only_time else "changed"
    return found


def left_over(virgins: Sequence[Census], after: Census) -> dict[str, str]:
    """What differs from every one of the clean sandboxes, apart from what differs between those: name, address, time of making."""
    first = virgins[0]
    varied: dict[str, str] = {}
    for other in virgins[1:]:
        varied |= {key: how for key, how in differences(first, other).items() if varied.get(key) in (None, "time")}
    found = differences(first, after)
    return {key: how for key, how in found.items() if key not in varied or (varied[key] == "time" and how != "time")}
