#!/bin/sh
# Builds the policy: build.sh [OUT.wasm]. Debian: apt-get install wabt.
set -eu
out=$(realpath -m "${1:-headroom.wasm}")
cd "$(dirname "$0")"
wat2wasm --debug-names -o "$out" headroom.wat
