#!/usr/bin/env bash
# Runs Kubernetes' own end-to-end suite against a cluster of this machine, with
# real containers: as root. Both the suite and the images that it needs are built
# from source, so no registry is asked. What fails is told at the end, and all of
# it stands in .build/conformance/report.
#
#   conformance.sh                          the conformance specs: hours
#   conformance.sh -focus='\[sig-apps\]'    those of them that match
#   conformance.sh -skip='Slow|CronJob'     but these
#   conformance.sh -all -focus=CronJob      of all specs, not of those of conformance alone
#   conformance.sh -nodes=2                 on two nodes, the second with namespaces of its own
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
[ "$(id -u)" = 0 ] || fail "containers need root: run it as root"

focus='.' skip='^$' nodes=1 of='.*\[Conformance\]'
for arg; do
  case $arg in
  -focus=*) focus=${arg#*=} ;;
  -skip=*) skip=${arg#*=} ;;
  -nodes=*) nodes=${arg#*=} ;;
  -all) of= ;;
  *) fail "unknown argument $arg: want -focus=REGEXP, -skip=REGEXP, -all or -nodes=NUMBER" ;;
  esac
done
[[ $nodes =~ ^[1-9]$ ]] || fail "-nodes=$nodes: want a number from 1 to 9"

DIR=$ROOT/.ci/tools/conformance
OUT=$ROOT/.build/conformance
mkdir -p "$OUT"

suite() {
  CGO_ENABLED=0 go -C "$DIR" test -trimpath -ldflags "$STRIP" -c -o "$TOOLS/bin/e2e.test" k8s.io/kubernetes/test/e2e &&
    CGO_ENABLED=0 go -C "$DIR" build -trimpath -ldflags "$STRIP" -o "$TOOLS/bin/agnhost" k8s.io/kubernetes/test/images/agnhost
}
images() {
  CGO_ENABLED=0 go -C "$DIR" build -trimpath -ldflags "$STRIP" -o "$OUT/nnp" k8s.io/kubernetes/test/images/nonewprivs || return
  CGO_ENABLED=0 go run ./.ci/tools/images -agnhost "$TOOLS/bin/agnhost" -nnp "$OUT/nnp" -busybox "$(command -v busybox)" -programs curl,dig,getent,nc \
    -porter "$(go -C "$DIR" list -m -f '{{.Dir}}' k8s.io/kubernetes)/test/images/agnhost/porter" -out "$OUT"
}

prepare() {
  locked e2e.test
  hash=$(hash_of "$DIR/go.mod" "$DIR/go.sum" "$(go env GOVERSION)")
  if ! stamped e2e.test "$hash" || ! whole agnhost; then
    timed "building Kubernetes' suite (once; a quarter of an hour)" suite
    stamp e2e.test "$hash"
  fi
  packages "the images of Kubernetes' suite" busybox-static curl bind9-dnsutils netcat-openbsd
  timed "building its images" images
  .ci/tools/wasm.sh
  .ci/tools/build.sh
  .ci/tools/node.sh
  .ci/tools/kubectl.sh
}

# Several nodes are on a network of their own, which is reached from inside alone.
if [ -z "${PREPARED:-}" ]; then
  prepare
  [ "$nodes" = 1 ] || PREPARED=yes exec unshare --net "$0" "$@"
fi

# A cluster of its own, which ends with this script. The suite's images are many
# for a small disk: none is removed for want of room.
data=$(mktemp -d)
agent=(--image-gc-high-threshold 100 --eviction-hard 'imagefs.available<1%,nodefs.available<1%')
for image in "$OUT"/*.tar; do agent+=(--import-image "$image"); done
exec 8>&- # what outlives this script must not hold its lock
export KUBECONFIG=$data/kubeconfig
started=() machines=()

# begin LOG READY CMD...: runs CMD until it says that it is ready.
begin() {
  local log=$1 ready=$2
  shift 2
  "$@" >"$log" 2>&1 &
  started+=($!)
  for _ in $(seq 120); do
    ! grep -q "^$ready" "$log" || return 0
    kill -0 $! 2>/dev/null || break
    sleep 1
  done
  fail "the cluster did not start: see $log"
}

# apart FLAGS...: makes namespaces; apart is the process that holds them.
apart() {
  unshare --net "$@" sleep infinity &
  apart=$!
  machines+=("$apart")
  until [ "$(readlink "/proc/$apart/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
}

# plug NAME PID: gives the network of a process eth0, on the bridge.
plug() {
  nsenter -t "$bridge" -n ip link add "to-$1" type veth peer name eth0 netns "$2"
  nsenter -t "$bridge" -n ip link set "to-$1" master machines up
}

# machine NAME ADDRESS: runs an agent in namespaces of its own, on the bridge.
machine() {
  apart --mount --uts
  local pid=$apart line
  plug "$1" "$pid"
  for line in "mount -t tmpfs run /run" "hostname $1" "ip link set lo up" "ip addr add $2/24 dev eth0" "ip link set eth0 up" "ip route add default via 10.98.0.1"; do
    nsenter -t "$pid" -m -n -u -- $line
  done
  begin "$OUT/$1.log" "node $1 is ready" nsenter -t "$pid" -m -n -u -- "$ROOT/bin/berth" agent --server https://10.98.0.1:6443 \
    --token-file "$data/join" --node-name "$1" --data-dir "$data/$1" --stop-pods "${agent[@]}"
}

# Containers outlive their host, so what a spec left goes first; then the agents, and
# last the host.
end() {
  set +e
  kubectl delete deployments,daemonsets,statefulsets,replicasets,replicationcontrollers,jobs,cronjobs --all -A --wait=false
  kubectl delete pods --all -A --grace-period=1 --timeout=1m
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    kill "${started[i]}"
    wait "${started[i]}"
  done
  [ ${#machines[@]} = 0 ] || kill "${machines[@]}"
  rm -rf "$data"
}
trap 'end >/dev/null 2>&1' EXIT

# The first node is the host's own machine, which thereby reaches pods. The bridge is in
# a network of its own, as a switch is: in that of a node, the node's rules would be
# asked about all that passes it.
listen=127.0.0.1:17443
if [ "$nodes" -gt 1 ]; then
  listen=10.98.0.1:6443
  apart
  bridge=$apart
  nsenter -t "$bridge" -n ip link add machines type bridge
  nsenter -t "$bridge" -n ip link set machines up
  plug host $$
  ip link set lo up
  ip addr add 10.98.0.1/24 dev eth0
  ip link set eth0 up
  sysctl -q -w net.ipv4.ip_forward=1
fi
begin "$OUT/berth.log" 'ready in' bin/berth up --agent containerd --data-dir "$data" --listen "$listen" "${agent[@]}"
[ "$nodes" = 1 ] || bin/berth token create >"$data/join"
for n in $(seq 2 "$nodes"); do machine "n$n" "10.98.0.$n"; done

say "running the suite: each spec is told when it ends; all of it goes to $OUT/e2e.log"
status=0
: >"$OUT/e2e.log" # for tail, which may come before the suite
"$TOOLS/bin/e2e.test" --kubeconfig "$KUBECONFIG" --provider=skeleton --report-dir="$OUT/report" --num-nodes="$nodes" --allowed-not-ready-nodes=1 \
  --ginkgo.focus="($focus)$of" --ginkgo.skip="$skip" --ginkgo.no-color --ginkgo.v --ginkgo.timeout=8h >"$OUT/e2e.log" 2>&1 &
suite=$!
tail --pid="$suite" -f "$OUT/e2e.log" | grep --line-buffered -E '^• |^Will run|^(Ran|PASS|FAIL)' || true
wait "$suite" || status=$?
sed -n '/^Summarizing/,$p' "$OUT/e2e.log"
exit "$status"
