# Functions shared by ./agentpod and the scripts beside this file. The caller sets `root`, the directory that
# holds package.json, before it sources this file. Every start reads this file, so it starts no program.
# shellcheck shell=sh disable=SC2154

node_major=24
go_minor=19
podimage_go_minor=26
podimage_go=1.26.8
exit_precondition=6

# A clone has sources; an installed package has none and is always built. The package may belong to another
# user or lie on a read-only disk, so its downloads go to the user's cache directory.
if [ -d "$root/src" ]; then
  is_clone=yes
  cache=$root/.cache
else
  is_clone=
  cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}/agentpod
fi

say() {
  printf 'agentpod: %s\n' "$*" >&2
}

fail() {
  say "$@"
  exit "$exit_precondition"
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# Runs a function while no other set-up or build uses the same directory. The function's children do not
# inherit the descriptor: a service that a package's installation starts, or our server, would otherwise hold
# the lock for its life.
locked() {
  mkdir -p "$cache" 2>/dev/null || fail "cannot write in $cache; run it once as its owner"
  (
    flock -n 9 || {
      say 'waiting for another set-up or build of this directory'
      flock 9
    }
    "$@" 9>&-
  ) 9>"$cache/lock"
}

# Directories count too: their time changes when a file in them is added or removed.
is_built() {
  [ -f "$root/dist/cli.js" ] || return 1
  [ "$is_clone" ] || return 0
  [ -f "$root/dist/.stamp" ] || return 1
  [ -z "$(find "$root/src" "$root/native" "$root/package.json" "$root/package-lock.json" "$root/scripts/build" \
    -newer "$root/dist/.stamp" -print -quit 2>/dev/null)" ]
}

# Sets `node` to the recorded interpreter. Asking a binary for its version costs more than all the rest of a
# start, so the choice is made once; after that only its existence is checked.
# SECURITY: the recorded program is run, so a record in the cache counts only if it belongs to this user. HOME
# may still be another user's after sudo.
has_node() {
  node=
  if [ -f "$root/.cache/node-path" ]; then
    read -r node <"$root/.cache/node-path"
  elif [ -O "$cache/node-path" ]; then
    read -r node <"$cache/node-path"
  fi
  [ -n "$node" ] && [ -x "$node" ]
}

# The path comes from the running binary because PATH's entry may be a version manager's shim, which answers
# differently in another directory.
find_recent_node() {
  node=$("$1" -p "parseInt(process.versions.node) >= $node_major ? process.execPath : ''" 2>/dev/null) && [ -n "$node" ]
}

record_node() {
  mkdir -p "$cache"
  printf '%s\n' "$node" >"$cache/node-path.new"
  mv -f "$cache/node-path.new" "$cache/node-path"
}

# Puts the chosen Node first for the children of this script. A directory that already answers is left where
# it is: moving /usr/bin to the front could change which other programs are found.
use_node() {
  has_node || fail "no Node is chosen yet; run scripts/setup"
  [ "$(command -v node)" = "$node" ] || PATH=${node%/*}:$PATH
  export PATH
}

is_recent_go() {
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  version=${version#go1.}
  version=${version%%[!0-9]*}
  [ -n "$version" ] && [ "$version" -ge "$go_minor" ]
}

# Makes `go` on PATH one that can build native/. Go's own installer leaves its directory off PATH.
use_go() {
  if has go && is_recent_go go; then return 0; fi
  if is_recent_go /usr/local/go/bin/go; then
    PATH=/usr/local/go/bin:$PATH
    export PATH
    return 0
  fi
  return 1
}

# Sets `newer_go` to a Go that can build podimage: the one on PATH, or a toolchain that Go itself fetches as a
# module, with its checksum, into Go's own cache.
use_newer_go() {
  use_go || return 1
  newer_go=go
  version=$(go env GOVERSION)
  version=${version#go1.}
  version=${version%%[!0-9]*}
  [ "$version" -lt "$podimage_go_minor" ] || return 0
  case $(uname -m) in
    x86_64) processor=amd64 ;;
    aarch64) processor=arm64 ;;
    *) return 1 ;;
  esac
  say "fetching Go $podimage_go for podimage"
  found=$(cd / && go mod download -json "golang.org/toolchain@v0.0.1-go$podimage_go.linux-$processor" 2>/dev/null) || return 1
  directory=$(printf '%s\n' "$found" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  [ -x "$directory/bin/go" ] || chmod -R u+w,+x "$directory/bin" "$directory/pkg/tool" 2>/dev/null || return 1
  newer_go=$directory/bin/go
}
