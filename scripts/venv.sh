#!/usr/bin/env bash
# Make .venv with Wardian in it: `venv.sh base` for use, `venv.sh dev` for tests too. Versions are pinned by constraints/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

want=${1:?base or dev}
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

pick_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if new_enough "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Debian ships Python without the part that fills a virtual environment.
make_venv() {
  local python
  if ! python=$(pick_python); then
    can_install && [ -z "${PYTHON:-}" ] && apt_install python3 python3-venv
    python=$(pick_python) || die "Python 3.11 or later is needed; found: $(python3 --version 2>&1 || true). Install it, or name it: make PYTHON=/path/to/python3 ..."
  fi
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    can_install || die "$python has no ensurepip: install the package python3-venv"
    apt_install python3-venv
    "$python" -c 'import ensurepip' 2>/dev/null || die "$python has no ensurepip, and the package python3-venv does not serve it; name another: make PYTHON=/path/to/python3 ..."
  fi
  say "making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
}

mkdir -p .build
exec 9>.build/venv.lock
flock 9
new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv

target=.
[ "$want" = base ] || target=".[$want]"
say "installing $target (constraints/$want.txt)"
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-input -c "constraints/$want.txt" -e "$target"
