#!/usr/bin/env bash
# Prints the tables of host/cmd/bench, all or those named: `bench.sh -h` lists
# them. `bench.sh console` prints those of the console. `bench.sh network` needs
# root. ARGS are its own: -run NAME, -o json, -nodes N.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# The console's are taken by a browser.
if [ "${1:-}" = console ]; then
  exec .ci/tools/console.sh figures
fi

# Namespaces and their rules are root's to make.
case " $* " in *" network "*)
  [ "$(id -u)" = 0 ] || fail "bench.sh network makes network namespaces and lays rules in them, which needs root: run it as root"
  ;;
esac

.ci/tools/tinygo.sh
.ci/tools/wasm.sh
.ci/tools/etcd.sh
compile() {
  CGO_ENABLED=0 go build "${STATIC[@]}" -ldflags "$STRIP" -o .build/ ./host/cmd/bench ./host/cmd/berth &&
    go test -c -o .build/engine.test ./host/policy/engine &&
    go test -c -o .build/ ./nodeagent/nft ./nodeagent/dns ./nodeagent/isolation
}
mkdir -p .build
timed "building the benchmarks" compile
exec .build/bench "$@"
