package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/apitest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAProxyPassesEveryMethodOn: also those that the router would answer.
func TestAProxyPassesEveryMethodOn(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		p.API.Connectors = map[string]api.Connector{"pods/proxy": func(w http.ResponseWriter, r *http.Request, c *api.Connection) error {
			w.Header().Set("Method", r.Method+" "+c.Path)
			_, err := fmt.Fprintln(w, "behind")
			return err
		}}
	}))
	admin := client(t, s, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := &curl{t, s, httpClient(t, s), admin}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, path := range []string{"", "/a/b"} {
			answer, _ := c.ask(method, "/api/v1/namespaces/default/pods/p/proxy"+path, "")
			if got := answer.Header.Get("Method"); answer.StatusCode != http.StatusOK || got != method+" "+path {
				t.Errorf("%s proxy%s = %d, handled as %q", method, path, answer.StatusCode, got)
			}
		}
	}
}

func TestANewClaimIsPending(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	made, err := client(t, s, "").CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Status.Phase != corev1.ClaimPending {
		t.Errorf("phase = %q", made.Status.Phase)
	}
}
