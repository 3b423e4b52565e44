// Package kubescheduler answers made-up cases by the plugins of kube-scheduler
// 1.36.3 itself, each by itself on every node, with its default profile. It is a
// module of its own, since kube-scheduler brings much that Berth needs not.
//
//	cd host/schedule/oracletest/kubescheduler
//	go test .                          # a few seeds, live, through the shipped guests
//	BERTH_CAMPAIGN=1 go test .         # thousands
//	go test -run Answers -update .     # writes the answers that CI compares with
package kubescheduler
