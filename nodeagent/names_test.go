package nodeagent_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent"
)

// TestAgentAnswersNames: pods are told to ask the agent, which follows the
// cluster's services. A second agent cannot have the address, and goes without.
func TestAgentAnswersNames(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("port 53 is root's")
	}
	at := netip.MustParseAddr("127.96.0.10")
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil), change: answersAt(at)}
	m.start()
	t.Cleanup(func() { m.stop() })
	second := &machine{t: t, fakes: newFakes(t.TempDir(), nil), change: answersAt(at)}
	second.start()
	t.Cleanup(func() { second.stop() })

	services := m.api.CoreV1().Services("default")
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}}}
	if _, err := services.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitName(at, dns.RcodeSuccess)
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitName(at, dns.RcodeNameError)

	for _, of := range []struct {
		*machine
		its bool
	}{{m, true}, {second, false}} {
		p := newPod("web", "sleep 600")
		p.Spec.DNSPolicy = v1.DNSClusterFirst
		of.create(p)
		of.await("web", "ready", ready)
		text, err := os.ReadFile(filepath.Join(of.root, "pods", "uid-web", "etc", "resolv.conf"))
		if has := strings.Contains(string(text), "nameserver "+at.String()+"\n"); err != nil || has != of.its {
			t.Errorf("resolv.conf, %v:\n%s", err, text)
		}
	}
}

func answersAt(at netip.Addr) func(*nodeagent.Config) {
	return func(c *nodeagent.Config) { c.AnswerAt = []netip.Addr{at} }
}

func (m *machine) awaitName(at netip.Addr, rcode int) {
	m.t.Helper()
	var last *dns.Msg
	if !polltest.Within(time.Minute, func() bool {
		var err error
		last, err = dns.Exchange(new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA), netip.AddrPortFrom(at, 53).String())
		return err == nil && last.Rcode == rcode
	}) {
		m.t.Fatalf("answered %v, want %s", last, dns.RcodeToString[rcode])
	}
}
