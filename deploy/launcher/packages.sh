# Sourced by deploy/up and tests/run: Debian packages, installed when they are missing and not asked about otherwise.

PYTHON=/usr/bin/python3
PROGRESS_S=10

# help_first PROGRAM SCRIPT WORD...: where a word of its command line asks for help, PROGRAM shows it and ends here:
# nothing is installed for that.
help_first() {
  local program=$1 script=$2 word
  shift 2
  for word in "$@"; do
    case "$word" in
      --) return 0 ;;
      -h | --help)
        if [ -x "$PYTHON" ]; then
          exec "$PYTHON" -X utf8 "$script" --help
        fi
        echo "usage: $program [OPTION]...  (its options are told by python3, which is not here yet: $program without" \
          "--help installs it with the other packages of deploy/packages/)"
        exit 0
        ;;
    esac
  done
}

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
  "${root[@]}" LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

apt_get() {
  as_root apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# progress_of LOG: how far apt-get is, in words.
progress_of() {
  awk '/^[0-9]+ upgraded, [0-9]+ newly installed/ { total = $1 + $3; got = unpacked = ready = 0 }
    /^Get:/ { ++got } /^Unpacking / { ++unpacked } /^Setting up / { ++ready }
    END {
      if (total == "") print "reading the lists of packages"
      else printf "of %d packages %d are downloaded, %d unpacked, %d set up\n", total, got, unpacked, ready
    }' "$1"
}

# show_progress LOG: until it is killed, how far it is: a line that moves on a terminal, elsewhere one every while.
show_progress() {
  local began=$SECONDS form='packages: %d s: %s\n' pause=$PROGRESS_S
  if [ -t 2 ]; then
    form='\r\033[Kpackages: %d s: %.100s' pause=1
  fi
  while sleep "$pause"; do
    # shellcheck disable=SC2059
    printf "$form" "$((SECONDS - began))" "$(progress_of "$1")" >&2
  done
}

# install_packages FILE...: nothing, and no network, when all are there.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "krait: this needs Debian 12 (no dpkg-query here)" >&2
    return 1
  fi
  local missing log shower status=0
  missing=$(say_missing "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "krait: packages are missing and there is no sudo; as root, run: apt-get install --no-install-recommends" \
      $missing >&2
    return 1
  fi
  # shellcheck disable=SC2086
  echo "packages: installing $(set -- $missing && echo $#) and what they need:" $missing >&2
  log=$(mktemp)
  show_progress "$log" &
  shower=$!
  # A list that was fetched earlier often serves; only when it does not is a new one fetched.
  # shellcheck disable=SC2086
  apt_get install --no-install-recommends $missing >>"$log" 2>&1 </dev/null ||
    { apt_get update && apt_get install --no-install-recommends $missing; } >>"$log" 2>&1 </dev/null ||
    status=$?
  kill "$shower"
  wait "$shower" 2>/dev/null || true
  if [ -t 2 ]; then
    printf '\r\033[K' >&2
  fi
  if [ "$status" != 0 ]; then
    echo "krait: apt-get failed:" >&2
    tail -n 25 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}
