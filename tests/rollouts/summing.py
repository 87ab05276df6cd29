"""The numbers of a run's summary, counted again from its log: no episode may be lost between them."""

from collections import Counter
from pathlib import Path
from typing import Any

from wardian.rollouts.records import ADAPTER, EpisodeEnd, EpisodeStart
from wardian.rollouts.resume import is_final


def adds_up(found: dict[str, Any], folder: Path) -> None:
    """Assert that the parts of `found` make its wholes, and are those of the log in `folder`."""
    begun: set[str] = set()
    ended: dict[str, EpisodeEnd] = {}
    retried = 0
    for line in (line for file in folder.glob("*.jsonl") for line in file.read_text().split("\n")[:-1]):
        if '"record": "episode_start"' in line or '"record": "episode_end"' in line:
            record = ADAPTER.validate_json(line)
            assert isinstance(record, EpisodeStart | EpisodeEnd)
            begun.add(record.episode_id)
            if isinstance(record, EpisodeEnd):
                retried += record.retried
                ended |= {record.episode_id: record} if is_final(record) else {}
    outcomes, ends = Counter(end.outcome for end in ended.values()), found["episodes"]
    assert (ends, found["retried"]) == (len(ended), retried)
    assert {name: found[name] for name in ("terminated", "truncated", "failed")} == {
        name: outcomes[name] for name in ("terminated", "truncated", "failed")
    }
    assert (found["cancelled"], found["not_started"]) == (len(begun - ended.keys()), found["planned"] - len(begun))
    assert found["planned"] == sum(found[name] for name in ("terminated", "truncated", "failed", "cancelled", "not_started"))
    assert found["masked"] == found["failed"] == sum(found["masked_by_cause"].values())
    assert sum(found["end_causes"].values()) == ends
    for kind in ("by_family", "by_difficulty", "by_policy", "by_split"):
        for number in ("episodes", "succeeded", "masked"):
            assert sum(group[number] for group in found[kind].values()) == found[number], (kind, number)
    fates = Counter(dict.fromkeys(("judged", "masked", "retried"), 0))
    for row in found["fates"]:
        fates[row["fate"]] += row["attempts"]
    assert fates == {"judged": ends - found["masked"], "masked": found["masked"], "retried": retried}
    causes = found["masked_by_cause"]
    assert (found["infra_failures"], found["verifier_failures"]) == (retried + causes.get("infrastructure", 0), causes.get("verifier", 0))
    resets = found["resets"]
    assert resets["verified"] + resets["leaks"] <= resets["count"]
