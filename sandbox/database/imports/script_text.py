"""Bytes of a script: which encoding, which dialect, and whether it is a script at all."""

import codecs
import re

from wardian.sandbox.errors import ImportRefused

ENGINES = ("sqlite", "postgres")
_LOOKED_AT = 1 << 20
_LITERAL = re.compile(r"'(?:[^']|'')*'|--[^\n]*")
_SIGNS = {
    "postgres": r"^\\(?:c|connect|restrict|set|copy|encoding)\b|PostgreSQL database (?:cluster )?dump|\bSERIAL\b|\bFROM\s+STDIN\b|\$\$"
    r"|::\w|\bCREATE\s+(?:SEQUENCE|EXTENSION|DOMAIN|TYPE|SCHEMA)\b|\bSET\s+search_path\b|\bpg_catalog\b|\bBYTEA\b|\bJSONB\b"
    r"|\bINHERITS\s*\(|\bPARTITION\s+(?:BY|OF)\b|\bUNLOGGED\s+TABLE\b|\bEXCLUDE\s+USING\b|\bNOT\s+VALID\b|\bFLOAT[48]\b|\b(?:INT[48]|NUM|TS|TSTZ|DATE)RANGE\b"
    r"|^SET\s+(?:CONSTRAINTS|TIME\s*ZONE|DateStyle|IntervalStyle|client_encoding|default_\w+)\b|\bCREATE\s+COLLATION\b"
    r"|\bTIMESTAMPTZ\b|\bTIMESTAMP\s+WITH(?:OUT)?\b|\bOWNER\s+TO\b|\bAS\s+IDENTITY\b|\bALTER\s+TABLE\s+ONLY\b|\bplpgsql\b|\bTEXT\[\]",
    "sqlite": r"^\s*PRAGMA\b|\bAUTOINCREMENT\b|\bWITHOUT\s+ROWID\b|\bsqlite_(?:sequence|master|schema|stat1)\b"
    r"|^\.(?:mode|import|open|read)\b"
    r"|\bINSERT\s+OR\s+(?:IGNORE|REPLACE)\b|\)\s*STRICT\s*;|\ABEGIN TRANSACTION;|\bCREATE\s+TABLE\s+\[",
    "MySQL": r"/\*!\d|\bENGINE\s*=|\bAUTO_INCREMENT\b|\bUNSIGNED\b|^(?:UN)?LOCK\s+TABLES\b|\bDEFAULT\s+CHARSET\b|^SET\s+NAMES\b",
    "SQL Server": r"\bIDENTITY\s*\(\s*\d|\]\s+(?:INT|BIGINT)\s+IDENTITY\b|\[dbo\]|\bNVARCHAR\s*\(\s*MAX\b|\bSET\s+ANSI_NULLS\b",
    "Oracle": r"\bVARCHAR2\b|\bNUMBER\s*\(\d|\bNUMBER\s+(?:PRIMARY|NOT|NULL|DEFAULT)\b|\bSYSDATE\b",
}
_TABLES = re.compile(r"\bCREATE\s+(?:GLOBAL\s+|LOCAL\s+|TEMP(?:ORARY)?\s+|UNLOGGED\s+)*TABLE\b", re.IGNORECASE)


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """The script, one character per byte of UTF-8 or of what it is kept in, and a note on how it was read, or none.

    Raises:
        ImportRefused: it is no text.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode("utf-8").decode("latin-1"), "the script is UTF-16 and was read as such"
        except (UnicodeDecodeError, UnicodeEncodeError) as error:
            raise ImportRefused(f"{name}: begins as UTF-16 and is none ({error.reason}); save it as UTF-8") from error
    if b"\x00" in data:
        raise ImportRefused(f"{name}: no text: it holds zero bytes; if it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8")
    return data.removeprefix(codecs.BOM_UTF8).decode("latin-1"), ""


def dialect_of(script: str, name: str) -> str:
    """Whether a script is written for `sqlite` or `postgres`.

    Raises:
        ImportRefused: for neither, or it does not show.
    """
    bare = _LITERAL.sub(lambda found: found.group() if found.group().startswith("--") else "''", script[:_LOOKED_AT])
    if not _TABLES.search(script):
        raise ImportRefused(
            f"{name}: no database that can be read: neither a SQLite file, nor a dump of pg_dump, nor a SQL script that creates tables"
        )
    signs = {dialect: len(re.findall(pattern, bare, re.IGNORECASE | re.MULTILINE)) for dialect, pattern in _SIGNS.items()}
    foreign = max((count, dialect) for dialect, count in signs.items() if dialect not in ENGINES)
    if foreign[0] > max(signs["sqlite"], signs["postgres"]):
        raise ImportRefused(f"{name}: a script for {foreign[1]}; scripts for SQLite and Postgres can be read")
    if signs["sqlite"] == signs["postgres"]:
        raise ImportRefused(
            f"{name}: it does not show whether the script is for SQLite or Postgres; say --engine sqlite or --engine postgres"
        )
    return "sqlite" if signs["sqlite"] > signs["postgres"] else "postgres"
