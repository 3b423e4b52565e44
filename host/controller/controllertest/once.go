package controllertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/host/store"
)

// BubbleTime is when a bubble of testing/synctest begins, and so the time at which
// Once asks.
var BubbleTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Cluster is what a controller of Kubernetes' is opened over.
type Cluster struct {
	Client    *fake.Clientset
	Informers informers.SharedInformerFactory
}

// silence takes away what upstream does upon errors: it sleeps by the clock of
// whatever bubble had the error before.
var silence = sync.OnceFunc(func() { utilruntime.ErrorHandlers = nil })

// Once is what a controller of Kubernetes' does about some objects in one round: it
// sees nothing of what it changed. Open makes the controller, and returns how it is
// run.
func Once(t *testing.T, objects []store.Object, open func(ctx context.Context, in Cluster) func(context.Context)) (did []clienttesting.Action) {
	t.Helper()
	silence()
	synctest.Test(t, func(t *testing.T) {
		in := Cluster{Client: Clientset()}
		for _, o := range objects {
			if err := in.Client.Tracker().Add(o.DeepCopyObject()); err != nil {
				t.Fatal(err)
			}
		}
		in.Informers = informers.NewSharedInformerFactory(in.Client, 0)
		in.Client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, watch.NewFake(), nil
		})
		in.Client.PrependReactor("*", "*", in.swallow())
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		run := open(ctx, in)
		in.Informers.Start(ctx.Done())
		in.Informers.WaitForCacheSync(ctx.Done())
		synctest.Wait() // until all that there is lies in the controller's queue
		in.Client.ClearActions()
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx)
		}()
		synctest.Wait()
		did = in.Client.Actions()
		cancel()
		<-done
		in.Informers.Shutdown()
	})
	return did
}

// swallow answers a write as if it were done.
func (in Cluster) swallow() clienttesting.ReactionFunc {
	made := 0
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one too
			o, ok := a.GetObject().(store.Object)
			if ok && o.GetName() == "" {
				made++
				o.SetName(fmt.Sprintf("%snew-%d", o.GetGenerateName(), made))
			}
			return true, a.GetObject(), nil
		case clienttesting.PatchAction:
			o, err := in.Client.Tracker().Get(a.GetResource(), a.GetNamespace(), a.GetName())
			return true, o, err
		case clienttesting.DeleteAction:
			return true, nil, nil
		}
		return false, nil, nil
	}
}
