"""Run inside an image build: compiles the supervisor, and copies this interpreter and what it loads to where nothing else is needed.

    bundle.py SUPERVISOR FOLDER      makes FOLDER/supervisor.pyc and FOLDER/python/{ld.so, bin/python3, lib/*.so, lib/python3.N/*.pyc}

The list of modules is what a fresh interpreter has loaded once it has imported the supervisor, so it cannot drift. The loader is
started by path and told where the libraries are, so no C library of the image around it is ever used. Its folder is root's
alone: an agent in an image without Python shall not find one. Standard library only.
"""

import os
import py_compile
import shutil
import subprocess
import sys

LOADED = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
__import__(sys.argv[1].rpartition("/")[2].removesuffix(".py"))
for module in list(sys.modules.values()):
    if getattr(module, "__file__", None) not in (None, sys.argv[1]):
        print(module.__file__)
"""
OPTIONS = ("-I", "-S", "-B", "-X", "utf8")
"""As the supervisor is started."""


def loaded(python: str, supervisor: str) -> list[str]:
    """Files of the modules that are loaded once the supervisor is imported, in an empty environment."""
    done = subprocess.run([python, *OPTIONS, "-c", LOADED, supervisor], env={}, stdout=subprocess.PIPE, text=True, check=True)
    return sorted(set(done.stdout.split("\n")) - {""})


def libraries(binary: str) -> dict[str, str]:
    """Path by name of the shared objects that `binary` needs; the dynamic loader's name is `ld.so`."""
    done = subprocess.run(["ldd", binary], stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for words in map(str.split, done.stdout.splitlines()):
        if "=>" in words:
            found[words[0]] = words[2]
        elif "/ld-" in words[0]:
            found["ld.so"] = words[0]
    return found


def copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, 0o700)


def compiled(source: str, target: str, shown: str) -> None:
    """Compile for this interpreter; the result depends on nothing but the source."""
    py_compile.compile(source, target, dfile=shown, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def main(supervisor: str, folder: str) -> None:
    top = f"{folder}/python"
    python, standard = os.path.realpath(sys.executable), os.path.dirname(os.__file__)
    home = f"{top}/lib/{os.path.basename(standard)}"
    os.makedirs(f"{home}/lib-dynload")  # the interpreter looks for this name, even where it is empty
    binaries = [python]
    for file in loaded(python, supervisor):
        inside = os.path.relpath(file, standard)
        if file.endswith(".so"):
            binaries.append(file)
            copy(file, f"{home}/lib-dynload/{os.path.basename(file)}")
        else:
            compiled(file, f"{home}/{inside}c", inside)
    for name, path in {name: path for binary in binaries for name, path in libraries(binary).items()}.items():
        copy(path, f"{top}/{name}" if name == "ld.so" else f"{top}/lib/{name}")
    copy(python, f"{top}/bin/python3")
    os.chmod(top, 0o700)
    compiled(supervisor, f"{folder}/supervisor.pyc", "supervisor.py")
    os.chmod(f"{folder}/supervisor.pyc", 0o444)


if __name__ == "__main__":
    main(*sys.argv[1:])
