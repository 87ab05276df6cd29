"""Roles on a Postgres server: groups, which hold the grants and stay there, and the logins of one process."""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from wardian.sandbox.database.postgres.labelling import labelling
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.labels import labels_for

KEEPER, OWNER, CLONES, TOOLS, AGENTS = GROUPS = ("wardian_keeper", "wardian_owner", "wardian_clones", "wardian_tools", "wardian_agents")
"""Roles that cannot log in: who keeps an import's reports of changes, and has no member; who owns the tables, who reads those reports, who
writes rows, who reads them. They hold the grants and stay on the server."""
TEMP_FILES = "128MB"
"""What one statement may lay on the server's disk while it works; only a superuser may say so, so it stands on the login. So does the
language of messages, which agents read."""


def ensure_group(admin: Link, name: str) -> None:
    """Make a group where the server lacks it."""
    try:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
            admin.execute(sql.SQL("CREATE ROLE {} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return  # another process was faster


def ensure_login(admin: Link, name: str, password: str, groups: Sequence[str]) -> None:
    """Make a login of this process, a member of `groups`, where the server lacks it."""
    if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
        return
    login = sql.Identifier(name)
    rights = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION INHERIT PASSWORD"
    with admin.transaction():  # nobody who is killed here leaves one without a label
        admin.execute(sql.SQL("CREATE ROLE {} " + rights + " {}").format(login, sql.Literal(password)))
        admin.execute(sql.SQL("ALTER ROLE {} SET temp_file_limit = {}").format(login, sql.Literal(TEMP_FILES)))
        admin.execute(sql.SQL("ALTER ROLE {} SET lc_messages = 'C'").format(login))
        admin.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(", ").join(map(sql.Identifier, groups)), login))
        admin.execute(labelling("ROLE", name, labels_for("database login")))
