#!/bin/sh
# Builds the policy: build.sh [OUT.wasm]. Debian: apt-get install clang-19 lld-19.
set -eu
out=$(realpath -m "${1:-dedicated.wasm}")
cd "$(dirname "$0")"
for cc in "${CC:-}" clang-19 clang; do
  [ -n "$cc" ] && command -v "$cc" >/dev/null && break
done
object=$(mktemp)
trap 'rm -f "$object"' EXIT
# -g keeps the lines that a trap happened in; without a libc, nothing may be
# called but what is written here. clang would run binaryen's wasm-opt after the
# linker where there is one, which drops names and lines: so the linker is called
# by itself.
"$cc" --target=wasm32 -std=c11 -O2 -g -Wall -Wextra -Werror -ffreestanding -fno-builtin -mbulk-memory -c -o "$object" dedicated.c
"$("$cc" -print-prog-name=wasm-ld)" --no-entry -z stack-size=65536 -o "$out" "$object"
