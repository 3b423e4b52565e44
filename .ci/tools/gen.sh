#!/usr/bin/env bash
# Writes the generated code again.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

if grep -rqs --include='*.go' '^//go:generate.*flatc' abi; then
  command -v flatc >/dev/null || packages "the schema's compiler" flatbuffers-compiler
fi
timed "go generate ./..." go generate ./...
