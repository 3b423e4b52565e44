#!/usr/bin/env bash
# Draws the README's picture anew: runs a host with simulated nodes, types the
# commands below, keeps what they print in docs/explain.txt, and draws that as
# docs/explain.svg. Run it when what the commands print has changed.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

PORT=${PORT:-26444}
dir=$(mktemp -d)
trap 'kill -INT "$host" 2>/dev/null; wait "$host" 2>/dev/null; rm -rf "$dir"' EXIT

[ -x bin/berth ] || .ci/tools/build.sh
PATH=$ROOT/bin:$PATH
export KUBECONFIG=$dir/kubeconfig
bin/berth up --agent none --simulate 3 --data-dir "$dir" --listen "127.0.0.1:$PORT" >"$dir/log" 2>&1 &
host=$!
until grep -q '^ready in' "$dir/log"; do
  kill -0 "$host" 2>/dev/null || { cat "$dir/log" >&2; fail "the host ended"; }
  sleep 0.2
done

# Modules are built before, so that the session shows the swap and not the build.
for policy in gpu-only hot-swap/v1 hot-swap/v2; do
  bin/berth policy build "examples/$policy" -o /dev/null >/dev/null
done

# typed COMMAND: shows it as typed, and what it prints.
typed() {
  printf '$ %s\n' "$1"
  bash -o pipefail -c "$1" 2>&1 || fail "$1 failed"
}

session() {
  typed "kubectl label node sim-0 accelerator=a100"
  typed "berth policy push gpu-only examples/gpu-only | tail -1"
  typed "kubectl run web --image=example.test/web:1"
  kubectl wait --for=condition=Ready pod/web >/dev/null
  typed "berth explain pod web"
  printf '\n'
  typed "berth policy push fill examples/hot-swap/v1 | tail -1"
  typed "berth policy push fill examples/hot-swap/v2 | tail -2"
  typed "berth policy rollback fill"
}

session >docs/explain.txt
go run ./.ci/tools/termsvg -title "berth explain shows why a pod is where it is; a policy is pushed, swapped and rolled back" <docs/explain.txt >docs/explain.svg
say "docs/explain.txt and docs/explain.svg are written"
