#!/usr/bin/env bash
# Compiles the bundles in policies-wasm/modules into policies-wasm/bundle/wasm,
# where the binary embeds them: by TinyGo where there is one, else by stock Go.
# The same sources serve both.
#
#   wasm.sh            by the best compiler that is there
#   wasm.sh --stock    into .build/wasm-go, by stock Go
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

compiler=go out=policies-wasm/bundle/wasm
command -v tinygo >/dev/null && compiler=tinygo
[ "${1:-}" = --stock ] && compiler=go out=.build/wasm-go

by_tinygo() {
  tinygo build -target=wasip1 -buildmode=c-shared -gc=precise -opt=2 -scheduler=none \
    -no-debug -panic=trap -o "$2" "$1"
}
by_go() { GOOS=wasip1 GOARCH=wasm go build -trimpath -buildmode=c-shared -ldflags '-s -w' -o "$2" "$1"; }

# shared: compiles what the modules have in common. Go commands that run at the
# same time would each do it.
shared() {
  [ "$compiler" = go ] || return 0
  export GOOS=wasip1 GOARCH=wasm
  # shellcheck disable=SC2046 # one word a package
  go build -trimpath $(go list -deps -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' "${modules[@]/#/./}")
}

compile() {
  mkdir -p "$out"
  "by_$compiler" "./$1" "$ROOT/$2.tmp" && mv "$2.tmp" "$2"
}

sources() { find abi sdk policies-wasm go.mod go.sum -type f ! -name '*_test.go' \( -name '*.go' -o -name 'go.*' \) 2>/dev/null | LC_ALL=C sort; }

shopt -s nullglob
modules=(policies-wasm/modules/*/)
[ ${#modules[@]} -gt 0 ] || exit 0
hash=$(hash_of "$0" $(sources) "$compiler" "$($compiler version)")
stale=()
for dir in "${modules[@]}"; do
  dir=${dir%/} wasm=$out/$(basename "$dir").wasm
  [ -s "$wasm" ] && [ "$(cat "$wasm.from" 2>/dev/null)" = "$hash" ] || stale+=("$dir" "$wasm")
done
[ ${#stale[@]} -gt 0 ] || exit 0

# one DIR WASM
one() {
  compile "$1" "$2" && printf '%s\n' "$hash" >"$2.from"
}
all() { (shared) && printf '%s\0' "${stale[@]}" | xargs -0 -n 2 -P "$(slots 0)" bash -ec 'one "$@"' one; }

export -f one compile by_tinygo by_go
export compiler out hash ROOT
timed "compiling the policies in $((${#stale[@]} / 2)) modules by $compiler" all
