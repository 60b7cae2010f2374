# Sourced by tests/run: the Prometheus server and promtool, unpacked from Debian's package rather than installed, because
# installing it starts a server on port 9090.

unpack_prometheus() {
  local folder=$1 work status=0
  [ -x "$folder/promtool" ] && [ -x "$folder/prometheus" ] && return 0
  mkdir -p "$folder"
  if [ -x /usr/bin/prometheus ] && [ -x /usr/bin/promtool ]; then
    ln -sf /usr/bin/prometheus /usr/bin/promtool "$folder/"
    return 0
  fi
  echo "packages: unpacking prometheus" >&2
  work=$(mktemp -d)
  (cd "$work" && { apt-get -qq download prometheus 2>log || { apt_get -qq update && apt-get -qq download prometheus 2>log; }; } &&
    dpkg-deb -x prometheus_*.deb .) || status=$?
  if [ "$status" = 0 ]; then
    cp "$work/usr/bin/prometheus" "$work/usr/bin/promtool" "$folder/"
  else
    echo "krait: cannot fetch Debian's prometheus package:" >&2
    cat "$work/log" >&2
  fi
  rm -rf "$work"
  return "$status"
}
