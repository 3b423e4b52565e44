// Package keeper holds the standard streams of containers: it writes their
// output to their log files and lets clients attach to them.
//
// It runs as a process of its own, which outlives the agent: a container goes
// on logging while the agent is restarted, and is not stopped by a full pipe.
// It ends by itself when nothing is kept and no agent is connected.
//
// The process is the agent's own program, run again under the name
// "berth-streams"; a program that opens package containerd calls Main first
// thing in its main function. Where it does not, the agent keeps the streams
// itself, and what containers print while it is away waits in their pipes.
//
// # Protocol
//
// Over a unix socket, one request a connection: a line of JSON, answered by a
// line of JSON. After the answer to "attach" both sides send frames: a byte
// that says which stream, four bytes of length, and that many bytes. A frame
// without bytes ends its stream.
package keeper
