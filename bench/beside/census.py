"""What a sandbox holds, told from inside: run as `python3 -I -B -c SOURCE SINCE` in each contestant, with its standard library alone.

Prints one line: base64 of zlib of a JSON object from keys to lists of values. Keys are `file:PATH`, `process:NAME`, `shm|sem|msg:KEY`,
`queue:NAME`, `socket:...`, `mount:PLACE`, `setting:NAME` and `limit:NUMBER`. A file is its type, mode, owner, links, size and content, and
apart from that its time; only its first and last 64 KiB are read. SINCE is when all this began, in seconds since the epoch: a time later
than that is told as `later`, since what is made with each sandbox has another one each time.
"""

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import resource
import stat
import sys
import zlib

PART = 64 << 10
SINCE = float(sys.argv[1])
SKIPPED = ("/proc", "/sys")
QUEUES = [f"/left-{number}" for number in range(3)]
"""Queues are seen in a file system where one is mounted; these names are tried in any case."""


def content(path, status):
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(status.st_mode):
        return str(status.st_rdev).encode()
    try:
        with open(path, "rb") as file:
            head = file.read(PART)
            file.seek(max(PART, status.st_size - PART))
            return head + file.read(PART)
    except OSError as error:
        return str(error.errno).encode()


def entry(path):
    status = os.lstat(path)
    links = 0 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    what = f"{status.st_mode:o} {status.st_uid} {status.st_gid} {links} {size} ".encode() + content(path, status)
    time = "later" if status.st_mtime >= SINCE else status.st_mtime_ns
    return [hashlib.blake2b(what, digest_size=6).hexdigest(), time]


def files(folder, found):
    found["file:" + folder] = entry(folder)
    try:
        names = os.listdir(folder)
    except OSError as error:
        found["file:" + folder].append(error.errno)
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            if path in SKIPPED:
                continue
            if stat.S_ISDIR(os.lstat(path).st_mode):
                files(path, found)
            else:
                found["file:" + path] = entry(path)
        except OSError as error:
            found["file:" + path] = [error.errno]


def processes(found):
    """By name, without this one and those that it was started by."""
    own, pid = set(), os.getpid()
    while pid:
        own.add(pid)
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it is another user's, and hidden
            break
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) not in own:
                with open(f"/proc/{name}/comm") as file:
                    found.setdefault("process:" + file.read().strip(), [0])[0] += 1
        except OSError:
            continue


def lines(path):
    try:
        with open(path) as file:
            return [line.split() for line in file.read().splitlines()[1:]]
    except OSError:
        return []


def communication(found):
    for kind in ("shm", "sem", "msg"):
        for fields in lines("/proc/sysvipc/" + kind):
            found[f"{kind}:{int(fields[0]):#x}"] = fields[2:4]
    realtime = ctypes.CDLL(None, use_errno=True)
    for name in QUEUES:
        queue = realtime.mq_open(name.encode(), os.O_RDONLY)
        if queue >= 0:
            found["queue:" + name] = [1]
            os.close(queue)
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for fields in lines("/proc/net/" + kind):
            if fields[3] in ("0A", "07"):  # listening; bound
                found[f"socket:{kind} {fields[1]}"] = [1]
    for fields in lines("/proc/net/unix"):
        if len(fields) > 7:
            found["socket:unix " + fields[7]] = [1]


def settings(found):
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            found.setdefault("mount:" + fields[4], []).append(fields[fields.index("-") + 1])
    found |= {"setting:variable " + name: [value] for name, value in os.environ.items()}
    found["setting:ids"] = [os.getuid(), os.getgid(), sorted(os.getgroups())]
    found["setting:host"] = list(os.uname())[1:2]
    found["setting:folder"] = [os.getcwd()]
    for name in ("kernel/msgmax", "kernel/shmmax", "net/ipv4/ip_default_ttl"):
        with contextlib.suppress(OSError), open("/proc/sys/" + name) as file:
            found["setting:" + name] = file.read().split()
    mask = os.umask(0)
    found["setting:umask"] = [mask]
    for number in range(16):
        found[f"limit:{number}"] = list(resource.getrlimit(number))


def main():
    sys.setrecursionlimit(10_000)
    found = {}
    settings(found)
    processes(found)
    communication(found)
    files("/", found)
    print(base64.b64encode(zlib.compress(json.dumps(found).encode())).decode())


if __name__ == "__main__":
    main()
