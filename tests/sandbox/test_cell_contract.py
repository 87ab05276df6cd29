"""Both restore tiers under the whole contract."""

from dataclasses import replace

import pytest

from wardian.sandbox.cell import Tier
from wardian.sandbox.contract import CellContract
from wardian.sandbox.contract.base import MakeCell
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine


class TestChamber(CellContract):
    @pytest.fixture
    def make_cell(self, engine: Engine, image: str) -> MakeCell:
        return lambda spec, uid: make_cell(replace(spec, image=image, tier=Tier.CHAMBER), engine, uid)


class TestFresh(CellContract):
    @pytest.fixture
    def make_cell(self, engine: Engine, image: str) -> MakeCell:
        return lambda spec, uid: make_cell(replace(spec, image=image, tier=Tier.FRESH), engine, uid)
