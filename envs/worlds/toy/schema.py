"""Tables of the lending desk. Ids come from the world (`ToolContext.new_id`), times from its clock; no default of the engine."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from wardian.sandbox.database.types import Flag, Id, Instant, Text


class Base(DeclarativeBase):
    pass


class Member(Base):
    __tablename__ = "members"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(Text)
    suspended: Mapped[bool] = mapped_column(Flag)


class Item(Base):
    __tablename__ = "items"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Text, index=True)
    written_off: Mapped[bool] = mapped_column(Flag)


class Loan(Base):
    __tablename__ = "loans"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(Id, ForeignKey("items.id"), index=True)
    member_id: Mapped[int] = mapped_column(Id, ForeignKey("members.id"), index=True)
    lent_at: Mapped[datetime] = mapped_column(Instant)
    due_at: Mapped[datetime] = mapped_column(Instant)
    returned_at: Mapped[datetime | None] = mapped_column(Instant)
