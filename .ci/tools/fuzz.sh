#!/usr/bin/env bash
# Runs each fuzz target for a while: fuzz.sh [TIME], 10s if not told.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

time=${1:-10s}
targets=$(grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]*' . | sed 's|^\./||; s|/[^/]*:[0-9]*:func |\t|' | sort -u)
total=$(grep -c . <<<"$targets" || true) n=0
say "fuzzing $total targets for $time each"
while IFS=$'\t' read -r dir name; do
  [ -n "$dir" ] || continue
  n=$((n + 1))
  timed "[$n/$total] $name in $dir" \
    go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -parallel 2 "./$dir" </dev/null
done <<<"$targets"
