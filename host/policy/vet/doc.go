// Package vet reads a WebAssembly module that a stranger wrote and either
// refuses it, naming the rule it breaks, or writes it anew with a meter inside.
//
// What it keeps true of every module that it lets through:
//   - its structure is small enough to be compiled in bounded time and memory;
//   - it imports nothing but functions of the allow-list, and has no start
//     function, so that no code runs before the host asks;
//   - its memory cannot grow past the cap, its tables cannot grow at all;
//   - it says which ABI it follows, and its exports have that ABI's types;
//   - it carries a counter, an i64 global that no instruction of the guest
//     names, and charges for the code that it runs; where the counter is negative
//     on entering a function or turning a loop, it calls the host, by an import
//     that it cannot name either, which grants more or ends the call.
//
// Every instruction and immediate is decoded and encoded afresh, so that no
// reading of the bytes other than vet's own can reach the compiler.
//
// vet does not type-check: the compiler behind it does, and what vet inserts
// leaves the operand stack as it was, so a valid module stays valid and an
// invalid one invalid. It keeps no state, does no I/O, and takes time linear in
// its input.
package vet
