# Shared by the scripts beside it; sourced, never run.

say() { printf '%s\n' "wardian: $*" >&2; }

die() {
  say "$@"
  exit 1
}

can_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# Install Debian packages; the lists are fetched only where the first try says that they are missing or old.
apt_install() {
  say "installing Debian packages: $*"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@")
  local log
  log=$(mktemp)
  if "${install[@]}" >"$log" 2>&1 </dev/null; then
    rm -f "$log"
    return
  fi
  if apt-get update -qq >"$log" 2>&1 </dev/null && "${install[@]}" >"$log" 2>&1 </dev/null; then
    rm -f "$log"
    return
  fi
  tail -n 20 "$log" >&2
  die "apt-get could not install: $*. Its last lines are above, all of them in $log"
}
