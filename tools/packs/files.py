"""Tools for files in the chamber, as the agent: `read_file`, `write_file`, `edit_file`, `list_files`, `find_files`, `search_files`."""

from typing import Any

from wardian.tools.contract import Latency, Source, Status, Tool
from wardian.tools.packs.editing import EditArguments, WriteArguments, edit, write
from wardian.tools.packs.listing import FindArguments, ListArguments, find_files, list_files
from wardian.tools.packs.reading import READ_BYTES, ReadArguments, reader
from wardian.tools.packs.searching import LINE_CHARS, SearchArguments, searcher

LOOKING = (Status.NOT_FOUND, Status.CONFLICT, Status.TIMEOUT, Status.UNAVAILABLE)
"""Statuses of tools that run a program to look."""


def file_tools(*, with_shell: bool = True, notes: bool = False) -> tuple[Tool[Any], ...]:
    """The six tools.

    `with_shell`: hints may name the tool `shell`, since the agent has it. `notes`: the trusted log says which bytes of which files an agent
    was shown, as facts of the kind `shown` with `path`, `start` and `end`.
    """
    step = "Look at it with a program, by the tool shell." if with_shell else "It cannot be shown; go on without its content."
    common: dict[str, Any] = {"source": Source.CELL, "latency": Latency(5, 40)}
    return (
        Tool(
            name="read_file",
            description=(
                f"Read a text file, or a range of its bytes or lines; at most {READ_BYTES} bytes at once. Gives text, size_bytes, and "
                "next_offset (next_line too, where lines were asked for) when there is more. For a binary file it gives type and size."
            ),
            arguments=ReadArguments,
            handler=reader(step, notes=notes),
            version=2,
            **common,
        ),
        Tool(
            name="write_file",
            description="Write a whole text file, replacing what was there. Line ends are kept as given.",
            arguments=WriteArguments,
            handler=write,
            version=2,
            mutates=True,
            **common,
        ),
        Tool(
            name="edit_file",
            description=(
                "Replace a text that stands exactly once in a file, or everywhere with replace_all. All other bytes stay as they are. "
                "Line ends may be written plainly, whatever those of the file are."
            ),
            arguments=EditArguments,
            handler=edit,
            version=2,
            mutates=True,
            idempotent=False,
            errors=(Status.CONFLICT,),
            **common,
        ),
        Tool(
            name="list_files",
            description="List a directory: name, kind, and size_bytes of files; the total, and next_offset when there is more.",
            arguments=ListArguments,
            handler=list_files,
            version=2,
            **common,
        ),
        Tool(
            name="find_files",
            description="List the files below a directory that match a pattern; the total, and next_offset when there is more.",
            arguments=FindArguments,
            handler=find_files,
            source=Source.CELL,
            latency=Latency(10, 100),
            errors=LOOKING,
        ),
        Tool(
            name="search_files",
            description=(
                "Search the text files below a directory for lines that match. Gives path, line and text of each, and "
                f"next_offset when there is more. Lines are cut after {LINE_CHARS} characters; binary files are counted, not shown."
            ),
            arguments=SearchArguments,
            handler=searcher(notes=notes),
            source=Source.CELL,
            latency=Latency(20, 200),
            errors=LOOKING,
        ),
    )
