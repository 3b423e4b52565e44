package job

import (
	"errors"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// spec is what a Job wants. Limits that it does not have are -1.
type spec struct {
	selector    facts.Selector
	parallelism int64
	completions int
	// queue: the job has no number of completions; one success ends it.
	queue, indexed, suspended bool
	// elsewhere: another controller acts on the job.
	elsewhere bool

	backoffLimit, backoffLimitPerIndex, maxFailedIndexes, activeDeadline, ttl int64
	// perIndex: each index may fail so often.
	perIndex  bool
	onFailure bool
	// lateReplacement: a pod that goes is replaced, and counted, when it has ended.
	lateReplacement bool
	failureRules    []failureRule
	hasFailureRules bool
	successRules    []sdk.Config
}

func (s *spec) read(p *reconcile.Object) error {
	number := func(path string, otherwise int64) int64 {
		if n, ok := p.Field(path).Number(); ok {
			return int64(n)
		}
		return otherwise
	}
	text := func(path string) string {
		t, _ := p.Field(path).Text()
		return t
	}
	s.parallelism = number("spec.parallelism", 1)
	s.completions = int(number("spec.completions", -1))
	s.queue = s.completions < 0
	s.indexed = text("spec.completionMode") == "Indexed"
	if s.indexed && s.queue {
		return errors.New("spec.completions is missing, which an Indexed job needs")
	}
	s.suspended = p.JSON("spec.suspend") == "true"
	by := text("spec.managedBy")
	s.elsewhere = by != "" && by != ours
	s.backoffLimit, s.backoffLimitPerIndex = number("spec.backoffLimit", 6), number("spec.backoffLimitPerIndex", -1)
	s.perIndex = s.indexed && s.backoffLimitPerIndex >= 0
	s.maxFailedIndexes = number("spec.maxFailedIndexes", -1)
	s.activeDeadline, s.ttl = number("spec.activeDeadlineSeconds", -1), number("spec.ttlSecondsAfterFinished", -1)
	s.onFailure = text("spec.template.spec.restartPolicy") == "OnFailure"
	s.readFailureRules(p.Field("spec.podFailurePolicy"))
	s.lateReplacement = s.hasFailureRules || text("spec.podReplacementPolicy") == "Failed"
	var err error
	s.successRules, err = p.Field("spec.successPolicy").List("rules")
	return err
}
