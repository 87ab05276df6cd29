"""World databases in SQLite: an image in memory per clone.

building    makes an image: schema, seed rows, capture
template    seals images and keeps them
clone       an episode's copy: transactions, changes, fingerprint
frozen      immutable copies of a clone
query       the agent's own SQL, after `statements` and `roles`
"""

from wardian.sandbox.database.sqlite.template import SqliteTemplate

__all__ = ["SqliteTemplate"]
