# Sourced by deploy/up and tests/run: Debian packages, installed when they are missing and not asked about otherwise.

# say_missing FILE...: the packages named in the lists that are not installed, one a line.
say_missing() {
  local wanted
  wanted=$(sed 's/#.*//' "$@" | tr -s '[:space:]' '\n' | sed '/^$/d' | sort -u)
  # dpkg-query fails for names that it has never seen: exactly those count as missing.
  # shellcheck disable=SC2086
  comm -23 <(printf '%s\n' "$wanted") \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

# as_root COMMAND...: runs it as root, by sudo where this is another user.
as_root() {
  local -a root=(env)
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || return 126
    root=(sudo env)
  fi
  "${root[@]}" DEBIAN_FRONTEND=noninteractive PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

apt_get() {
  as_root apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# show_last_line LOG: until it is killed, the newest line of a growing file; a quiet minute would look like a hang.
show_last_line() {
  local began=$SECONDS
  while sleep 1; do
    printf '\r\033[K  %d s  %.100s' "$((SECONDS - began))" "$(tail -n 1 "$1")" >&2
  done
}

# install_packages FILE...: nothing, and no network, when all are there.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "krait: this needs Debian 12 (no dpkg-query here)" >&2
    return 1
  fi
  local missing log shower="" status=0
  missing=$(say_missing "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "krait: packages are missing and there is no sudo; as root, run: apt-get install --no-install-recommends" \
      $missing >&2
    return 1
  fi
  echo "packages: installing" $missing >&2
  log=$(mktemp)
  if [ -t 2 ]; then
    show_last_line "$log" &
    shower=$!
  fi
  # A list that was fetched earlier often serves; only when it does not is a new one fetched.
  # shellcheck disable=SC2086
  apt_get install --no-install-recommends $missing >>"$log" 2>&1 </dev/null ||
    { apt_get update && apt_get install --no-install-recommends $missing; } >>"$log" 2>&1 </dev/null ||
    status=$?
  if [ -n "$shower" ]; then
    kill "$shower"
    wait "$shower" 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  if [ "$status" != 0 ]; then
    echo "krait: apt-get failed:" >&2
    tail -n 25 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}
