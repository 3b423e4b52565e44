package schedule

import "time"

// mix makes a cycle's seed out of the scheduler's and the cycle's number.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func durationSince(clock func() int64, start int64) time.Duration {
	return time.Duration(clock() - start)
}
