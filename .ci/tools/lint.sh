#!/usr/bin/env bash
# gofmt, go vet, the import rules, shell syntax; golangci-lint where installed.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

formatted() {
  local bad
  bad=$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l)
  [ -z "$bad" ] || { printf 'not gofmt-ed:\n%s\n' "$bad" >&2; return 1; }
}
shells() {
  local f
  for f in task .ci/run .ci/tools/*.sh; do bash -n "$f" || return 1; done
}

timed "shell syntax" shells
timed "gofmt" formatted
# With -race, to use what the tests have compiled already.
timed "go vet ./..." go vet -race ./...
timed "import rules" go test -count=1 ./host/deptest
if command -v golangci-lint >/dev/null; then
  timed "golangci-lint" golangci-lint run
else
  say "golangci-lint is not installed: its checks are left out"
fi
