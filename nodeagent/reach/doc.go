// Package reach says what a node does with packets: to a service, and from one pod
// to another. It is pure, and works it out by what node agents work by:
// nodeagent/service and nodeagent/policy. So what it says is what happens.
package reach
