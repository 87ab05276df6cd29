"""Template databases of a wanted size, for the growth of a reset with its world."""

from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.types import Id, Text

ROW_BYTES = 420
"""What a row takes in the image, its page's share and its index entry included."""


class Base(DeclarativeBase):
    pass


class Record(Base):
    __tablename__ = "records"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Text, index=True)
    body: Mapped[str] = mapped_column(Text)


def seed_rows(session: Session, seed: int) -> None:
    """Fill `seed` rows."""
    session.execute(insert(Record), [{"id": row, "kind": f"kind {row % 7}", "body": f"{row:08d} " * 42} for row in range(1, seed + 1)])


def sized_template(size_mb: float, directory: Path) -> SqliteTemplate:
    """A template of about so many megabytes.

    Raises:
        TemplateBroken: it cannot be built.
    """
    return SqliteTemplate.build(sized_source(size_mb), directory)


def sized_source(size_mb: float) -> TemplateSource:
    """What makes a template of about so many megabytes."""
    return TemplateSource("bench", Base.metadata, seed_rows, seed=round(size_mb * 1e6 / ROW_BYTES))
