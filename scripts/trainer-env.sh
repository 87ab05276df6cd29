#!/usr/bin/env bash
# Make .build/trainers/NAME for each NAME given: a virtual environment that holds Wardian beside one trainer, since trainers'
# pins exclude each other. Versions are pinned by constraints/trainers/NAME.txt; where that file is missing, the newest
# versions are installed and written to it. What is up to date is left as it is; a failed install leaves no stamp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

# Sets `wanted`, and `first`, which is installed alone before it: the version of torch that a wheel for CPUs may lie ready for.
requirements() {
  first=()
  case $1 in
    openenv) wanted=(-e ".[postgres]" openenv) ;;
    mcp) wanted=(-e ".[postgres,mcp]") ;;
    mcp1) wanted=(-e ".[postgres]" "mcp<2") ;;
    inspect) wanted=(-e ".[postgres,inspect]" openai trio) ;;
    verifiers) wanted=(-e ".[postgres,verifiers]" uv) ;;
    trl) first=("torch==2.13.0") wanted=(-e ".[postgres,serve,trl]") ;;
    *) die "no trainer environment $1; there are openenv, mcp, mcp1, inspect, verifiers and trl" ;;
  esac
}

digest() { { "$PYTHON" --version; pwd; cat "$@"; } | sha256sum | cut -d' ' -f1; }

# What the environment stands on: other pins make it anew. What else it holds: other requirements of ours are installed into it.
ground_of() {
  requirements "$1"
  echo "${first[*]} ${wanted[*]}" | digest - $(find constraints/trainers -name "$1.txt")
}
stamp_of() { echo "$(ground_of "$1") $(digest pyproject.toml)"; }

make_environment() {
  local name=$1 folder=.build/trainers/$1 pins=constraints/trainers/$1.txt
  requirements "$name"
  if [ -x "$folder/bin/python" ] && [ "$(cat "$folder.stamp" 2>/dev/null)" = "$(stamp_of "$name")" ]; then
    return
  fi
  say "making $folder"
  if [ ! -x "$folder/bin/python" ] || [ "$(cut -d' ' -f1 "$folder.stamp" 2>/dev/null)" != "$(ground_of "$name")" ]; then
    rm -f "$folder.stamp"
    "$PYTHON" -m venv --clear "$folder"
  fi
  rm -f "$folder.stamp"
  local install=("$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-input)
  [ ! -f "$pins" ] || install+=(-c "$pins")
  [ ${#first[@]} -eq 0 ] || "${install[@]}" "${first[@]}"
  "${install[@]}" "${wanted[@]}" pytest
  [ -f "$pins" ] || write_pins
  stamp_of "$name" >"$folder.stamp"
}

# Names and versions only: no address, nothing local, no build label.
write_pins() {
  "$folder/bin/python" -m pip freeze --disable-pip-version-check --exclude-editable |
    sed -nE 's/^([A-Za-z0-9._-]+==[^+ ]+).*/\1/p' >"$pins.new"
  mv "$pins.new" "$pins"
}

PYTHON=${PYTHON:-.venv/bin/python}
[ $# -gt 0 ] || die "name at least one: scripts/trainer-env.sh inspect"
mkdir -p .build/trainers
exec 9>.build/trainers/lock
flock 9
for name in "$@"; do make_environment "$name"; done
