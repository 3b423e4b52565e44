#!/bin/sh
# Builds the policy: build.sh [OUT.wasm]. Debian: apt-get install clang-19 lld-19.
set -eu
cd "$(dirname "$0")"
for cc in "${CC:-}" clang-19 clang; do
  [ -n "$cc" ] && command -v "$cc" >/dev/null && break
done
# -g keeps the lines that a trap happened in; without a libc, nothing may be
# called but what is written here.
exec "$cc" --target=wasm32 -std=c11 -O2 -g -Wall -Wextra -Werror -ffreestanding -fno-builtin -nostdlib -mbulk-memory \
  -Wl,--no-entry -Wl,-z,stack-size=65536 -o "${1:-dedicated.wasm}" dedicated.c
