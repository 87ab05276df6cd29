"""What every cell backend must do, as a pytest suite that ships: one class, one factory.

    from wardian.sandbox.contract import CellContract

    class TestMyCell(CellContract):
        @pytest.fixture
        def make_cell(self, my_engine):
            return lambda spec, uid: MyCell(replace(spec, image="..."), my_engine, uid)

The image needs bash, coreutils, git and python3. Tests are coroutines under the anyio plugin, so an `anyio_backend` fixture
must be there. pytest is imported here and nowhere else in the package. Each test has a cell of its own.
"""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("base", "commands", "output", "files", "resets", "denials", "sealing")))

from wardian.sandbox.contract.commands import CommandContract  # noqa: E402 - the rewriting must be set up first
from wardian.sandbox.contract.denials import DenialContract  # noqa: E402
from wardian.sandbox.contract.files import FileContract  # noqa: E402
from wardian.sandbox.contract.output import OutputContract  # noqa: E402
from wardian.sandbox.contract.resets import ResetContract  # noqa: E402
from wardian.sandbox.contract.sealing import SealContract  # noqa: E402


class CellContract(CommandContract, OutputContract, FileContract, ResetContract, SealContract, DenialContract):
    """All of it. Override the fixture `make_cell`."""


__all__ = ["CellContract"]
