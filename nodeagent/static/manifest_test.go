package static

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const web = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: kube-system, labels: {app: web}}
spec:
  containers: [{name: web, image: web:1, ports: [{containerPort: 80}]}]
`

func TestAManifestIsAPodOfTheNode(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(web), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "web-n1" || p.Namespace != "kube-system" || p.Spec.NodeName != "n1" || p.UID == "" || !Is(p) {
		t.Errorf("%s/%s on %s, UID %s, static %v", p.Namespace, p.Name, p.Spec.NodeName, p.UID, Is(p))
	}
	if p.Spec.RestartPolicy != v1.RestartPolicyAlways || p.Spec.Containers[0].TerminationMessagePath == "" || p.Spec.Containers[0].Ports[0].Protocol != v1.ProtocolTCP {
		t.Errorf("it is not defaulted: %+v", p.Spec)
	}
	if tolerations := p.Spec.Tolerations; len(tolerations) != 1 || tolerations[0].Effect != v1.TaintEffectNoExecute {
		t.Errorf("tolerations %v", tolerations)
	}
	again, err := Parse([]byte(web), "n1")
	if err != nil || again.UID != p.UID {
		t.Errorf("the same manifest is another pod: %s and %s, %v", p.UID, again.UID, err)
	}
	for what, other := range map[string]func() (*v1.Pod, error){
		"another node":     func() (*v1.Pod, error) { return Parse([]byte(web), "n2") },
		"another manifest": func() (*v1.Pod, error) { return Parse([]byte(strings.Replace(web, "web:1", "web:2", 1)), "n1") },
		"JSON": func() (*v1.Pod, error) {
			return Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"c","image":"i"}]}}`), "n1")
		},
	} {
		if o, err := other(); err != nil || o.UID == p.UID || o.Namespace == "" {
			t.Errorf("%s: %v, UID %s beside %s", what, err, o.UID, p.UID)
		}
	}
}

func TestAWrongManifestIsRefused(t *testing.T) {
	t.Parallel()
	with := func(spec string) string { return strings.Replace(web, "spec:\n", "spec:\n"+spec, 1) }
	for name, tt := range map[string]struct{ manifest, want string }{
		"nothing":              {"", "it is nothing of nothing"},
		"another kind":         {"apiVersion: apps/v1\nkind: Deployment\n", "it is Deployment of apps/v1"},
		"no YAML":              {"a: [", "yaml"},
		"an unknown field":     {with("  nodeNam: x\n"), `unknown field "nodeNam"`},
		"no containers":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "spec.containers: Required value"},
		"a name that is wrong": {strings.Replace(web, "name: web,", "name: W_,", 1), "metadata.name"},
		"a Secret":             {with("  imagePullSecrets: [{name: s}]\n"), "it names a Secret"},
		"a ConfigMap":          {with("  volumes: [{name: c, configMap: {name: c}}]\n"), "it names a ConfigMap"},
		"an account":           {with("  serviceAccountName: a\n"), "it names a ServiceAccount"},
		"a claim":              {with("  volumes: [{name: c, persistentVolumeClaim: {claimName: c}}]\n"), "it names a PersistentVolumeClaim"},
		"a token":              {with("  volumes: [{name: c, projected: {sources: [{serviceAccountToken: {path: t}}]}}]\n"), "it names a token"},
	} {
		if _, err := Parse([]byte(tt.manifest), "n1"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}

// A fault is told once for each change of its file; a file that is faulty is no pod.
func TestAFolderIsReadAsItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := folder{dir: dir, node: "n1"}
	at := time.Now().Add(-time.Hour)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		at = at.Add(time.Second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	look := func(what string, faults int, images ...string) {
		t.Helper()
		pods, errs := f.read()
		var got []string
		for _, p := range pods {
			got = append(got, p.Spec.Containers[0].Image)
		}
		if strings.Join(got, " ") != strings.Join(images, " ") || len(errs) != faults {
			t.Errorf("%s: pods of %v, faults %v; want %v and %d faults", what, got, errs, images, faults)
		}
	}
	look("an empty folder", 0)
	write("b.yaml", web)
	write("a.json", strings.ReplaceAll(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"c","image":"j:1"}]}}`, "\t", ""))
	write(".b.yaml.swp", "editing")
	write("notes.txt", "not a manifest")
	if err := os.Mkdir(filepath.Join(dir, "sub.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	look("two manifests", 0, "j:1", "web:1")
	write("b.yaml", strings.Replace(web, "web:1", "web:2", 1))
	look("one has changed", 0, "j:1", "web:2")
	write("c.yaml", web)
	look("a second of the same name", 0, "j:1", "web:2")
	write("a.json", "{")
	look("one is faulty", 1, "web:2")
	look("it still is", 0, "web:2")
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	look("one is gone", 0, "web:1")
	write("d.yaml", strings.Repeat("#", maxManifest+1))
	look("one is too large", 1, "web:1")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look("the folder cannot be read", 1, "web:1")
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
		t.Fatal(err)
	}
	look("it can again", 0, "web:1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, errs := f.read(); len(errs) != 1 {
		t.Errorf("a folder that is gone: %v, want an error", errs)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data, "n1")
		if err == nil && (p.Spec.NodeName != "n1" || !strings.HasSuffix(p.Name, "-n1") || p.UID == "" || !Is(p) || len(p.Spec.Containers) == 0) {
			t.Errorf("a pod of %+v", p.ObjectMeta)
		}
	})
}
