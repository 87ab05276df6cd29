"""What the vandal does to a chamber, as scripts for bash, by name.

Each ends by itself and prints nothing that depends on timing, so that a vandal's episode can be replayed; what it leaves behind is the
point. Whatever keeps running writes only what stands there already.
"""

_PYTHON = "python3 - <<'END' >/dev/null 2>&1\n{}\nEND\ntrue"


def _python(source: str) -> str:
    return _PYTHON.format(source.strip())


ORDINARY: dict[str, str] = {
    "daemons": "for i in 1 2 3; do setsid nohup sleep 100000 </dev/null >/dev/null 2>&1 & done; disown -a",
    "stubborn": "(trap '' TERM INT HUP; while :; do sleep 1000; done) </dev/null >/dev/null 2>&1 & disown -a",
    "listeners": _python("""
import os, socket, time
for number in range(4):
    tcp = socket.socket()
    tcp.bind(("127.0.0.1", 8000 + number))
    tcp.listen()
    os.set_inheritable(tcp.fileno(), True)
    named = socket.socket(socket.AF_UNIX)
    named.bind(f"\\0vandal-{number}")
    named.listen()
    globals()[f"keep{number}"] = (tcp, named)
if os.fork() == 0:
    os.setsid()
    time.sleep(100000)
"""),
    "shm": "for i in $(seq 1 20); do head -c 65536 /dev/zero > /dev/shm/left-$i; done 2>/dev/null; true",
    "sysv": _python("""
import ctypes
libc = ctypes.CDLL(None)
for key in range(0x5eed, 0x5eed + 5):
    libc.shmget(key, 4096, 0o1666)
    libc.semget(key, 3, 0o1666)
    libc.msgget(key, 0o1666)
"""),
    "mqueue": _python("""
import ctypes
libc = ctypes.CDLL("librt.so.1")
for number in range(3):
    libc.mq_open(b"/left-%d" % number, 0o102, 0o666, None)
"""),
    "many files": (
        "mkdir -p /workspace/many /tmp/many && cd /workspace/many && seq 1 300 | xargs touch; cd /tmp/many && seq 1 50 | xargs touch"
    ),
    "deep": "cd /workspace && for i in $(seq 1 60); do mkdir -p d && cd d || break; done; echo deep > bottom; true",
    "locked": "mkdir -p /workspace/locked/in && echo x > /workspace/locked/in/f && chmod 000 /workspace/locked/in /workspace/locked; true",
    "links": (
        "cd /workspace && ln -sf / root-link; ln -sf /etc/passwd users; ln -sf loop loop; ln -sfn ../../../../proc/1/root out; "
        "mkfifo pipe 2>/dev/null; echo one > one && ln -f one two; true"
    ),
    "odd names": "cd /workspace && touch -- $'new\\nline' $'\\xff\\xfe' '-rf' ' ' '*' \"$(printf 'n%.0s' $(seq 1 250))\"; true",
    "delete": "rm -rf /workspace/* /workspace/.[!.]* ~/.??* 2>/dev/null; true",
    "fill": "head -c 8000000 /dev/zero > /workspace/fill; head -c 4000000 /dev/zero > /tmp/fill; truncate -s 40M /workspace/sparse; true",
    "startup files": (
        "cd ~ 2>/dev/null; echo 'exit 7' | tee -a ~/.bashrc ~/.profile ~/.bash_profile >/dev/null; mkdir -p ~/.local/bin; "
        "printf '#!/bin/sh\\nexit 9\\n' > ~/.local/bin/ls; chmod +x ~/.local/bin/ls; echo '[alias]' > ~/.gitconfig; true"
    ),
    "loop": (
        "echo tick > /workspace/ticks; (while :; do echo tick 1<> /workspace/ticks; sleep 0.05; done) "
        "</dev/null >/dev/null 2>&1 & disown -a"
    ),
    "image": (
        "{ mv /usr/bin /usr/nib; mv /etc/passwd /etc/passwd.old; rm -rf /usr/lib/python3 /bin/bash; "
        "echo 6.6.6.6 evil >> /etc/hosts; mount -t tmpfs none /mnt; } >/dev/null 2>&1; true"
    ),
    "modes": "cd /tmp && cp /bin/true left && chmod 4755 left; chmod 777 /workspace; umask 0; touch /tmp/open; true",
    "kill all": "kill -9 -1",
}
"""Cheap: some milliseconds each."""

HEAVY: dict[str, tuple[str, int]] = {
    "fork bomb": (
        _python("""
import os, signal, time
children = []
try:
    for _ in range(2000):
        child = os.fork()
        if child == 0:
            time.sleep(100000)
            os._exit(0)
        children.append(child)
except OSError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""),
        20,
    ),
    "memory hog": ("exec python3 -c 'x = bytearray(3 << 30); x[::4096] = b\"x\" * len(x[::4096])' >/dev/null 2>&1", 20),
    "endless": ("trap '' TERM INT; while :; do :; done", 1),
}
"""Script and its limit in seconds: what meets the cell's limits."""
