package podspec

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Objects gives what an environment refers to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	// Services lists the services of a namespace.
	Services(namespace string) ([]*v1.Service, error)
}

type anewKey struct{}

// Anew has what is read with the context asked for anew: what starts must not get what
// was remembered, since its environment is that for good.
func Anew(ctx context.Context) context.Context { return context.WithValue(ctx, anewKey{}, true) }

// IsAnew says whether a context is one of Anew.
func IsAnew(ctx context.Context) bool { return ctx.Value(anewKey{}) != nil }

// Facts are what an environment says of the pod's place and standing.
type Facts struct {
	PodIPs, HostIPs []string
	// Allocatable stands in for limits that a container does not set.
	Allocatable v1.ResourceList
	// EnvFile reads a variable from a file of one of the pod's volumes; empty is
	// not there.
	EnvFile func(volume, path, key string) (string, error)
}

// Env gives a container's variables in the order of their definition: services
// first, then envFrom, then env. Image variables are prepended by the caller.
func Env(ctx context.Context, p *v1.Pod, c *v1.Container, image []string, objs Objects, facts Facts) ([]runtime.EnvVar, error) {
	e := &environment{index: map[string]int{}}
	for _, kv := range image {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "HOSTNAME" { // that is the runtime's
			e.set(k, v)
		}
	}
	services, err := serviceEnv(p, objs)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, kv := range services {
		known[kv.Name] = kv.Value
	}
	result := map[string]string{}
	for _, from := range c.EnvFrom {
		if err := envFrom(ctx, p.Namespace, from, objs, e, result); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		value, ok, err := envValue(ctx, p, c, v, objs, facts, func(name string) (string, bool) {
			if got, ok := result[name]; ok {
				return got, true
			}
			got, ok := known[name]
			return got, ok
		})
		if err != nil {
			return nil, err
		}
		if ok {
			result[v.Name] = value
			e.set(v.Name, value)
		}
	}
	for _, kv := range services {
		if _, own := result[kv.Name]; !own {
			e.set(kv.Name, kv.Value)
		}
	}
	return e.list, nil
}

type environment struct {
	list  []runtime.EnvVar
	index map[string]int
}

func (e *environment) set(name, value string) {
	if i, ok := e.index[name]; ok {
		e.list[i].Value = value
		return
	}
	e.index[name] = len(e.list)
	e.list = append(e.list, runtime.EnvVar{Name: name, Value: value})
}

func envFrom(ctx context.Context, ns string, from v1.EnvFromSource, objs Objects, e *environment, result map[string]string) error {
	put := func(k, v string) {
		name := from.Prefix + k
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			return
		}
		e.set(name, v)
		result[name] = v
	}
	switch {
	case from.ConfigMapRef != nil:
		cm, err := objs.ConfigMap(ctx, ns, from.ConfigMapRef.Name)
		if optional(err, from.ConfigMapRef.Optional) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, k := range sortedKeys(cm.Data) {
			put(k, cm.Data[k])
		}
	case from.SecretRef != nil:
		s, err := objs.Secret(ctx, ns, from.SecretRef.Name)
		if optional(err, from.SecretRef.Optional) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, k := range sortedKeys(s.Data) {
			put(k, string(s.Data[k]))
		}
	}
	return nil
}

func optional(err error, is *bool) bool {
	return apierrors.IsNotFound(err) && is != nil && *is
}

// envValue gives one variable's value; ok is false where an optional source is
// absent.
func envValue(ctx context.Context, p *v1.Pod, c *v1.Container, v *v1.EnvVar, objs Objects, facts Facts, lookup func(string) (string, bool)) (value string, ok bool, err error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return Expand(v.Value, lookup), true, nil
	case from.FieldRef != nil:
		value, err = Field(p, from.FieldRef.FieldPath, facts)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = Resource(p, c, from.ResourceFieldRef, facts.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return configMapKey(ctx, p.Namespace, from.ConfigMapKeyRef, objs)
	case from.SecretKeyRef != nil:
		return secretKey(ctx, p.Namespace, from.SecretKeyRef, objs)
	case from.FileKeyRef != nil && facts.EnvFile != nil:
		return fileKey(from.FileKeyRef, facts)
	}
	return "", false, fmt.Errorf("environment variable %s: unknown kind of source", v.Name)
}

func configMapKey(ctx context.Context, ns string, ref *v1.ConfigMapKeySelector, objs Objects) (string, bool, error) {
	cm, err := objs.ConfigMap(ctx, ns, ref.Name)
	if optional(err, ref.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	got, ok := cm.Data[ref.Key]
	return missingKey(got, ok, ref.Optional, "ConfigMap", ref.Key, ns, ref.Name)
}

func secretKey(ctx context.Context, ns string, ref *v1.SecretKeySelector, objs Objects) (string, bool, error) {
	s, err := objs.Secret(ctx, ns, ref.Name)
	if optional(err, ref.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	got, ok := s.Data[ref.Key]
	return missingKey(string(got), ok, ref.Optional, "Secret", ref.Key, ns, ref.Name)
}

// fileKey reads a variable that a container before this one wrote into a file.
func fileKey(ref *v1.FileKeySelector, facts Facts) (string, bool, error) {
	value, err := facts.EnvFile(ref.VolumeName, ref.Path, ref.Key)
	if err == nil && value == "" && (ref.Optional == nil || !*ref.Optional) {
		err = fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, value != "", err
}

func missingKey(value string, ok bool, opt *bool, kind, key, ns, name string) (string, bool, error) {
	if ok || opt != nil && *opt {
		return value, ok, nil
	}
	return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, ns, name)
}

// serviceEnv gives the variables for services, in the style that Docker links
// had: NAME_SERVICE_HOST and so on. Those of default/kubernetes come always.
func serviceEnv(p *v1.Pod, objs Objects) ([]runtime.EnvVar, error) {
	all, err := objs.Services(v1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(s *v1.Service) bool { return s.Name != "kubernetes" })
	if p.Spec.EnableServiceLinks == nil || *p.Spec.EnableServiceLinks {
		own, err := objs.Services(p.Namespace)
		if err != nil {
			return nil, err
		}
		for _, s := range own {
			if s.Namespace != v1.NamespaceDefault || s.Name != "kubernetes" {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b *v1.Service) int { return strings.Compare(a.Name, b.Name) })
	var out []runtime.EnvVar
	for _, s := range all {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		out = append(out, oneService(s)...)
	}
	return out, nil
}

func oneService(s *v1.Service) []runtime.EnvVar {
	name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
	out := []runtime.EnvVar{
		{Name: name + "_SERVICE_HOST", Value: s.Spec.ClusterIP},
		{Name: name + "_SERVICE_PORT", Value: strconv.Itoa(int(s.Spec.Ports[0].Port))},
	}
	for _, port := range s.Spec.Ports {
		if port.Name != "" {
			suffix := strings.ToUpper(strings.ReplaceAll(port.Name, "-", "_"))
			out = append(out, runtime.EnvVar{Name: name + "_SERVICE_PORT_" + suffix, Value: strconv.Itoa(int(port.Port))})
		}
	}
	for i, port := range s.Spec.Ports {
		protocol := strings.ToLower(string(port.Protocol))
		if protocol == "" {
			protocol = "tcp"
		}
		number := strconv.Itoa(int(port.Port))
		url := protocol + "://" + net.JoinHostPort(s.Spec.ClusterIP, number)
		prefix := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		if i == 0 {
			out = append(out, runtime.EnvVar{Name: name + "_PORT", Value: url})
		}
		out = append(out,
			runtime.EnvVar{Name: prefix, Value: url},
			runtime.EnvVar{Name: prefix + "_PROTO", Value: protocol},
			runtime.EnvVar{Name: prefix + "_PORT", Value: number},
			runtime.EnvVar{Name: prefix + "_ADDR", Value: s.Spec.ClusterIP})
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Args gives the whole command line of a container, $(NAME) expanded: its own
// command and args where set, else the image's.
func Args(c *v1.Container, entrypoint, cmd []string, env []runtime.EnvVar) ([]string, error) {
	lookup := func(name string) (string, bool) {
		for _, kv := range slices.Backward(env) {
			if kv.Name == name {
				return kv.Value, true
			}
		}
		return "", false
	}
	command, args := c.Command, c.Args
	if len(command) == 0 {
		command = entrypoint
		if len(args) == 0 {
			args = cmd
		}
	}
	var out []string
	for _, a := range c.Command {
		out = append(out, Expand(a, lookup))
	}
	if len(c.Command) == 0 {
		out = append(out, command...)
	}
	for _, a := range args {
		if len(c.Args) > 0 {
			a = Expand(a, lookup)
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no command specified: neither container %s nor its image names one", c.Name)
	}
	return out, nil
}
