package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/util/env"
)

// maxEnvFile bounds the file that is searched for a variable: a container wrote
// it.
const maxEnvFile = 64 << 10

// EnvFile reads a variable from a file of one of the pod's volumes (fileKeyRef);
// empty is not there. Links lead nowhere out of the volume, and what is no file
// is not waited for.
func (v *Volumes) EnvFile(p *v1.Pod, volume, path, key string) (string, error) {
	at, ok := v.at(p, volume)
	if !ok {
		return "", fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", volume)
	}
	root, err := os.OpenRoot(at.Path)
	if err != nil {
		return "", fmt.Errorf("volume %q: %w", volume, err)
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxEnvFile) {
		err = errors.New("want a file of 64 KiB at most")
	}
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file %s: %w", path, err)
	}
	value, err := env.ParseEnv(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), key)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file %s: %w", path, err)
	}
	return value, nil
}
