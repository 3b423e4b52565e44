#!/usr/bin/env bash
# Provides TinyGo: the one on PATH if it is new enough, else one built here from
# its Go module against Debian's LLVM.
#
# The module lacks TinyGo's submodules (wasi-libc, compiler-rt), so the wasm
# targets are pointed at Debian's builds of both, and lose two features that
# LLVM 19 does not know yet.
. "$(dirname "$0")/lib.sh"

MODULE=github.com/tinygo-org/tinygo
VERSION=v0.41.1
SUM=h1:Hp1Frc4zQALL88t49XraSZEwkIYEjMOmmurlmsTigzE=
WANT=0.41
LLVM=19
LIBC=/usr/lib/wasm32-wasi/libc.a
BUILTINS=/usr/lib/llvm-$LLVM/lib/clang/$LLVM/lib/wasi/libclang_rt.builtins-wasm32.a

# new_enough EXE: is it TinyGo of at least version WANT?
new_enough() {
  local v
  v=$("$1" version 2>/dev/null | sed -n 's/^tinygo version \([0-9.]*\).*/\1/p')
  [ -n "$v" ] && [ "$(printf '%s\n%s\n' "$WANT" "$v" | sort -V | head -1)" = "$WANT" ]
}

elsewhere() {
  local exe
  for exe in $(type -ap tinygo); do
    [ "$exe" != "$TOOLS/bin/tinygo" ] && new_enough "$exe" && return 0
  done
  return 1
}

build() {
  local dir=$TOOLS/tinygo.new src
  src=$(go mod download -json "$MODULE@$VERSION" | sed -n "s/^\t\"\(Dir\|Sum\)\": \"\(.*\)\",\{0,1\}$/\1 \2/p")
  grep -qF "Sum $SUM" <<<"$src" || fail "tinygo $VERSION has another checksum than $SUM: not used"
  rm -rf "$dir"
  cp -r "$(sed -n 's/^Dir //p' <<<"$src")" "$dir"
  chmod -R u+w "$dir"
  mkdir -p "$dir/src/net" # a submodule that the overlay of GOROOT expects
  for target in wasip1 wasm-unknown; do
    sed -i -e '/"libc":/d; /"rtlib":/d' \
      -e 's/+bulk-memory-opt,//; s/+call-indirect-overlong,//' \
      -e "s|\"--no-demangle\"|\"--no-demangle\", \"$LIBC\", \"$BUILTINS\"|" "$dir/targets/$target.json"
  done
  (cd "$dir" && GOFLAGS=-mod=mod go build -trimpath -tags "llvm$LLVM" -o bin/tinygo .) || return 1
  rm -rf "$TOOLS/tinygo"
  mv "$dir" "$TOOLS/tinygo"
  wrapper >"$TOOLS/bin/tinygo.new"
  chmod +x "$TOOLS/bin/tinygo.new"
  mv "$TOOLS/bin/tinygo.new" "$TOOLS/bin/tinygo"
}

# The wrapper finds its TINYGOROOT beside itself, so the folder may be moved.
wrapper() {
  cat <<'EOF'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export TINYGOROOT="$here/../tinygo"
exec "$TINYGOROOT/bin/tinygo" "$@"
EOF
}

if elsewhere; then exit 0; fi

locked tinygo
hash=$(hash_of "$0" "$(go env GOVERSION)")
if stamped tinygo "$hash" && new_enough "$TOOLS/bin/tinygo"; then exit 0; fi
packages "TinyGo $VERSION" "llvm-$LLVM-dev" "libclang-$LLVM-dev" "clang-$LLVM" "lld-$LLVM" \
  binaryen wasi-libc "libclang-rt-$LLVM-dev-wasm32" gcc g++
timed "building TinyGo $VERSION (once)" build
stamp tinygo "$hash"
