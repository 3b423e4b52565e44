package autoscaler

import (
	"math"

	"github.com/berth-dev/berth/sdk"
)

const (
	within     = "the desired count is within the acceptable range"
	tooFast    = "the desired replica count is increasing faster than the maximum scale rate"
	tooFastOff = "the desired replica count is decreasing faster than the maximum scale rate"
	tooMany    = "the desired replica count is more than the maximum replica count"
	tooFew     = "the desired replica count is less than the minimum replica count"
	higher     = "recent recommendations were higher than current one, applying the highest recent recommendation"
	lower      = "recent recommendations were lower than current one, applying the lowest recent recommendation"
)

// limited says of a recommendation what became of it within bounds.
func (a *autoscaler) limited(recommended, desired int64, reason, message string) int64 {
	a.set("ScalingLimited", desired != recommended, reason, message)
	return desired
}

func (a *autoscaler) stabilized(wanted, recommended int64, reason, message string) {
	if wanted == recommended {
		reason, message = "ReadyForNewScale", "recommended size matches current size"
	}
	a.set("AbleToScale", true, reason, message)
}

// normalize brings a recommendation within bounds where the spec has no
// behavior: the most of the last five minutes, twice as many or four at once.
func (a *autoscaler) normalize(wanted int64) int64 {
	now := a.Now / micro
	recommended := wanted
	for _, r := range a.memory.recommended {
		if r.at >= now-window/micro {
			recommended = max(recommended, r.n)
		}
	}
	a.memory.recommended = keep(a.memory.recommended, sample{wanted, now}, now-window/micro)
	a.stabilized(wanted, recommended, "ScaleDownStabilized", higher)

	most, reason, message := a.most, "TooManyReplicas", tooMany
	if rate := max(2*a.current, 4); a.most > rate {
		most, reason, message = rate, "ScaleUpLimit", tooFast
	}
	switch {
	case recommended < a.least:
		return a.limited(recommended, a.least, "TooFewReplicas", tooFew)
	case recommended > most:
		return a.limited(recommended, most, reason, message)
	}
	return a.limited(recommended, recommended, "DesiredWithinRange", within)
}

// behave brings a recommendation within bounds as spec.behavior says.
func (a *autoscaler) behave(behavior sdk.Config, wanted int64) int64 {
	up, down := behavior.Object("scaleUp"), behavior.Object("scaleDown")
	recommended := a.stabilize(up, down, wanted)
	reason, message := "ScaleUpStabilized", lower
	if wanted < a.current {
		reason, message = "ScaleDownStabilized", higher
	}
	a.stabilized(wanted, recommended, reason, message)
	switch {
	case recommended > a.current:
		most, reason, message := a.most, "TooManyReplicas", tooMany
		if rate := max(a.rate(up, true), a.current); a.most > rate {
			most, reason, message = rate, "ScaleUpLimit", tooFast
		}
		if recommended > most {
			return a.limited(recommended, most, reason, message)
		}
	case recommended < a.current:
		least, reason, message := a.least, "TooFewReplicas", tooFew
		if rate := min(a.rate(down, false), a.current); a.least < rate {
			least, reason, message = rate, "ScaleDownLimit", tooFastOff
		}
		if recommended < least {
			return a.limited(recommended, least, reason, message)
		}
	}
	return a.limited(recommended, recommended, "DesiredWithinRange", within)
}

// stabilize keeps between the least that was recommended within the window of
// scaling up, and the most within that of scaling down.
func (a *autoscaler) stabilize(up, down sdk.Config, wanted int64) int64 {
	const second = 1_000_000
	now := a.Now / micro
	upSince := now - number(up.Object("stabilizationWindowSeconds"), 0)*second
	downSince := now - number(down.Object("stabilizationWindowSeconds"), window/micro/second)*second
	low, high := wanted, wanted
	for _, r := range a.memory.recommended {
		if r.at > upSince {
			low = min(low, r.n)
		}
		if r.at > downSince {
			high = max(high, r.n)
		}
	}
	a.memory.recommended = keep(a.memory.recommended, sample{wanted, now}, min(upSince, downSince))
	return min(max(a.current, low), high)
}

// rate is how far the policies let the number of replicas go now.
func (a *autoscaler) rate(rules sdk.Config, up bool) int64 {
	choose := rules.String("selectPolicy", "Max")
	if choose == "Disabled" {
		return a.current
	}
	// The policy of the largest change is that with the most replicas on the way
	// up, and with the fewest on the way down.
	farthest := (choose == "Max") == up
	result := int64(math.MaxInt32)
	if farthest {
		result = math.MinInt32
	}
	for _, p := range rules.Object("policies").Items() {
		seconds, value := number(p.Object("periodSeconds"), 0), number(p.Object("value"), 0)
		began := a.current - since(a.memory.up, seconds, a.Now) + since(a.memory.down, seconds, a.Now)
		to := reach(p.String("type", ""), began, value, up)
		if farthest {
			result = max(result, to)
		} else {
			result = min(result, to)
		}
	}
	return result
}

// reach is where a policy ends that began at a number of replicas.
func reach(kind string, began, value int64, up bool) int64 {
	switch {
	case kind == "Pods" && up:
		return began + value
	case kind == "Pods":
		return began - value
	case up:
		return int64(math.Ceil(float64(began) * (1 + float64(value)/100)))
	}
	return int64(float64(began) * (1 - float64(value)/100))
}
