package controllertest

import "os"

// Rounds is how many invented states a test compares: few in CI, many in the campaign.
func Rounds(few, many uint64) uint64 {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		return many
	}
	return few
}
