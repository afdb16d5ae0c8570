# shellcheck shell=bash
# Sourced: builds release 0.9.0 from git, the first one with feature levels.

old_release=8b75fedd8fd090ec7ada916763f03789fd05a4b9 # "Version 0.9.0"

# build_old_release DIRECTORY: DIRECTORY/build/cli/zabra is the program of that release, from then on.
build_old_release() {
  if ! git cat-file -e "$old_release^{commit}" 2>/dev/null; then
    echo "Commit $old_release (release 0.9.0) is not in the history of this directory." \
      "Run this in a full clone (git fetch --unshallow)." >&2
    return 1
  fi
  [ "$(cat "$1/commit" 2>/dev/null)" != "$old_release" ] || return 0
  rm -rf "$1"
  mkdir -p "$1/tree"
  git archive "$old_release" | tar -x -C "$1/tree"
  quietly cmake -S "$1/tree" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Release
  quietly cmake --build "$1/build" --target zabra
  echo "$old_release" >"$1/commit"
}
