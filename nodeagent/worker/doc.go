// Package worker carries out what package pod decides: one worker for each pod,
// one action at a time, and a Pool that feeds them from the API, the runtime
// and the probes.
//
// A worker's record is guarded by its mutex, and no I/O is done under it: an
// action takes what it needs, works, and hands back a function that notes the
// outcome. A pod that is told to stop cancels whatever was being started.
package worker
