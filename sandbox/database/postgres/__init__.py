"""World databases on a Postgres server. Needs the extra `postgres`."""
