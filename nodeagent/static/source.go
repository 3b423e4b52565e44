package static

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// lookEvery is how often the folder is looked at.
const lookEvery = time.Second

// Status is who writes the statuses of pods that the API has.
type Status interface {
	Set(p *v1.Pod, st v1.PodStatus)
	Final(ctx context.Context, p *v1.Pod, st v1.PodStatus) error
	Forget(uid string)
}

// Config is what a Source needs.
type Config struct {
	// Dir holds the manifests; empty: there are none, and mirrors that are left go.
	Dir, Node string
	Pods      corev1.PodsGetter
	Status    Status
	// Set and Delete run pods and end them; Running names those that run or still
	// end, by UID.
	Set     func(*v1.Pod)
	Delete  func(uid string)
	Running func() map[string]*v1.Pod
	// Self is the Node as the API has it, nil while it has none.
	Self func() *v1.Node
	Log  *slog.Logger
}

// Source runs the static pods of a machine. It writes statuses in place of Status: it
// knows under which UID the API has a static pod.
type Source struct {
	cfg    Config
	folder folder
	wake   chan struct{}

	mu      sync.Mutex
	wanted  []*v1.Pod               // guarded by mu, as what follows
	mirrors map[string]*v1.Pod      // in the API, by name
	told    map[string]v1.PodStatus // the last one, by the static pod's UID
	faults  map[string]string       // the last one told, by the mirror's name
}

// New looks into the folder once; Run goes on.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, folder: folder{dir: cfg.Dir, node: cfg.Node}, wake: make(chan struct{}, 1),
		mirrors: map[string]*v1.Pod{}, told: map[string]v1.PodStatus{}, faults: map[string]string{}}
	s.look()
	return s
}

// Run keeps the pods as the folder wants them until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.keep()
		s.reflect(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-tick.C:
			s.look()
		}
	}
}

func (s *Source) look() {
	pods, faults := s.folder.read()
	for _, err := range faults {
		s.cfg.Log.Error("a manifest of a static pod is ignored", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = pods
}

func (s *Source) want() (pods []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// keep starts what is wanted and ends what is not. A pod waits until one of the same
// name has ended.
func (s *Source) keep() {
	running, wanted := s.cfg.Running(), map[string]bool{}
	named := map[string]bool{}
	for _, p := range running {
		named[keyOf(p)] = true
	}
	for _, p := range s.want() {
		wanted[string(p.UID)] = true
		if running[string(p.UID)] == nil && !named[keyOf(p)] {
			s.cfg.Set(p.DeepCopy())
		}
	}
	for uid := range running {
		if !wanted[uid] {
			s.cfg.Delete(uid)
		}
	}
}

// Mirror takes in what the API has, and says whether that is a mirror.
func (s *Source) Mirror(p *v1.Pod) bool {
	if !isMirror(p) {
		return false
	}
	s.mu.Lock()
	s.mirrors[keyOf(p)] = p
	st, told := s.told[p.Annotations[v1.MirrorPodAnnotationKey]]
	s.mu.Unlock()
	if told {
		s.cfg.Status.Set(p, st)
	}
	s.awake()
	return true
}

// MirrorGone takes in what the API has no more, and says whether that was a mirror.
func (s *Source) MirrorGone(p *v1.Pod) bool {
	if !isMirror(p) {
		return false
	}
	s.mu.Lock()
	if m := s.mirrors[keyOf(p)]; m != nil && m.UID == p.UID {
		delete(s.mirrors, keyOf(p))
	}
	s.mu.Unlock()
	s.cfg.Status.Forget(string(p.UID))
	s.awake()
	return true
}

func (s *Source) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reflect has the API show a mirror of each pod that is wanted, and no other.
func (s *Source) reflect(ctx context.Context) {
	wanted := map[string]*v1.Pod{}
	for _, p := range s.want() {
		wanted[keyOf(p)] = p
		s.create(ctx, p)
	}
	running := map[string]bool{}
	for _, p := range s.cfg.Running() {
		running[keyOf(p)] = true
	}
	for key, m := range s.mirrored() {
		p := wanted[key]
		if p == nil && running[key] && m.DeletionTimestamp == nil {
			continue // it ends
		}
		if p == nil || m.DeletionTimestamp != nil || m.Annotations[v1.MirrorPodAnnotationKey] != string(p.UID) {
			zero := int64(0)
			err := s.cfg.Pods.Pods(m.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{
				GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &m.UID},
			})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				err = nil
			}
			s.fault(ctx, key, "delete the mirror of a static pod", err)
		}
	}
}

func (s *Source) mirrored() map[string]*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]*v1.Pod, len(s.mirrors))
	for key, m := range s.mirrors {
		all[key] = m
	}
	return all
}

// create shows the API a pod that it has no mirror of.
func (s *Source) create(ctx context.Context, p *v1.Pod) {
	s.mu.Lock()
	there := s.mirrors[keyOf(p)] != nil
	s.mu.Unlock()
	if there {
		return
	}
	m, err := mirrorOf(p, s.cfg.Self())
	if err == nil {
		m, err = s.cfg.Pods.Pods(p.Namespace).Create(ctx, m, metav1.CreateOptions{})
	}
	if err == nil {
		s.Mirror(m)
	}
	s.fault(ctx, keyOf(p), "show the API a mirror of a static pod", err)
}

// fault tells of an error once, as long as it is the same.
func (s *Source) fault(ctx context.Context, key, what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.faults, key)
		return
	}
	if ctx.Err() == nil && s.faults[key] != err.Error() {
		s.faults[key] = err.Error()
		s.cfg.Log.Warn(what, "pod", key, "err", err)
	}
}

// Set implements Status, of static pods by their mirrors.
func (s *Source) Set(p *v1.Pod, st v1.PodStatus) {
	if !Is(p) {
		s.cfg.Status.Set(p, st)
		return
	}
	s.mu.Lock()
	s.told[string(p.UID)] = st
	m := s.mirrors[keyOf(p)]
	s.mu.Unlock()
	if m != nil && m.Annotations[v1.MirrorPodAnnotationKey] == string(p.UID) {
		s.cfg.Status.Set(m, st)
	}
}

// Final implements Status.
func (s *Source) Final(ctx context.Context, p *v1.Pod, st v1.PodStatus) error {
	if !Is(p) {
		return s.cfg.Status.Final(ctx, p, st)
	}
	s.Forget(string(p.UID))
	return nil
}

// Forget implements Status.
func (s *Source) Forget(uid string) {
	s.mu.Lock()
	_, static := s.told[uid]
	delete(s.told, uid)
	s.mu.Unlock()
	if static {
		s.awake() // its mirror may go, and one that waited for it may come
		return
	}
	s.cfg.Status.Forget(uid)
}
