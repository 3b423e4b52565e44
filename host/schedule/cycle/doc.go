// Package cycle makes one decision at a time: it asks the predicates and
// priorities of a profile about a pod, remembers what may be remembered, and
// picks the row with the highest total.
//
//	column   one policy's answers for one kind of pod, a cell a row
//	class    a profile's columns put together for one kind of pod: which rows
//	         are feasible, and their totals
//	Decider  both, least recently used ones dropped, and the scratch of a cycle
//
// A column stands until a group that its policy reads changes in a row; the log
// says where. So a replica of a known class costs the rows that have changed
// since the one before it, and nothing per node is allocated.
//
// Predicates whose answers are remembered are asked first, those of scope set
// and those that read the time after them, each in the profile's order.
//
// It is pure: a pod, a log, a time and a seed go in, a Decision comes out.
package cycle
