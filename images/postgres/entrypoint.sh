#!/bin/bash
# Start a Postgres server; make its cluster first where there is none. The environment variables are those of the official image:
# POSTGRES_PASSWORD (or _FILE), POSTGRES_USER, POSTGRES_DB, POSTGRES_INITDB_ARGS, POSTGRES_INITDB_WALDIR, POSTGRES_HOST_AUTH_METHOD,
# PGDATA, and scripts in /docker-entrypoint-initdb.d. One of ours beside them: with WARDIAN_FOLLOW_STDIN=1 the server ends when its
# standard input does, so that it cannot outlive whoever started it.
set -euo pipefail
shopt -s nullglob

say() { printf 'postgres image: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# A variable, or the content of the file that <variable>_FILE names; a default else.
from_environment() {
  local name=$1 file_name=$1_FILE
  local value=${!name-} file=${!file_name-}
  [ -z "$value" ] || [ -z "$file" ] || die "$name and $file_name are both set; give one of them"
  if [ -n "$file" ]; then
    value=$(<"$file") || die "$file_name: $file cannot be read"
  fi
  printf -v "$name" '%s' "${value:-${2-}}"
  export "${name?}"
  unset "$file_name"
}

as_postgres() {
  [ "$(id -u)" -eq 0 ] || return 0
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  find "$PGDATA" \! -user postgres -exec chown postgres:postgres {} +
  if [ -n "${POSTGRES_INITDB_WALDIR-}" ]; then
    install -d -o postgres -g postgres -m 0700 "$POSTGRES_INITDB_WALDIR"
  fi
  exec setpriv --reuid=postgres --regid=postgres --init-groups --no-new-privs /bin/bash "$0" "$@"
}

check_password() {
  if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
    die "there is no password: set POSTGRES_PASSWORD (or POSTGRES_HOST_AUTH_METHOD=trust, which lets everybody in)"
  fi
}

make_cluster() {
  local options=() words=()
  [ -z "${POSTGRES_INITDB_WALDIR-}" ] || options+=(--waldir="$POSTGRES_INITDB_WALDIR")
  read -r -a words <<<"${POSTGRES_INITDB_ARGS-}"
  initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:-unused}") "${options[@]}" "${words[@]}" >&2
  printf '\nhost all all all %s\n' "$POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
}

# While it is being filled the server listens on its socket alone: nobody takes it for ready.
run_first_scripts() {
  PGUSER=$POSTGRES_USER PGPASSWORD=$POSTGRES_PASSWORD pg_ctl -D "$PGDATA" -w -s -o "-c listen_addresses= -p 5432" start >&2
  local query=(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --no-password)
  if [ "$POSTGRES_DB" != postgres ]; then
    "${query[@]}" --dbname postgres --set name="$POSTGRES_DB" <<<'CREATE DATABASE :"name";' >&2
  fi
  local file
  for file in /docker-entrypoint-initdb.d/*; do
    say "running $file"
    case $file in
      *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
      *.sql) "${query[@]}" --dbname "$POSTGRES_DB" --file "$file" ;;
      *.sql.gz) gunzip -c "$file" | "${query[@]}" --dbname "$POSTGRES_DB" ;;
      *.sql.xz) xz -dc "$file" | "${query[@]}" --dbname "$POSTGRES_DB" ;;
      *.sql.zst) zstd -dc "$file" | "${query[@]}" --dbname "$POSTGRES_DB" ;;
      *) say "leaving $file out: neither .sh nor .sql (.gz, .xz, .zst)" ;;
    esac
  done >&2
  pg_ctl -D "$PGDATA" -m fast -w -s stop >&2
}

# The server as a child that ends with our standard input, or with us.
follow_stdin() {
  "$@" </dev/null &
  local server=$!
  trap 'kill -QUIT "$server" 2>/dev/null || true' TERM INT
  { cat >/dev/null; kill -QUIT "$server" 2>/dev/null || true; } <&0 &
  wait "$server"
  exit $?
}

[ "${1:0:1}" != - ] || set -- postgres "$@"
[ "${1-}" = postgres ] || exec "$@"
as_postgres "$@"
from_environment POSTGRES_PASSWORD
from_environment POSTGRES_USER postgres
from_environment POSTGRES_DB "$POSTGRES_USER"
from_environment POSTGRES_HOST_AUTH_METHOD scram-sha-256
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  check_password
  make_cluster
  run_first_scripts
fi
shift
set -- postgres -c "listen_addresses=*" -c unix_socket_directories=/var/run/postgresql "$@"
if [ "${WARDIAN_FOLLOW_STDIN-}" = 1 ]; then
  follow_stdin "$@"
fi
exec "$@"
