"""Databases of somebody's own as templates.

importing   from a source to a kept import
store       where imports are kept, listed, opened and removed
report      what came, what did not, and what cannot be the same on the other engine
"""

from wardian.sandbox.database.imports.importing import import_database
from wardian.sandbox.database.imports.store import ImportedDatabase, imported_names, open_import, remove_import

__all__ = ["ImportedDatabase", "import_database", "imported_names", "open_import", "remove_import"]
