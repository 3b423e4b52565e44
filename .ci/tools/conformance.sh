#!/usr/bin/env bash
# Runs Kubernetes' own end-to-end suite against a cluster of this machine, with
# real containers: as root. Both the suite and the images that it needs are built
# from source, so no registry is asked. What fails is told at the end, and all of
# it stands in .build/conformance/report.
#
#   conformance.sh                          the conformance specs: hours
#   conformance.sh -focus='\[sig-apps\]'    those of them that match
#   conformance.sh -skip='Slow|CronJob'     but these
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
[ "$(id -u)" = 0 ] || fail "containers need root: run it as root"

focus='.' skip='^$'
for arg; do
  case $arg in
  -focus=*) focus=${arg#*=} ;;
  -skip=*) skip=${arg#*=} ;;
  *) fail "unknown argument $arg: want -focus=REGEXP or -skip=REGEXP" ;;
  esac
done

DIR=$ROOT/.ci/tools/conformance
OUT=$ROOT/.build/conformance
mkdir -p "$OUT"

suite() {
  CGO_ENABLED=0 go -C "$DIR" test -trimpath -ldflags "$STRIP" -c -o "$TOOLS/bin/e2e.test" k8s.io/kubernetes/test/e2e &&
    CGO_ENABLED=0 go -C "$DIR" build -trimpath -ldflags "$STRIP" -o "$TOOLS/bin/agnhost" k8s.io/kubernetes/test/images/agnhost
}
images() {
  CGO_ENABLED=0 go run ./.ci/tools/images -agnhost "$TOOLS/bin/agnhost" -busybox "$(command -v busybox)" -programs curl,dig,getent,nc \
    -porter "$(go -C "$DIR" list -m -f '{{.Dir}}' k8s.io/kubernetes)/test/images/agnhost/porter" -out "$OUT"
}

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

# A cluster of its own, which ends with this script. The suite's images are many
# for a small disk: none is removed for want of room.
data=$(mktemp -d)
imports=()
for image in "$OUT"/*.tar; do imports+=(--import-image "$image"); done
exec 8>&- # what outlives this script must not hold its lock
bin/berth up --agent containerd --data-dir "$data" --listen 127.0.0.1:17443 --image-gc-high-threshold 100 \
  --eviction-hard 'imagefs.available<1%,nodefs.available<1%' "${imports[@]}" >"$OUT/berth.log" 2>&1 &
berth=$!
export KUBECONFIG=$data/kubeconfig

# Containers outlive their host, so what a spec left goes first.
end() {
  kubectl delete deployments,daemonsets,statefulsets,replicasets,replicationcontrollers,jobs,cronjobs --all -A --wait=false
  kubectl delete pods --all -A --grace-period=1 --timeout=1m
  kill "$berth"
  wait "$berth"
  rm -rf "$data"
}
trap 'end >/dev/null 2>&1' EXIT
for _ in $(seq 120); do
  grep -q '^ready in' "$OUT/berth.log" && break
  kill -0 "$berth" 2>/dev/null || fail "the cluster did not start: see $OUT/berth.log"
  sleep 1
done

say "running the suite: each spec is told when it ends; all of it goes to $OUT/e2e.log"
status=0
"$TOOLS/bin/e2e.test" --kubeconfig "$KUBECONFIG" --provider=skeleton --report-dir="$OUT/report" --num-nodes=1 --allowed-not-ready-nodes=1 \
  --ginkgo.focus="($focus).*\[Conformance\]" --ginkgo.skip="$skip" --ginkgo.no-color --ginkgo.v --ginkgo.timeout=8h >"$OUT/e2e.log" 2>&1 &
suite=$!
tail --pid="$suite" -f "$OUT/e2e.log" | grep --line-buffered -E '^• |^Will run|^(Ran|PASS|FAIL)' || true
wait "$suite" || status=$?
sed -n '/^Summarizing/,$p' "$OUT/e2e.log"
exit "$status"
