#!/usr/bin/env bash
# Prints the tables of host/cmd/bench, all or those named: `bench.sh -h` lists
# them. `bench.sh console` prints those of the console. `bench.sh network` and
# `bench.sh pods` need root. ARGS are its own: -run NAME, -o json, -nodes N.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# The console's are taken by a browser.
if [ "${1:-}" = console ]; then
  exec .ci/tools/console.sh figures
fi

# Namespaces, their rules and containers are root's to make.
case " $* " in *" network "* | *" pods "*)
  [ "$(id -u)" = 0 ] || fail "network and pods make network namespaces, rules and containers, which needs root: run them as root"
  ;;
esac

.ci/tools/tinygo.sh
.ci/tools/wasm.sh
.ci/tools/etcd.sh
[ "$(id -u)" != 0 ] || .ci/tools/node.sh
compile() {
  CGO_ENABLED=0 go build "${STATIC[@]}" -ldflags "$STRIP" -o .build/ ./host/cmd/bench ./host/cmd/berth &&
    quickstart_image &&
    go test -c -o .build/engine.test ./host/policy/engine &&
    go test -c -o .build/ ./nodeagent/nft ./nodeagent/dns ./nodeagent/isolation ./nodeagent/network/cni
}
mkdir -p .build
timed "building the benchmarks" compile
exec .build/bench "$@"
