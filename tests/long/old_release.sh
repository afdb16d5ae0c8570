# shellcheck shell=bash
# Sourced: builds earlier releases from git.

# The release before this one, from which an upgrade is promised.
release_before=1.0.0

# commit_of VERSION: prints the commit of an earlier release.
commit_of() {
  case "$1" in
  0.9.0) echo 8b75fedd8fd090ec7ada916763f03789fd05a4b9 ;; # The first one with feature levels.
  1.0.0) echo 90925583da4cc5c63322c9219153cc43c397d1b5 ;;
  *)
    echo "Release $1 is not known here: 0.9.0 or 1.0.0" >&2
    return 1
    ;;
  esac
}

# has_release VERSION: its commit is in the history; says so if not.
has_release() {
  local commit
  commit=$(commit_of "$1") || return 1
  if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "Commit $commit (release $1) is not in the history of this directory." \
      "Run this in a full clone (git fetch --unshallow)." >&2
    return 1
  fi
}

# build_old_release VERSION DIRECTORY: DIRECTORY/build/cli/zabra is the program of that release, from then on.
build_old_release() {
  local commit
  has_release "$1" || return 1
  commit=$(commit_of "$1")
  [ "$(cat "$2/commit" 2>/dev/null)" != "$commit" ] || return 0
  rm -rf "$2"
  mkdir -p "$2/tree"
  git archive "$commit" | tar -x -C "$2/tree"
  # A later compiler, or other flags, may have other warnings.
  quietly cmake -S "$2/tree" -B "$2/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DZABRA_WERROR=OFF
  quietly cmake --build "$2/build" --target zabra
  echo "$commit" >"$2/commit"
}
