#!/usr/bin/env bash
# The console's steps.
#
#   console.sh test     clicks through it by Debian's chromium, on a host with 500
#                       simulated nodes, and has axe-core look at each view
#   console.sh shots    makes pictures of each view, light, dark and on a narrow screen,
#                       in .build/console, and writes those of the docs anew
#   console.sh figures  prints what the topology costs a tab, with 5,000 nodes and 50,000
#                       pods, what ten tabs cost the host, and how 30,000 nodes open
#   console.sh vendor   writes host/console/web/vendor anew: what the pages are drawn
#                       with, from npm's registry, held against the integrity that
#                       stands here. The files are committed, so that a fresh clone
#                       builds without npm and without another registry than Go's.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# htm's standalone module is htm, preact and its hooks in one file that imports nothing.
URL=https://registry.npmjs.org/htm/-/htm-3.1.1.tgz
INTEGRITY=sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==

# axe-core finds what keeps people from using the pages; nothing of it is in them.
AXE=https://registry.npmjs.org/axe-core/-/axe-core-4.14.1.tgz
AXE_INTEGRITY=sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==

# npm URL INTEGRITY DIR FILE...: takes files out of a package of npm's registry.
npm() {
  local url=$1 integrity=$2 dir=$3 got
  shift 3
  curl -fsSL --retry 3 -o "$dir/package.tgz" "$url"
  got=sha512-$(openssl dgst -sha512 -binary "$dir/package.tgz" | base64 -w0)
  [ "$got" = "$integrity" ] || fail "$url is $got, and $integrity was wanted"
  tar -C "$dir" -xzf "$dir/package.tgz" "$@"
}

vendor() {
  local dir
  dir=$(mktemp -d)
  npm "$URL" "$INTEGRITY" "$dir" package/preact/standalone.module.js package/LICENSE
  mkdir -p host/console/web/vendor
  cp "$dir/package/preact/standalone.module.js" host/console/web/vendor/preact.js
  cp "$dir/package/LICENSE" host/console/web/vendor/LICENSE.txt
  rm -r "$dir"
  say "host/console/web/vendor is written"
}

# axe keeps axe-core among the tools, once.
axe() {
  local dir to=$TOOLS/share/${AXE##*/}.js
  if [ ! -s "$to" ]; then
    dir=$(mktemp -d)
    npm "$AXE" "$AXE_INTEGRITY" "$dir" package/axe.min.js
    mkdir -p "$TOOLS/share"
    mv "$dir/package/axe.min.js" "$to"
    rm -r "$dir"
  fi
  printf '%s\n' "$to"
}

browse() {
  command -v chromium >/dev/null || packages "the console's test" chromium
  .ci/tools/kubectl.sh
  .ci/tools/build.sh
  fetch .ci/tools/console -test ./...
  AXE=$(axe) BERTH=$ROOT/bin/berth go -C .ci/tools/console test -count=1 -timeout 30m "$@" ./...
}

case ${1:-} in
test) browse ;;
shots)
  mkdir -p .build/console
  SHOTS=$ROOT/.build/console browse -run 'TestConsole|TestLogsAndAShell|TestANewUsersWay'
  for view in topology decision topology-verdicts plan time logs; do cp ".build/console/$view-light.png" "docs/console-$view.png"; done
  chmod 644 docs/console-*.png
  say "the pictures lie in .build/console; those of the docs are written"
  ;;
figures) browse -tags figures -run 'TestFigures|TestTenTabs|TestManyNodes' -v ;;
vendor) vendor ;;
*) fail "console.sh test, shots, figures or vendor" ;;
esac
