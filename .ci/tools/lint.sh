#!/usr/bin/env bash
# gofmt, no large files, go mod tidy, go vet, the import rules, sizes, shell syntax, golangci-lint.
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

# What is built is not kept here: nothing that is written by hand is so large.
small() {
  local big
  big=$(git ls-files -z | xargs -0 stat -c '%s bytes %n' | awk '$1 > 1048576') || return 1
  [ -z "$big" ] || { printf 'larger than 1 MiB:\n%s\n' "$big" >&2; return 1; }
}

# The suites of others, which ./task campaign runs, are modules of their own.
SUITES=$(git ls-files '*/go.mod' | grep -v '^\.ci/')
tidy() {
  local mod
  for mod in go.mod $SUITES; do
    go -C "$(dirname "$mod")" mod tidy -diff || return 1
  done
}
suites() {
  local mod
  for mod in $SUITES; do
    go -C "$(dirname "$mod")" vet ./... || return 1
  done
}

# The files of the SDK and the contract that only guests are built from.
guests() {
  GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 "$TOOLS/bin/golangci-lint" run --tests=false $(go list -f "{{.Dir}}" ./sdk/... ./abi/... | grep -v /policytest)
}

timed "shell syntax" shells
timed "gofmt" formatted
timed "no large files" small
timed "go mod tidy, the suites of others too" tidy
# With -race, to use what the tests have compiled already.
timed "go vet ./..." go vet -race ./...
timed "go vet in the suites of others" suites
timed "import rules, words, sizes of types and functions" go test -count=1 ./host/deptest
.ci/tools/golangci-lint.sh
timed "golangci-lint" "$TOOLS/bin/golangci-lint" run
timed "golangci-lint, as guests are built" guests
