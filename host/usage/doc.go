// Package usage keeps what node agents report of CPU and memory in use, and
// answers metrics.k8s.io from it.
//
// Agents count CPU time; a rate needs two reports. Each agent is asked for its
// summary every fifteen seconds, and the newest two are kept.
package usage
