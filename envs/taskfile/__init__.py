"""Tasks without Python: a YAML file of tasks on a database of one's own.

reading    YAML text to plain data, with the line of each part
schema     what may stand in the file, as models and as JSON Schema
loading    a file and the files that it names, checked
values     when two values are the same, whatever engine they come from
checking   the checks of a task on the final state
changes    what a task may have changed
solution   the reference solution
family     a task as a family
world      a template and a file of tasks as a world
"""
