// Command image-size prefers nodes that need not pull the pod's large images:
// it counts the bytes that are there already, and leaves out small images,
// which are pulled in no time.
package main

import "github.com/berth-dev/berth/sdk"

const mebibyte = 1 << 20

type imageSize struct{ least int64 }

func (s *imageSize) Configure(c sdk.Config) (err error) {
	if s.least, err = c.Int("leastMebibytes", 0, 1<<20, 100); err != nil {
		return err
	}
	return c.OnlyKeys("leastMebibytes")
}

// Score is in mebibytes; the host stretches the best to 100.
func (s *imageSize) Score(pod *sdk.Pod, node *sdk.Node) int64 {
	sum := int64(0)
	for _, image := range pod.Images {
		if size := node.ImageSize(pod.Text(image)) / mebibyte; size >= s.least {
			sum += min(size, 1<<20)
		}
	}
	return sum
}

func init() {
	sdk.Priority("ImageSize", &imageSize{}, sdk.Reads(sdk.PodImages|sdk.NodeImages),
		sdk.Normalize(sdk.NormalizeMax), sdk.Describe("Prefers nodes that have the pod's large images."))
}

func main() {}
