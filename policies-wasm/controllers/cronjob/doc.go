// Package cronjob is the controller CronJob: it starts a Job whenever a schedule
// says so.
//
//	not due ──time──► due ─► Job NAME-MINUTES is created ─► seen: it stands in
//	   ▲                                                    status.active, and its
//	   └──────────────── asked again 100 ms after ◄──────── time in lastScheduleTime
//
// Of runs that were missed only the last is made up for, and not once
// startingDeadlineSeconds have passed. A Job's name is of the minute for which it
// was due, so none starts twice. Jobs that ended are kept as the history limits
// say.
//
// Source: kube-controller-manager 1.36, pkg/controller/cronjob, and the schedules
// of robfig/cron 3. A UID is given to a Job as it is created, so the status names
// it one answer later than Kubernetes' would; and a Job that its CronJob no
// longer controls leaves status.active at once, where Kubernetes waits until it is
// gone. A schedule that changes is looked at when it does; Kubernetes first waits
// for the time of the one before.
package cronjob
