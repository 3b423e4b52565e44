// Package score turns raw scores into 0…100 by the formulas of kube-scheduler,
// to the last bit: a profile that agrees with it in each raw score agrees in
// each total.
package score

import (
	"github.com/berth-dev/berth/abi"
)

// Max is the best normalised score.
const Max = 100

// Extremes are the largest and the smallest raw score of the feasible rows.
type Extremes struct{ Min, Max int64 }

// Of returns the extremes of a list, zero for an empty one.
func Of(raw []int64) Extremes {
	if len(raw) == 0 {
		return Extremes{}
	}
	e := Extremes{Min: raw[0], Max: raw[0]}
	for _, v := range raw[1:] {
		e.Min = min(e.Min, v)
		e.Max = max(e.Max, v)
	}
	return e
}

// Clamp brings a raw score of a policy into ±abi.MaxScore.
func Clamp(raw int64) int64 { return min(max(raw, -abi.MaxScore), abi.MaxScore) }

// Normalize returns 0…100 for one raw score.
func Normalize(kind abi.Normalization, raw int64, e Extremes) int64 {
	switch kind {
	case abi.NormalizeMax:
		return byMax(raw, e.Max)
	case abi.NormalizeMaxReversed:
		if e.Max <= 0 {
			return Max
		}
		return Max - byMax(raw, e.Max)
	case abi.NormalizeMinMax:
		return byRange(raw, e)
	}
	return within(raw)
}

// byMax is helper.DefaultNormalizeScore: Max*raw/max, whole numbers.
func byMax(raw, top int64) int64 {
	if top <= 0 {
		return 0
	}
	return within(Max * raw / top)
}

// byRange is InterPodAffinity's NormalizeScore, which divides as floats do.
func byRange(raw int64, e Extremes) int64 {
	if e.Max <= e.Min {
		return 0
	}
	return within(int64(float64(Max) * (float64(raw-e.Min) / float64(e.Max-e.Min))))
}

func within(v int64) int64 { return min(max(v, 0), Max) }

// Moves says whether a change of the extremes changes what others' scores become.
func Moves(kind abi.Normalization, from, to Extremes) bool {
	switch kind {
	case abi.NormalizeMax, abi.NormalizeMaxReversed:
		return from.Max != to.Max
	case abi.NormalizeMinMax:
		return from != to
	}
	return false
}
