#!/usr/bin/env bash
# Make sure that a container engine answers. One that answers is used as it is and never touched; where this is root on
# Debian, Docker is installed and started; elsewhere the script says what to do. Safe to run twice and at the same time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LOCAL_SOCKET=unix:///var/run/docker.sock
LOG=${WARDIAN_ENGINE_LOG:-/var/log/wardian-dockerd.log}
LOCK=/var/lock/wardian-engine.lock
DEADLINE_S=60
NEEDED=()
command -v dockerd >/dev/null || NEEDED+=(docker.io)
command -v iptables >/dev/null || NEEDED+=(iptables)

# Where Docker's command line and SDK look: DOCKER_HOST, else the current context, else the local socket.
host() { docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || echo "${DOCKER_HOST:-$LOCAL_SOCKET}"; }
version() { timeout 10 docker version --format '{{.Server.Version}}' 2>&1; }
answers() { command -v docker >/dev/null && version >/dev/null; }

# The pid in $1, where that file names a living process called $2; a file that a crash left behind is removed.
alive() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]; then
    echo "$pid"
    return
  fi
  say "removing $1, left behind by an engine that is gone"
  rm -f "$1"
  return 1
}

wait_for_engine() {
  local deadline=$((SECONDS + DEADLINE_S))
  while ! answers; do
    if [ $SECONDS -ge $deadline ] || { [ -n "${1:-}" ] && ! kill -0 "$1" 2>/dev/null; }; then
      return 1
    fi
    sleep 0.2
  done
}

# The lock's descriptor is closed for the daemon, which would hold it for ever.
launch() {
  say "starting dockerd $*(log: $LOG)"
  setsid dockerd "$@" >>"$LOG" 2>&1 </dev/null 9>&- &
  wait_for_engine $!
}

start_local() {
  local pid
  if pid=$(alive /var/run/docker.pid dockerd); then
    say "dockerd runs already (process $pid); waiting for its answer"
    wait_for_engine && return
    die "dockerd (process $pid) runs but did not answer within $DEADLINE_S s; read its log, end it, and run \`make engine\` again"
  fi
  alive /var/run/docker/containerd/containerd.pid containerd >/dev/null || true
  : >"$LOG" || die "cannot write $LOG; name another file: WARDIAN_ENGINE_LOG=/path make engine"
  launch && return
  # Cells have no network and builds use the host's, so an engine without a bridge serves as well.
  if grep -qi iptables "$LOG" && launch --bridge=none --iptables=false --ip6tables=false; then
    return
  fi
  tail -n 20 "$LOG" >&2
  die "dockerd did not start; the end of $LOG is above"
}

if answers; then
  say "engine $(version) answers at $(host)"
  exit 0
fi

reason=$(command -v docker >/dev/null && version | xargs || true)
if [ "$(host)" != "$LOCAL_SOCKET" ]; then
  die "no engine answers at DOCKER_HOST=$(host) (${reason:-no docker client here}).
Start that engine, correct DOCKER_HOST (or the Docker context), or unset it to use the local engine."
fi
if ! can_install; then
  die "no engine answers at $LOCAL_SOCKET (${reason:-docker is not installed}).
Do one of these, then run the same command again:
  - run \`make engine\` as root on Debian or Ubuntu: it installs and starts Docker
  - install Docker 20.10 or later, start it, and add yourself to its group: usermod -aG docker $(id -un)
  - set DOCKER_HOST to an engine that you may use"
fi

exec 9>"$LOCK"
flock -w 300 9 || die "another \`make engine\` holds $LOCK for 5 minutes already"
if ! answers; then
  # A kernel with AppArmor makes the engine load a profile, and only this package can.
  grep -qs Y /sys/module/apparmor/parameters/enabled && ! command -v apparmor_parser >/dev/null && NEEDED+=(apparmor)
  [ ${#NEEDED[@]} -eq 0 ] || apt_install "${NEEDED[@]}"
  if [ -d /run/systemd/system ]; then
    systemctl start docker || die "systemd could not start Docker; see: journalctl -u docker"
    wait_for_engine || die "Docker was started by systemd but does not answer; see: journalctl -u docker"
  else
    start_local
  fi
fi
say "engine $(version) answers at $(host)"
