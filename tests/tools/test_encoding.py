import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from wardian.tools.contract import Status
from wardian.tools.encoding import capped, encode


def test_every_database_type_has_one_plain_form() -> None:
    row = {
        "price": Decimal("10.10"),
        "large": Decimal("1E+3"),
        "at": datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2))),
        "day": date(2026, 3, 29),
        "for": timedelta(seconds=1.5),
        "id": UUID(int=1),
        "blob": b"\x00\xff",
        "status": Status.OK,
        "pair": (1, None),
        "zero": -0.0,
    }
    assert json.dumps(encode(row)) == json.dumps(
        {
            "price": "10.10",
            "large": "1000",
            "at": "2026-03-29T00:30:00.000000Z",
            "day": "2026-03-29",
            "for": 1_500_000,
            "id": "00000000-0000-0000-0000-000000000001",
            "blob": {"base64": "AP8="},
            "status": "ok",
            "pair": [1, None],
            "zero": 0.0,
        }
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), {1: 2}, {1, 2}, object(), datetime(2026, 1, 1, tzinfo=None)])
def test_what_has_no_place_in_json_is_refused_with_its_path(value: object) -> None:
    with pytest.raises(ValueError, match=r"^result\.a\[1\]"):
        encode({"a": [0, value]})


def test_a_lone_surrogate_becomes_its_escape() -> None:
    assert encode({"n\udcff": "é\ud83d"}) == {"n\\udcff": "é\\ud83d"}


def test_a_long_answer_is_cut_and_says_its_true_size() -> None:
    content = {"rows": ["x" * 10] * 100}
    assert capped(content, 5000) is content
    cut = capped(content, 200)
    assert len(cut["beginning"]) == 200
    assert str(len(json.dumps(content))) in cut["cut"]
    assert encode(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000000Z"
