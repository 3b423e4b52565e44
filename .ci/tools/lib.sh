# Shared by ./task and the set-up steps: where tools live, how a step says what
# it does, and how it finds out that there is nothing to do.
#
# Tools are kept outside the repository, so that every clone on a machine
# shares them:
#
#   $BERTH_TOOLS, or ${XDG_CACHE_HOME:-~/.cache}/berth/tools
#     bin/          everything that is run: task, tinygo, kubectl, containerd, ...
#     cni/          the CNI plugins
#     tinygo/       TINYGOROOT (bin/tinygo is a wrapper that sets it)
#     stamps/NAME   the hash of what the step NAME was built from

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TOOLS=${BERTH_TOOLS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/berth/tools}
export BERTH_TOOLS=$TOOLS
export PATH="$TOOLS/bin:$PATH:/usr/local/go/bin:/usr/sbin:/sbin"

# How the programs that users run are built: static, without debug information,
# which nothing reads (stack traces come from Go's own tables), and without the
# path of this folder. What several of them import is then compiled once, as long
# as they are built one after the other.
STATIC=(-trimpath -gcflags=all=-dwarf=false)
STRIP="-s -w"

say()  { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
fail() { printf 'berth: %s\n' "$*" >&2; exit 1; }

# timed WHAT CMD...: runs CMD and prints one line: what it is, and how long it
# took. What CMD prints stands in between, without Go's list of downloads.
timed() {
  local what=$1 start=$SECONDS said
  shift
  said=$(mktemp)
  printf '\033[1m==>\033[0m %s ... ' "$what" >&2
  quietly "$said" "$@" || again "$what" quietly "$said" "$@" ||
    { rm -f "$said"; fail "$what: did not work (the lines above say why)"; }
  if [ -s "$said" ]; then say "$what: $((SECONDS - start)) s"; else printf '%d s\n' $((SECONDS - start)) >&2; fi
  rm -f "$said"
}

# quickstart_image writes the quickstart's program and image into .build, since a
# fresh machine may have no registry.
quickstart_image() {
  mkdir -p .build
  CGO_ENABLED=0 go build "${STATIC[@]}" -ldflags "$STRIP" -o .build/web ./examples/quickstart/web &&
    CGO_ENABLED=0 go run "${STATIC[@]}" -ldflags "$STRIP" ./examples/quickstart/image -program .build/web -name berth.local/web:1 -o .build/quickstart.tar
}

# quietly SAID CMD...: runs CMD without Go's list of downloads. SAID is not empty
# afterwards if CMD printed something else.
quietly() {
  local said=$1
  shift
  "$@" 2>&1 | awk -v said="$said" '
    /^go: downloading / { next }
    !told++ { print ""; print "" >said; close(said) }
    { print; fflush() }' >&2
}

# again WHAT CMD...: in CI, what builds is tried a second time and a third: it
# downloads what it builds from, and a mirror may be away for a moment.
again() {
  local what=$1 try
  shift
  [ -n "${CI:-}" ] && [[ $what == building* ]] || return 1
  for try in 1 2; do
    say "$what: once more in $((15 * try)) s"
    sleep $((15 * try))
    "$@" && return
  done
  return 1
}

# hash_of FILE|STRING...: one hash over the contents of files and over strings.
hash_of() {
  local x
  for x in "$@"; do
    if [ -f "$x" ]; then cat "$x"; else printf '%s\n' "$x"; fi
  done | sha256sum | cut -c1-16
}

# outputs NAME: the files that the step NAME leaves. Scripts are part of what
# their steps' hashes are over, so this stands here, where it costs no rebuild.
outputs() {
  case $1 in
  node) printf '%s\n' "$TOOLS"/bin/{containerd,containerd-shim-runc-v2,runc} "$TOOLS"/cni/{bridge,loopback,host-local} ;;
  tinygo) printf '%s\n' "$TOOLS/bin/tinygo" "$TOOLS/tinygo/bin/tinygo" ;;
  etcd) printf '%s\n' "$TOOLS/bin/etcd" "$TOOLS/bin/etcdload" ;;
  *) printf '%s\n' "$TOOLS/bin/$1" ;;
  esac
}

# whole NAME: are they there?
whole() {
  local f
  while IFS= read -r f; do
    [ -s "$f" ] || { printf 'berth: %s is missing\n' "$f" >&2; return 1; }
  done < <(outputs "$1")
}

# stamped NAME HASH: was it built from this, and is it whole? If not, the stamp
# goes: a build that is cut short must not pass for the former one.
stamped() {
  [ "$(cat "$TOOLS/stamps/$1" 2>/dev/null)" = "$2" ] && whole "$1" && return
  rm -f "$TOOLS/stamps/$1"
  return 1
}

stamp() {
  whole "$1" || fail "$1 was not built, though it seemed to be (the lines above may say why)"
  mkdir -p "$TOOLS/stamps"
  printf '%s\n' "$2" >"$TOOLS/stamps/$1"
}

# slots MORE: how much may be done at a time: MORE than there are processors,
# since not all that runs is busy, but only what memory suffices for.
slots() {
  local processors memory
  processors=$(($(nproc) + $1))
  memory=$(awk '/^MemAvailable:/ { print int($2 / 2097152) }' /proc/meminfo 2>/dev/null || echo 1)
  memory=$((memory > 1 ? memory : 1))
  echo $((processors < memory ? processors : memory))
}

# fetch FOLDER ARG...: downloads the modules that these packages (and flags of go
# list) need, and tries again: a mirror may be away for a moment.
fetch() {
  local dir=$1 try
  shift
  for try in 1 2 3; do
    go -C "$dir" list -deps "$@" >/dev/null && return 0
    [ $try = 3 ] || { say "a download failed: once more in $((15 * try)) s"; sleep $((15 * try)); }
  done
  return 1
}

# locked NAME: one set-up at a time per tool, also between clones.
locked() {
  mkdir -p "$TOOLS/bin" "$TOOLS/stamps"
  exec 8>"$TOOLS/stamps/$1.lock"
  flock 8
}

# packages WHY NAME...: has the Debian packages NAME installed. It installs as
# root only what is missing, and says before what that is.
packages() {
  local why=$1 missing=() p
  shift
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || fail "$why needs ${missing[*]}: install them with this system's package manager"
  [ "$(id -u)" = 0 ] || fail "$why needs Debian packages: run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
  timed "installing for $why: ${missing[*]}" apt_install "${missing[@]}"
}

apt_install() {
  local known=1 p
  for p in "$@"; do
    apt-cache show "$p" >/dev/null 2>&1 || known=0
  done
  if [ $known = 0 ] || [ ! -e "$TOOLS/stamps/apt-updated" ]; then
    apt_get update
    mkdir -p "$TOOLS/stamps" && touch "$TOOLS/stamps/apt-updated"
  fi
  # A list from some time ago may name what the mirror has no more.
  apt_get install -y --no-install-recommends "$@" ||
    { apt_get update && apt_get install -y --no-install-recommends "$@"; }
}

apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=5 "$@" </dev/null >"$TOOLS/stamps/apt.log" 2>&1 ||
    { tail -n 20 "$TOOLS/stamps/apt.log" >&2; return 1; }
}
