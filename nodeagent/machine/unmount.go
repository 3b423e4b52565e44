package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// unmountBelow takes down all mounts below dir, the deepest first.
func unmountBelow(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	points := mountsBelow(string(table), abs)
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow reads the mount points below dir out of a mount table, in the
// order in which they were made.
func mountsBelow(table, dir string) []string {
	escaped := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := escaped.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points
}
