#!/usr/bin/env bash
# Runs each fuzz target for a while, one more at a time than there are processors,
# since some of them wait:
#
#   fuzz.sh [TIME [FOLDER...]]     10s, and all folders, if not told
#
# Each package is compiled once for all of its targets. What a target finds is
# kept by Go's cache, what breaks it in the package's testdata. Our own packages
# alone are instrumented, which guides the search; `go test -fuzz` would compile
# all of Kubernetes anew for it.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

time=${1:-10s}
shift || true
[ $# -gt 0 ] || set -- .
bins=$ROOT/.build/fuzz
corpus=$(go env GOCACHE)/fuzz/$(go list -m) # where go test -fuzz keeps it

targets=$(grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]*' "$@" | sed 's|^\./||; s|/[^/]*:[0-9]*:func | |' | sort -u)
[ -n "$targets" ] || fail "there is no fuzz target in $*"
packages=$(cut -d' ' -f1 <<<"$targets" | uniq)

bin_of() { printf '%s/%s\n' "$bins" "${1//\//_}"; }
instrument=$(go list -m)/...=-d=libfuzzer

# compile: what the packages share is compiled first, by one command; then as
# many are linked at a time as there are processors, without debug information,
# which is a third of a link.
compile() {
  mkdir -p "$bins"
  # shellcheck disable=SC2046 # one word a package
  go build -gcflags="$instrument" $(sed 's|^|./|' <<<"$packages") || return 1
  xargs -P "$(slots 0)" -L 1 bash -c 'link "$@"' link <<<"$packages"
}
link() { go test -c -ldflags='-s -w' -gcflags="$instrument" -o "$(bin_of "$1")" "./$1"; }

# over SAID: the time was over, and nothing was found. Until Go 1.27 a run that
# ends well can say so in these words (go.dev/issue/75804).
over() { grep -qx ' *context deadline exceeded' <<<"$1" && ! grep -q 'Failing input written\|panic:' <<<"$1"; }

# run DIR TARGET: tells in one line that it held, or all that it said.
run() {
  local said
  if said=$(cd "$1" && "$(bin_of "$1")" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" \
    -test.fuzzminimizetime 1s -test.parallel 1 -test.fuzzcachedir "$corpus/$1" </dev/null 2>&1) || over "$said"; then
    printf 'ok   %-45s %s\n' "$2 in $1" "$(grep -o 'execs: [0-9]*' <<<"$said" | tail -1)"
    return
  fi
  printf '%s\nFAIL %s in %s\n' "$said" "$2" "$1"
  return 1
}

all() { xargs -P "$(slots 1)" -L 1 bash -c 'run "$@"' run <<<"$targets"; }

export -f run bin_of over link
export bins corpus time instrument
timed "compiling $(wc -w <<<"$packages") packages for fuzzing" compile
timed "fuzzing $(wc -l <<<"$targets") targets for $time each" all
