package walk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const privilegedPod = `apiVersion: v1
kind: Pod
metadata: {name: strong}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: berth.test/busybox:1
    command: [sh, -c, "mkdir /m && mount -t tmpfs none /m && echo mounted"]
    securityContext: {privileged: true}
`

// testPrivileged: a pod may do what its namespace's labels let it.
func (c *cluster) testPrivileged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(privilegedPod), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must(t, c.kubectl, "create", "namespace", "strict")
	c.must(t, c.kubectl, "label", "namespace", "strict", "pod-security.kubernetes.io/enforce=baseline")
	if _, said, err := c.try(c.kubectl, "apply", "-n", "strict", "-f", file); err == nil || !strings.Contains(said, `violates PodSecurity "baseline:latest": privileged`) {
		t.Errorf("where the baseline is enforced: %v, %s", err, said)
	}
	c.must(t, c.kubectl, "label", "--overwrite", "namespace", "strict", "pod-security.kubernetes.io/enforce=privileged", "pod-security.kubernetes.io/warn=baseline")
	_, said, err := c.try(c.kubectl, "apply", "-n", "strict", "-f", file)
	if err != nil || !strings.Contains(said, `Warning: would violate PodSecurity "baseline:latest": privileged`) {
		t.Errorf("where it is warned of: %v, %s", err, said)
	}
	c.must(t, c.kubectl, "wait", "-n", "strict", "--for=jsonpath={.status.phase}=Succeeded", "pod/strong", "--timeout=2m")
	if got := c.must(t, c.kubectl, "logs", "-n", "strict", "strong"); strings.TrimSpace(got) != "mounted" {
		t.Errorf("the pod said %q", got)
	}
	c.must(t, c.kubectl, "delete", "namespace", "strict")
}
