#!/usr/bin/env bash
# The console's steps.
#
#   console.sh test     clicks through it by Debian's chromium, on a host with 500
#                       simulated nodes
#   console.sh shots    makes pictures of each view, light, dark and on a narrow screen,
#                       in .build/console, and writes those of the docs anew
#   console.sh figures  prints what the topology costs a tab, with 5,000 nodes and 50,000
#                       pods
#   console.sh vendor   writes host/console/web/vendor anew: what the pages are drawn
#                       with, from npm's registry, held against the integrity that
#                       stands here. The files are committed, so that a fresh clone
#                       builds without npm and without another registry than Go's.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# htm's standalone module is htm, preact and its hooks in one file that imports nothing.
URL=https://registry.npmjs.org/htm/-/htm-3.1.1.tgz
INTEGRITY=sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==

vendor() {
  local dir got
  dir=$(mktemp -d)
  curl -fsSL --retry 3 -o "$dir/htm.tgz" "$URL"
  got=sha512-$(openssl dgst -sha512 -binary "$dir/htm.tgz" | base64 -w0)
  [ "$got" = "$INTEGRITY" ] || fail "$URL is $got, and $INTEGRITY was wanted"
  tar -C "$dir" -xzf "$dir/htm.tgz" package/preact/standalone.module.js package/LICENSE
  mkdir -p host/console/web/vendor
  cp "$dir/package/preact/standalone.module.js" host/console/web/vendor/preact.js
  cp "$dir/package/LICENSE" host/console/web/vendor/LICENSE.txt
  rm -r "$dir"
  say "host/console/web/vendor is written"
}

browse() {
  command -v chromium >/dev/null || packages "the console's test" chromium
  .ci/tools/kubectl.sh
  .ci/tools/build.sh
  fetch .ci/tools/console -test ./...
  BERTH=$ROOT/bin/berth go -C .ci/tools/console test -count=1 -timeout 30m "$@" ./...
}

case ${1:-} in
test) browse ;;
shots)
  mkdir -p .build/console
  SHOTS=$ROOT/.build/console browse -run TestConsole
  for view in topology decision; do cp ".build/console/$view-light.png" "docs/console-$view.png"; done
  chmod 644 docs/console-*.png
  say "the pictures lie in .build/console; those of the docs are written"
  ;;
figures) browse -tags figures -run TestFigures -v ;;
vendor) vendor ;;
*) fail "console.sh test, shots, figures or vendor" ;;
esac
