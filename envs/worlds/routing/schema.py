"""The one table of model routing: what the models answered."""

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from wardian.sandbox.database.types import Flag, Id, Text


class Base(DeclarativeBase):
    pass


class Answer(Base):
    __tablename__ = "answers"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    model: Mapped[str] = mapped_column(Text)
    accepted: Mapped[bool] = mapped_column(Flag)
