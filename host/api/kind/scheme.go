package kind

import (
	policyv1alpha1 "github.com/berth-dev/berth/host/policy/v1alpha1"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"           // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/authentication/install" // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"  // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"    // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/batch/install"          // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"   // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/core/install"           // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"      // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/events/install"         // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/networking/install"     // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/node/install"           // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/policy/install"         // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"           // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"     // registers its kinds
	_ "k8s.io/kubernetes/pkg/apis/storage/install"        // registers its kinds
	"k8s.io/kubernetes/pkg/capabilities"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Scheme knows every served type, its defaults and its conversions. It is
// Kubernetes' own with Berth's kinds added: the strategies of Kubernetes look
// types up there.
var Scheme = buildScheme()

func buildScheme() *runtime.Scheme {
	// Kubernetes' validation refuses privileged containers until it is told that
	// they may be: who may run them is for Pod Security admission to say.
	capabilities.Setup(true, 0)
	s := legacyscheme.Scheme
	utilruntime.Must(policyv1alpha1.AddToScheme(s))
	utilruntime.Must(metricsv1beta1.AddToScheme(s))
	apiregistration.Install(s)
	return s
}
