"""Roles on a Postgres server: groups, which hold the grants and stay there, and the logins of one process."""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from wardian.sandbox.database.postgres.labelling import labelling, labels_in
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.errors import DatabaseLost
from wardian.sandbox.labels import KIND, labels_for

KEEPER, OWNER, CLONES, TOOLS, AGENTS = GROUPS = ("wardian_keeper", "wardian_owner", "wardian_clones", "wardian_tools", "wardian_agents")
"""Roles that cannot log in: who keeps an import's reports of changes, and has no member; who owns the tables, who reads those reports, who
writes rows, who reads them. They hold the grants and stay on the server."""
TEMP_FILES = "128MB"
"""What one statement may lay on the server's disk while it works; only a superuser may say so, so it stands on the login. So does the
language of messages, which agents read."""


GROUP = "database group"
"""Kind, by its label, of what stays when its maker has ended."""


def ensure_group(admin: Link, name: str) -> None:
    """Make a group where the server lacks it.

    Raises:
        DatabaseLost: there is a role of that name, and it is not ours.
    """
    found = admin.execute("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    if found:
        if labels_in(found[0]).get(KIND) != GROUP:
            raise DatabaseLost(f"the database server has a role {name} that is not ours, and worlds need that name: rename it")
        return
    rights = "NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
    try:
        with admin.transaction():
            admin.execute(sql.SQL("CREATE ROLE {} " + rights).format(sql.Identifier(name)))
            admin.execute(labelling("ROLE", name, labels_for(GROUP)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return  # another process was faster


def drop_role(admin: Link, name: str) -> None:
    """Drop a login or a group, and what it may by grants on the server itself."""
    role = sql.Identifier(name)
    admin.execute(sql.SQL("DROP OWNED BY {role}; DROP ROLE {role}").format(role=role))


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
