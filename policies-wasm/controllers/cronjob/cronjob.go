package cronjob

import (
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// scheduledKey is where a Job keeps the time for which it was due.
const scheduledKey = "batch.kubernetes.io/cronjob-scheduled-timestamp"

// late is how much later than a time of the schedule the controller is asked
// again, lest clocks that differ a little ask too early.
const late = pods.Second / 10

func init() {
	sdk.Controller("CronJob", controller{},
		reconcile.Kind{APIVersion: "batch/v1", Kind: "CronJob", Facts: []string{abi.FactZone}, Fields: []string{
			"spec.schedule", "spec.timeZone", "spec.startingDeadlineSeconds", "spec.concurrencyPolicy", "spec.suspend",
			"spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit",
			"status.active", "status.lastScheduleTime", "status.lastSuccessfulTime",
		}},
		[]reconcile.Kind{{APIVersion: "batch/v1", Kind: "Job", Fields: []string{
			"status.conditions", "status.startTime", "status.completionTime",
		}}},
		sdk.Describe("Starts Jobs by the clock, as CronJobs say."))
}

type controller struct{}

// cronJob is the parent, read once, and what becomes of its status.
type cronJob struct {
	*reconcile.Request
	out  *reconcile.Result
	jobs []job
	// Times are in seconds since 1970. deadline is -1 where there is none.
	now, created, scheduled, deadline int64
	// begins is the run that this answer creates.
	begins     int64
	successful string
	active     []reference
	changed    bool
	schedule   *schedule
}

// reference is an entry of status.active.
type reference struct{ uid, name, json string }

// job is a child.
type job struct {
	*reconcile.Object
	// ended is the condition by which it did; succeeded that it is Complete.
	ended              string
	succeeded          bool
	started, completed string
}

func (controller) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	c := read(r, &out)
	c.recognize()
	c.cleanUp()
	c.follow()
	c.forget()
	if r.Parent.Deleted == 0 {
		err = c.start()
	}
	c.status()
	return out, err
}

func read(r *reconcile.Request, out *reconcile.Result) *cronJob {
	c := &cronJob{
		Request: r, out: out, now: r.Now / pods.Second, created: r.Parent.Created / pods.Second,
		deadline: limit(&r.Parent, "spec.startingDeadlineSeconds"), successful: text(&r.Parent, "status.lastSuccessfulTime"),
	}
	c.scheduled = pods.Nanos(text(&r.Parent, "status.lastScheduleTime")) / pods.Second
	for _, a := range r.Parent.Field("status.active").Items() {
		c.active = append(c.active, reference{a.String("uid", ""), a.String("name", ""), a.JSON()})
	}
	for i := range r.Children {
		j := job{Object: r.Children[i]}
		j.started, j.completed = text(j.Object, "status.startTime"), text(j.Object, "status.completionTime")
		for _, condition := range j.Field("status.conditions").Items() {
			kind := condition.String("type", "")
			if kind != "Complete" && kind != "Failed" || condition.String("status", "") != "True" {
				continue
			}
			j.succeeded = j.succeeded || kind == "Complete"
			if j.ended == "" {
				j.ended = kind
			}
		}
		c.jobs = append(c.jobs, j)
	}
	return c
}

func text(o *reconcile.Object, path string) string {
	s, _ := o.Field(path).Text()
	return s
}

// limit is a number of the parent, -1 where it has none.
func limit(o *reconcile.Object, path string) int64 {
	if n, ok := o.Field(path).Number(); ok {
		return int64(n)
	}
	return -1
}

func (c *cronJob) tell(kind, reason, message string) {
	c.out.Events = append(c.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
}

func (c *cronJob) why(sentence string) { c.out.Why = append(c.out.Why, sentence) }

// isActive finds a Job in status.active by its UID, or -1.
func (c *cronJob) isActive(uid string) int {
	for i := range c.active {
		if c.active[i].uid == uid {
			return i
		}
	}
	return -1
}

func (c *cronJob) drop(uid string) {
	if i := c.isActive(uid); i >= 0 {
		c.active = append(c.active[:i:i], c.active[i+1:]...)
		c.changed = true
	}
}

// run takes a Job into status.active, as the one that was due at a time.
func (c *cronJob) run(j *job, due int64) {
	o := &json.Writer{}
	o.Open('{').Key("kind").Text("Job").Key("namespace").Text(j.Namespace).Key("name").Text(j.Name).Key("uid").Text(j.UID)
	o.Key("apiVersion").Text("batch/v1").Member("resourceVersion", j.ResourceVersion).Close('}')
	c.active = append(c.active, reference{j.UID, j.Name, string(o.Bytes())})
	c.scheduled, c.changed = due, true
}

// recognize takes in what the last answer created: a Job that bears the name and
// the time of a run after the last that the status knows.
func (c *cronJob) recognize() {
	for i := range c.jobs {
		j := &c.jobs[i]
		text, ok := j.Annotations.Get(scheduledKey)
		if !ok || c.isActive(j.UID) >= 0 {
			continue
		}
		if due := timestamp(text); due > c.scheduled && j.Name == c.nameAt(due) {
			c.run(j, due)
		}
	}
}

func (c *cronJob) nameAt(due int64) string {
	return c.Parent.Name + "-" + strconv.FormatInt(due/60, 10)
}

// cleanUp deletes the oldest of the Jobs that ended, beyond the history limits.
func (c *cronJob) cleanUp() {
	for _, kind := range [...]struct{ ended, limit string }{
		{"Complete", "spec.successfulJobsHistoryLimit"}, {"Failed", "spec.failedJobsHistoryLimit"},
	} {
		keep := limit(&c.Parent, kind.limit)
		if keep < 0 {
			continue
		}
		var ended byStart
		for i := range c.jobs {
			if c.jobs[i].ended == kind.ended {
				ended = append(ended, &c.jobs[i])
			}
		}
		sort.Sort(ended)
		for ; len(ended) > int(keep); ended = ended[1:] {
			c.remove(ended[0])
		}
	}
}

func (c *cronJob) remove(j *job) {
	c.out.Delete = append(c.out.Delete, reconcile.Deletion{UID: j.UID, Success: "Deleted job " + j.Name})
	c.drop(j.UID)
}

// byStart puts Jobs in the order in which they began, by name where that is the
// same; those that did not begin are last.
type byStart []*job

func (b byStart) Len() int      { return len(b) }
func (b byStart) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

func (b byStart) Less(i, j int) bool {
	p, q := b[i], b[j]
	if p.started == q.started {
		return p.Name < q.Name
	}
	// Times of the API have one form, and are in order as texts are.
	return q.started == "" || p.started != "" && p.started < q.started
}

// follow sees what became of the Jobs.
func (c *cronJob) follow() {
	for i := range c.jobs {
		j := &c.jobs[i]
		active := c.isActive(j.UID) >= 0
		switch {
		case j.ended == "" && !active:
			c.tell("Warning", "UnexpectedJob", "Saw a job that the controller did not create or forgot: "+j.Name)
		case j.ended != "" && active:
			c.drop(j.UID)
			c.tell("Normal", "SawCompletedJob", "Saw completed job: "+j.Name+", condition: "+j.ended)
		}
		if j.succeeded && j.completed > c.successful {
			c.successful, c.changed = j.completed, true
		}
	}
}

// forget drops active Jobs that are gone.
func (c *cronJob) forget() {
	there := map[string]bool{}
	for i := range c.jobs {
		there[c.jobs[i].UID] = true
	}
	for _, a := range append([]reference(nil), c.active...) {
		if !there[a.uid] {
			c.tell("Normal", "MissingJob", "Active job went missing: "+a.name)
			c.drop(a.uid)
		}
	}
}

func (c *cronJob) status() {
	if !c.changed {
		return
	}
	o := &json.Writer{}
	o.Open('{')
	if len(c.active) > 0 {
		o.Key("active").Open('[')
		for _, a := range c.active {
			o.Value(a.json)
		}
		o.Close(']')
	}
	if c.scheduled != 0 {
		o.Key("lastScheduleTime").Text(pods.Time(c.scheduled * pods.Second))
	}
	o.Member("lastSuccessfulTime", c.successful)
	c.out.Status = string(o.Close('}').Bytes())
}

// start creates the Job that is due, and says when the next will be.
func (c *cronJob) start() error {
	ok, err := c.readSchedule()
	if !ok || err != nil {
		return err
	}
	due, missed, err := c.due()
	if err != nil {
		c.tell("Warning", "InvalidSchedule", "invalid schedule: "+text(&c.Parent, "spec.schedule")+" : "+err.Error())
		c.why("Its schedule names no time that will come.")
		return nil
	}
	if due != never && missed {
		c.tell("Warning", "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if due != never {
		c.startAt(due)
	}
	c.askAgain()
	return nil
}

func (c *cronJob) startAt(due int64) {
	name := c.nameAt(due)
	policy := text(&c.Parent, "spec.concurrencyPolicy")
	switch {
	case c.deadline >= 0 && (due+c.deadline)*pods.Second < c.Now:
		c.tell("Warning", "MissSchedule", "Missed scheduled time to start a job: "+rfc1123(due))
		return
	case c.started(name) || c.scheduled == due:
		return
	case policy == "Forbid" && len(c.active) > 0:
		c.tell("Normal", "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		c.why("A Job is due, and waits for " + c.active[0].name + ", which still runs: concurrencyPolicy is Forbid.")
		return
	case c.taken(name):
		return
	case policy == "Replace":
		c.replace()
	}
	if j := c.find(name); j != nil {
		c.run(j, due) // of the same minute
		return
	}
	c.create(name, due)
}

// started tells whether the Job of that name is active.
func (c *cronJob) started(name string) bool {
	for i := range c.active {
		if c.active[i].name == name {
			return true
		}
	}
	return false
}

// taken tells whether the host found another's Job of that name, which then
// stands for this run.
func (c *cronJob) taken(name string) bool {
	return strings.HasSuffix(c.Refused, `"`+name+`" already exists`)
}

func (c *cronJob) find(name string) *job {
	for i := range c.jobs {
		if c.jobs[i].Name == name {
			return &c.jobs[i]
		}
	}
	return nil
}

func (c *cronJob) replace() {
	for _, a := range append([]reference(nil), c.active...) {
		for i := range c.jobs {
			if c.jobs[i].UID == a.uid {
				c.remove(&c.jobs[i])
			}
		}
	}
}

func (c *cronJob) create(name string, due int64) {
	o := &json.Writer{}
	o.Open('{').Key("apiVersion").Text("batch/v1").Key("kind").Text("Job").Key("metadata").Open('{').Key("name").Text(name)
	o.Key("finalizers").Value("null") // a template's are none of the Job's
	o.Key("annotations").Open('{').Key(scheduledKey).Text(c.stamp(due)).Close('}').Close('}').Close('}')
	c.out.Create = append(c.out.Create, reconcile.Creation{
		From: "spec.jobTemplate", Object: string(o.Bytes()), Count: 1, Success: "Created job " + name, Failure: "Error creating job: ",
	})
	c.begins = due // its UID is known when it is there
}

// stamp writes a time in the zone that spec.timeZone names.
func (c *cronJob) stamp(due int64) string {
	if c.Parent.JSON("spec.timeZone") == "" {
		return pods.Time(due * pods.Second)
	}
	return inZone(due, c.schedule.zone)
}

// readSchedule tells whether there is a schedule to go by.
func (c *cronJob) readSchedule() (ok bool, err error) {
	schedule, name := text(&c.Parent, "spec.schedule"), text(&c.Parent, "spec.timeZone")
	known := c.Parent.JSON(abi.FactZone) != ""
	if name != "" && !known {
		c.tell("Warning", "UnknownTimeZone", "invalid timeZone: "+strconv.Quote(name)+": unknown time zone "+name)
		c.why("Nobody knows its time zone " + name + ".")
		return false, nil
	}
	if c.Parent.JSON("spec.suspend") == "true" {
		c.why("It is suspended.")
		return false, nil
	}
	if strings.Contains(schedule, "TZ") {
		c.tell("Warning", "UnsupportedSchedule", "CRON_TZ or TZ used in schedule "+strconv.Quote(schedule)+
			" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	z, err := readZone(c.Parent.Field(abi.FactZone))
	if err != nil {
		return false, err
	}
	if c.schedule, err = parseWithZone(schedule, z, known); err != nil {
		c.tell("Warning", "UnparseableSchedule", "unparseable schedule: "+strconv.Quote(schedule)+" : "+err.Error())
		c.why("Its schedule cannot be read.")
		return false, nil
	}
	return true, nil
}
