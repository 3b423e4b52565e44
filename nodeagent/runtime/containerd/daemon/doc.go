// Package daemon runs a containerd of the agent's own: a child process with
// its own root, state, socket and configuration, started again when it dies.
// It ends with the agent; the shims, and so the containers, do not.
package daemon
