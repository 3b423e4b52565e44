package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: d}}
spec:
  REPLICAS
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: IMAGE}]}
`

func deploymentOf(replicas, image string) []byte {
	return []byte(strings.NewReplacer("REPLICAS", replicas, "IMAGE", image).Replace(deploymentYAML))
}

func applyAs(t *testing.T, c kubernetes.Interface, manager string, force bool, doc []byte) (int32, error) {
	t.Helper()
	d, err := c.AppsV1().Deployments("default").Patch(t.Context(), "d", types.ApplyPatchType, doc,
		metav1.PatchOptions{FieldManager: manager, Force: ptr.To(force)})
	if err != nil {
		return 0, err
	}
	return *d.Spec.Replicas, nil
}

func TestServerSideApplyOwnsFieldsAndFindsConflicts(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	want := func(step string, got int32, err error, replicas int32) {
		t.Helper()
		if err != nil || got != replicas {
			t.Fatalf("%s: replicas = %d, %v, want %d", step, got, err, replicas)
		}
	}
	got, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1"))
	want("create by apply", got, err, 3)
	if _, err = applyAs(t, c, "two", false, deploymentOf("replicas: 5", "a:1")); !apierrors.IsConflict(err) {
		t.Fatalf("apply of a field of another manager: %v, want Conflict", err)
	}
	if status, ok := err.(apierrors.APIStatus); !ok || len(status.Status().Details.Causes) != 1 || status.Status().Details.Causes[0].Field != ".spec.replicas" {
		t.Fatalf("the conflict names %+v, want .spec.replicas", err)
	}
	got, err = applyAs(t, c, "two", true, deploymentOf("replicas: 5", "a:1"))
	want("apply by force", got, err, 5)
	got, err = applyAs(t, c, "two", false, deploymentOf("", "a:1"))
	want("a field that its only manager no longer applies", got, err, 1)
}

func TestApplyAfterAClientThatNamedNoManagerConflictsWithWhatWasBefore(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.CoreV1().Pods("default").Patch(t.Context(), "p", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"else"}}}`), metav1.PatchOptions{FieldManager: "late"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "before-first-apply") {
		t.Fatalf("apply = %v, %v, want a conflict with before-first-apply", got, err)
	}
}

func TestScalesAreApplied(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); err != nil {
		t.Fatal(err)
	}
	scale := func(manager string, force bool, doc string) (int32, error) {
		got := &autoscalingv1.Scale{}
		r := c.AppsV1().RESTClient().Patch(types.ApplyPatchType).Namespace("default").Resource("deployments").Name("d").SubResource("scale").
			Param("fieldManager", manager).Body([]byte(doc))
		if force {
			r = r.Param("force", "true")
		}
		err := r.Do(t.Context()).Into(got)
		return got.Spec.Replicas, err
	}
	const five = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5}}`
	_, err := scale("scaler", false, five)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) || !strings.Contains(err.Error(), ".spec.replicas") {
		t.Fatalf("apply to a scale that another manages: %v, want a conflict with one over .spec.replicas", err)
	}
	if got, err := scale("scaler", true, five); err != nil || got != 5 {
		t.Fatalf("apply by force: %d, %v, want 5", got, err)
	}
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "scaler" with subresource "scale"`) {
		t.Fatalf("apply of what the scaler manages: %v, want a conflict", err)
	}
	if got, err := applyAs(t, c, "one", false, deploymentOf("", "a:1")); err != nil || got != 5 {
		t.Fatalf("the first manager gives the field up: %d, %v, want 5", got, err)
	}
	for what, doc := range map[string]string{
		"another name": strings.Replace(five, `"d"`, `"e"`, 1),
		"another kind": strings.Replace(five, `"Scale"`, `"Deployment"`, 1),
		"less than 0":  strings.Replace(five, "5}", "-5}", 1),
		"no number":    strings.Replace(five, "5}", `"x"}`, 1),
	} {
		if _, err := scale("scaler", true, doc); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			t.Errorf("apply of %s: %v, want 400 or 422", what, err)
		}
	}
}

func TestPartsArePatchedInEachWay(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		part string
		how  types.PatchType
		doc  string
		want string
	}{
		{"scale", types.MergePatchType, `{"spec":{"replicas":4}}`, "4 0"},
		{"scale", types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":4},{"op":"replace","path":"/spec/replicas","value":5}]`, "5 0"},
		{"scale", types.StrategicMergePatchType, `{"spec":{"replicas":6}}`, "6 0"},
		{"status", types.MergePatchType, `{"spec":{"replicas":1},"status":{"replicas":1}}`, "6 1"},
		{"status", types.JSONPatchType, `[{"op":"replace","path":"/status/replicas","value":2}]`, "6 2"},
		{"status", types.StrategicMergePatchType, `{"status":{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}}`, "6 3"},
		{"status", types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":9},"status":{"replicas":4}}`, "6 4"},
	} {
		r := c.AppsV1().RESTClient().Patch(p.how).Namespace("default").Resource("deployments").Name("d").SubResource(p.part).Param("fieldManager", "m").Body([]byte(p.doc))
		if p.how == types.ApplyPatchType {
			r = r.Param("force", "true")
		}
		if err := r.Do(t.Context()).Error(); err != nil {
			t.Errorf("%s of %s: %v", p.how, p.part, err)
		}
		d, err := c.AppsV1().Deployments("default").Get(t.Context(), "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(*d.Spec.Replicas, d.Status.Replicas); got != p.want {
			t.Errorf("after %s of %s: wanted and observed replicas are %s, want %s", p.how, p.part, got, p.want)
		}
	}
}

func TestPatchesAreReadStrictlyWhereAsked(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		how        types.PatchType
		doc        string
		validation string
		want       string
	}{
		{types.MergePatchType, `{"spec":{"replicas":1,"replicas":2}}`, "Strict", `strict decoding error: duplicate field "spec.replicas"`},
		{types.MergePatchType, `{"spec":{"replicas":1,"replicas":2}}`, "Ignore", ""},
		{types.MergePatchType, `{"spec":{"replica":1}}`, "Strict", `unknown field "spec.replica"`},
		{types.StrategicMergePatchType, `{"spec":{"replicas":1,"replicas":2}}`, "Strict", `patch: Invalid value: "map[spec:map[replicas:2]]": strict decoding error: duplicate field "spec.replicas"`},
		{types.StrategicMergePatchType, `{"spec":{"replicas":"x"}}`, "", `patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32`},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/replicas","value":1,"zzz":2}]`, "Strict", `json patch unknown field "[0].zzz"`},
		{types.JSONPatchType, `{"op":"replace"}`, "", "error decoding patch: json: cannot unmarshal object"},
		{types.MergePatchType, `[1]`, "", "error decoding patch: json: cannot unmarshal array"},
		{types.MergePatchType, `{`, "", "error decoding patch: unexpected end of JSON input"},
	} {
		_, err := c.AppsV1().Deployments("default").Patch(t.Context(), "d", p.how, []byte(p.doc), metav1.PatchOptions{FieldValidation: p.validation})
		if p.want == "" && err != nil || p.want != "" && (err == nil || !strings.Contains(err.Error(), p.want)) {
			t.Errorf("%s %s (%s) = %v, want %q", p.how, p.doc, p.validation, err, p.want)
		}
	}
}

func TestAutoscalersAreServedInBothVersions(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/vnd.kubernetes.protobuf")
	v1 := c.AutoscalingV1().HorizontalPodAutoscalers("default")
	_, err := v1.Create(t.Context(), &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "h"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5, TargetCPUUtilizationPercentage: ptr.To[int32](70),
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v2, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{})
	if err != nil || len(v2.Spec.Metrics) != 1 || *v2.Spec.Metrics[0].Resource.Target.AverageUtilization != 70 {
		t.Fatalf("v2 shows %+v, %v", v2, err)
	}
	old, err := v1.Get(t.Context(), "h", metav1.GetOptions{})
	if err != nil || ptr.Deref(old.Spec.TargetCPUUtilizationPercentage, 0) != 70 {
		t.Fatalf("v1 shows %+v, %v", old.Spec, err)
	}
	list, err := v1.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || ptr.Deref(list.Items[0].Spec.TargetCPUUtilizationPercentage, 0) != 70 {
		t.Fatalf("v1 lists %+v, %v", list, err)
	}
}

// TestAKindThatWantsVersionsIsAppliedAgain: an update of such a kind has to say
// which version it is of, an apply need not, but may.
func TestAKindThatWantsVersionsIsAppliedAgain(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	budgets := client(t, s, "application/json").PolicyV1().PodDisruptionBudgets("default")
	apply := func(metadata, rest string, part ...string) (*policyv1.PodDisruptionBudget, error) {
		doc := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"%s},%s}`, metadata, rest)
		return budgets.Patch(t.Context(), "b", types.ApplyPatchType, []byte(doc), metav1.PatchOptions{FieldManager: "m"}, part...)
	}
	const one, two, counts = `"spec":{"minAvailable":1}`, `"spec":{"minAvailable":2}`,
		`"status":{"currentHealthy":3,"desiredHealthy":1,"disruptionsAllowed":2,"expectedPods":3}`
	made, err := apply("", one)
	if err != nil {
		t.Fatal(err)
	}
	again, err := apply("", two)
	if err != nil || again.Spec.MinAvailable.IntValue() != 2 {
		t.Errorf("the second apply = %v, %v, want minAvailable 2", again, err)
	}
	told, err := apply("", counts, "status")
	if err != nil || told.Status.CurrentHealthy != 3 {
		t.Errorf("apply to the status = %v, %v, want currentHealthy 3", told, err)
	}
	for what, metadata := range map[string]string{
		"an old version": `,"resourceVersion":"` + made.ResourceVersion + `"`,
		"another uid":    `,"uid":"other"`,
	} {
		for _, spec := range []string{one, two} {
			if got, err := apply(metadata, spec); !apierrors.IsConflict(err) {
				t.Errorf("apply of %s with %s = %v, %v, want a conflict", what, spec, got, err)
			}
		}
		if got, err := apply(metadata, counts, "status"); !apierrors.IsConflict(err) {
			t.Errorf("apply to the status of %s = %v, %v, want a conflict", what, got, err)
		}
	}
	if _, err := apply(`,"uid":"`+string(made.UID)+`","resourceVersion":"`+told.ResourceVersion+`"`, one); err != nil {
		t.Errorf("apply of the newest version: %v", err)
	}
}

// TestAKindWithoutSchemaIsApplied: of those of the aggregation layer it is deduced.
func TestAKindWithoutSchemaIsApplied(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	apply := func(path, doc string) (int, string) {
		t.Helper()
		return send(t, httpClient(t, s), http.MethodPatch, s.URL+path+"?fieldManager=m", "application/apply-patch+yaml", "", doc)
	}
	for path, docs := range map[string][2]string{
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com": {
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"s"}}}`,
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":20,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"s"}}}`,
		},
		"/api/v1/namespaces/default/configmaps/c": {
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"2"}}`,
		},
	} {
		for i, doc := range docs {
			if code, text := apply(path, doc); code != http.StatusCreated-i {
				t.Errorf("apply %d of %s: %d %s", i+1, path, code, text)
			}
		}
	}
}

// TestApplysOfOneNewObjectAllSucceed: who comes second is merged.
func TestApplysOfOneNewObjectAllSucceed(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	maps := client(t, s, "application/json").CoreV1().ConfigMaps("default")
	for i := range 50 {
		name := fmt.Sprint("c", i)
		var g errgroup.Group
		for _, manager := range []string{"one", "two", "three", "four"} {
			g.Go(func() error {
				doc := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{%q:"1"}}`, name, manager)
				_, err := maps.Patch(t.Context(), name, types.ApplyPatchType, []byte(doc), metav1.PatchOptions{FieldManager: manager})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if got, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(got.Data) != 4 {
			t.Errorf("%s = %v, %v, want what all four set", name, got.Data, err)
		}
	}
}

// TestAnApplyMakesWhatItsPathNames: who may make one name makes no other.
func TestAnApplyMakesWhatItsPathNames(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	code, text := send(t, httpClient(t, s), http.MethodPatch, s.URL+"/api/v1/namespaces/default/configmaps/a?fieldManager=m", "application/apply-patch+yaml", "",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`)
	if code != http.StatusBadRequest {
		t.Errorf("an apply of b at a: %d %s, want 400", code, text)
	}
}

// TestAPatchMayTestForTheKind: the document that it changes says what it is.
func TestAPatchMayTestForTheKind(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	const path = "/api/v1/namespaces/default/configmaps"
	if code, text := send(t, httpClient(t, s), http.MethodPost, s.URL+path, "application/json", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	code, text := send(t, httpClient(t, s), http.MethodPatch, s.URL+path+"/c", "application/json-patch+json", "",
		`[{"op":"test","path":"/kind","value":"ConfigMap"},{"op":"replace","path":"/apiVersion","value":"v1"},{"op":"add","path":"/data","value":{"a":"1"}}]`)
	if code != http.StatusOK {
		t.Errorf("%d %s, want 200", code, text)
	}
}

// TestADryRunMakesNothingTwice: what is there cannot be made, tried or not.
func TestADryRunMakesNothingTwice(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	const path, doc = "/api/v1/namespaces/default/configmaps?dryRun=All", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusConflict} {
		if code, text := send(t, httpClient(t, s), http.MethodPost, s.URL+path, "application/json", "", doc); code != want {
			t.Errorf("try %d: %d %s, want %d", i+1, code, text, want)
		}
		if i == 1 {
			send(t, httpClient(t, s), http.MethodPost, s.URL+strings.TrimSuffix(path, "?dryRun=All"), "application/json", "", doc)
		}
	}
}
