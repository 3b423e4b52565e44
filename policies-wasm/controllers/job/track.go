package job

// track counts pods that have ended, or are to be forgotten, and takes their
// finalizer off; and it ends the job once all are counted.
func (j *job) track() {
	more, passing := j.release()
	for i := range j.pods {
		p := &j.pods[i]
		o := j.child(p)
		switch {
		case p.free:
			j.out.RemoveFinalizer(o, tracking)
		case p.tracked && !p.bore:
			j.out.AddFinalizer(o, tracking)
		}
	}
	if passing && !j.perIndex && j.finish == nil {
		j.remember()
	}
	j.settleUncounted()
	if j.indexed {
		j.status.succeeded, j.completedIndexes = j.done, j.succeededIndexes.text()
		j.status.failedIndexes, j.hasFailedIndexes = j.failedIndexes.text(), j.perIndex
	}
	if more {
		j.out.Step = true
		j.again(1)
	}
	j.end(more)
}

// release frees the pods that it counts, as many as fit into one answer. More says
// that there are others, passing that one failed which is gone.
func (j *job) release() (more, passing bool) {
	left := burst
	for i := range j.pods {
		p := &j.pods[i]
		switch {
		case !p.tracked || !j.free(p):
		case left == 0:
			more = true
		default:
			left--
			p.free = true
			passing = j.tally(p) && p.gone || passing
		}
	}
	return more, passing
}

// free tells whether the pod's finalizer may go.
func (j *job) free(p *pod) bool {
	if j.Parent.Deleted != 0 || j.finish != nil || p.phase == podSucceeded {
		return true
	}
	if !j.failed(p) {
		return false
	}
	at, ok := j.replaced[p.index]
	return !ok || &j.pods[at] != p
}

// tally counts a pod whose finalizer goes, and says whether it failed. Indexes
// have been counted before.
func (j *job) tally(p *pod) (failed bool) {
	uid := j.child(p).UID
	if p.phase == podSucceeded && !j.uncounted.failed[uid] {
		if !j.indexed && !j.uncounted.succeeded[uid] {
			j.status.succeeded++
		}
		return false
	}
	failing := j.finish != nil && j.finish.kind != successCriteriaMet
	if (j.failed(p) || failing) && j.counts(p) && !j.uncounted.failed[uid] && !j.policy(p).ignored {
		j.status.failed++
	}
	return j.failed(p)
}

// settleUncounted counts what another controller has noted to be counted, save
// pods that bear the finalizer still.
func (j *job) settleUncounted() {
	if len(j.uncounted.succeeded)+len(j.uncounted.failed) == 0 {
		return
	}
	var still uncounted
	for i := range j.pods {
		if p := &j.pods[i]; p.tracked && !p.free {
			still.move(&j.uncounted, j.child(p).UID)
		}
	}
	j.status.succeeded += int64(len(j.uncounted.succeeded))
	j.status.failed += int64(len(j.uncounted.failed))
	j.uncounted = still
}

// end turns the condition that ends the job into the last one, if nothing of the
// job is left to wait for.
func (j *job) end(more bool) {
	if j.finish == nil {
		return
	}
	last := j.finish
	switch j.finish.kind {
	case failureTarget:
		j.add(*j.finish)
		last = j.condition(failed, j.finish.reason, j.finish.message)
	case successCriteriaMet:
		if c := j.find(successCriteriaMet); c == nil {
			j.add(*j.finish)
		}
		last = j.condition(complete, j.finish.reason, j.finish.message)
	}
	if more || j.active+j.terminating > 0 || len(j.uncounted.succeeded)+len(j.uncounted.failed) > 0 {
		return
	}
	j.ensure(last.kind, last.status, last.reason, last.message)
	if last.kind == failed {
		j.event("Warning", last.reason, last.message)
		return
	}
	j.completionTime = last.since
	if !j.queue && j.status.succeeded > int64(j.completions) {
		j.event("Warning", "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	j.event("Normal", "Completed", "Job completed")
}
