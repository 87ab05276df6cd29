"""World databases: one contract (`base`), SQLite behind it, and the column types of world schemas (`types`)."""

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, RowChange, Rows, Template, TemplateSource, WorldDatabase, Written
from wardian.sandbox.database.sqlite import SqliteTemplate

__all__ = ["FrozenDatabase", "QueryLimits", "RowChange", "Rows", "SqliteTemplate", "Template", "TemplateSource", "WorldDatabase", "Written"]
