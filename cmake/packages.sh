# Sourced by quickstart and run-tests: the Debian packages, and how to get them.

build_packages=(gcc libc6-dev cmake ninja-build pkg-config libmicrohttpd-dev libjansson-dev
  libcurl4-openssl-dev libssl-dev libwebsockets-dev libwebsockets-evlib-ev libev-dev libedit-dev
  python3 python3-yaml nodejs)
test_packages=(libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev lld python3
  curl jq chromium-headless-shell zsh fish
  systemd iproute2 python3-kazoo)
# What only tests/long/native needs.
native_packages=(python3-kazoo python3-pytest python3-mock python3-objgraph zookeeper
  default-jdk-headless libslf4j-java libcurator-recipes-java libzookeeper-mt-dev)
# What only tests/long/clickhouse needs: the libraries of clickhouse-server, which is not installed.
clickhouse_packages=(python3-kazoo zookeeper default-jre-headless libslf4j-java clickhouse-common)
command -v npm >/dev/null || build_packages+=(npm) # It brings hundreds of others along.

# Installs what is missing; asks for root only then.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed$' ||
      missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    echo "These packages are needed: ${missing[*]}. Install them as root, or install sudo." >&2
    return 1
  fi
  echo "Installing ${missing[*]}"
  quietly as_root apt-get update -q
  quietly as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# take_program DIR PACKAGE PATH: puts a program into DIR, out of a package of Debian. The package is
# not installed: it would start a server.
take_program() {
  [ ! -x "$1/${3##*/}" ] || return 0
  mkdir -p "$1"
  (
    cd "$1" || exit 1
    apt-get download -q "$2" >/dev/null 2>&1 || {
      quietly as_root apt-get update -q
      quietly apt-get download -q "$2"
    }
    dpkg-deb --fsys-tarfile "$2"_*.deb | tar -x --strip-components=3 ".$3"
    rm -f "$2"_*.deb
  )
}

# take_promtool DIR: puts the checker of alert rules into DIR.
take_promtool() {
  take_program "$1" prometheus /usr/bin/promtool
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
