package image

import (
	"fmt"

	"github.com/distribution/reference"
)

// Normalize gives the full form of an image name, as registries and the
// machine's store know it: "busybox" is "docker.io/library/busybox:latest". A
// name with a digest keeps no tag.
func Normalize(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("%q: %w: %w", ref, ErrInvalidName, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// Latest says whether a name asks for the tag latest, by name or by naming
// neither tag nor digest: such images are pulled always unless told otherwise.
func Latest(ref string) bool {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return false
	}
	tagged, ok := named.(reference.Tagged)
	return ok && tagged.Tag() == "latest"
}

// Registry gives a name's registry and repository: "docker.io", "library/busybox".
func Registry(ref string) (registry, repository string, err error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", "", fmt.Errorf("%q: %w: %w", ref, ErrInvalidName, err)
	}
	return reference.Domain(named), reference.Path(named), nil
}
