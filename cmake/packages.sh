# Sourced by quickstart and run-tests: the Debian packages, and how to get them.

build_packages=(gcc libc6-dev cmake ninja-build pkg-config libmicrohttpd-dev libjansson-dev
  libcurl4-openssl-dev libssl-dev libwebsockets-dev libwebsockets-evlib-ev libev-dev
  python3 python3-yaml)
test_packages=(libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev python3 curl
  nodejs)

# Installs what is missing; asks for root only then.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed$' ||
      missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "These packages are needed: ${missing[*]}. Install them as root, or install sudo." >&2
      return 1
    }
    root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  quietly "${root[@]}" apt-get update -q
  quietly "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Runs a command; what it says is shown only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
    echo "failed: $*" >&2
  fi
  rm -f "$log"
  return "$status"
}
