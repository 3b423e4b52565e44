// Package invent makes up clusters, and pods to ask about, by a seed: the same
// seed always gives the same case. It is there to find what nobody thought of,
// so it favours small clusters in which everything happens at once: taints,
// affinity of nodes and pods, spreading, ports, images, volumes in all states,
// odd amounts, sidecars, pods that end or are nominated.
//
// A seed picks how common each of these is, so that some clusters are crowded
// with one of them and free of the others. Objects carry the defaults that an
// API server would have filled in, and pass its validation.
package invent
